"""Workers that are threads of the program.

They share its memory, so a batch is handed over as it is; they see the same dataset; and they cannot be ended from
outside: one that is stuck is named, and left behind.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
import weakref
from collections import deque
from queue import SimpleQueue
from typing import Any

from rushlight.utils.data import worker
from rushlight.utils.data.fetch import Exhausted
from rushlight.utils.data.transport import Header

GRACE_SECONDS = 2.0  # for threads to finish the batch they are at


class ThreadWorker:
    """One worker thread, what it has to do, and what it has done."""

    def __init__(self, id: int, info: worker.WorkerInfo, job: worker.Job, ready: threading.Condition) -> None:
        self.id = id
        self.unanswered = 0
        self.stopped = False
        self.messages: SimpleQueue = SimpleQueue()
        self.results: deque[Header] = deque()
        self.thread = threading.Thread(
            target=_serve, args=(self, info, job, ready), name=f"DataLoader-{id}", daemon=True
        )
        self.thread.start()

    def value(self, header: Header) -> Any:
        """The batch that the worker made.

        Raises:
            BaseException: the error that it met instead.
        """
        if header.status == "error":
            raise header.payload
        return header.payload

    def discard(self, header: Header) -> None:
        """Drop a result unseen."""

    def place(self) -> str:
        """Where in its code the thread is."""
        frame = sys._current_frames().get(self.thread.ident)
        if frame is None:
            return "has ended"
        found = traceback.extract_stack(frame)[-1]
        return f"is in {found.name}, {found.filename} line {found.lineno}"


class ThreadPool:
    """The worker threads of a loader; like `Pool`, which has the processes.

    Args:
        timeout: seconds to wait for a result; 0 waits for ever.
    """

    def __init__(self, job: worker.Job, base_seed: int, timeout: float) -> None:
        self.timeout = timeout
        self._ready = threading.Condition()
        self.workers: list[ThreadWorker] = []
        self._close = weakref.finalize(self, _end, self.workers, os.getpid())
        for id in range(job.num_workers):
            info = worker.WorkerInfo(id, job.num_workers, base_seed + id, job.dataset)
            self.workers.append(ThreadWorker(id, info, job, self._ready))

    def send_task(self, each: ThreadWorker, number: int, indices: Any) -> list[Header]:
        """Give a worker something to fetch; there is always room for that."""
        each.unanswered += 1
        each.messages.put(worker.Task(number, indices, []))
        return []

    def begin_epoch(self, base_seed: int) -> None:
        """Tell all workers that a new pass begins."""
        for each in self.workers:
            each.messages.put(worker.Epoch(base_seed))

    def receive(self, candidates: list[ThreadWorker]) -> tuple[ThreadWorker, Header]:
        """Wait for the next result of one of the workers.

        Raises:
            RuntimeError: when none answered within the timeout.
        """

        def answered() -> ThreadWorker | None:
            return next((each for each in candidates if each.results), None)

        with self._ready:
            each = self._ready.wait_for(answered, self.timeout or None)
        if each is None:
            who = "; ".join(f"thread {each.id} {each.place()}" for each in candidates)
            raise RuntimeError(f"DataLoader timed out after {self.timeout:g} seconds waiting for worker {who}")
        each.unanswered -= 1
        return each, each.results.popleft()

    def end_tasks(self) -> None:
        """Let each worker end when it has done what it was given."""
        for each in self.workers:
            each.messages.put(None)

    def close(self) -> None:
        """Stop all workers, and wait a little for those that are at work."""
        self._close()


def _end(workers: list[ThreadWorker], owner: int) -> None:
    if os.getpid() != owner:
        return  # a forked child, which has no such threads
    for each in workers:
        each.stopped = True
        each.messages.put(None)
    deadline = time.monotonic() + GRACE_SECONDS
    for each in workers:
        if each.thread is not threading.current_thread():
            each.thread.join(max(0.0, deadline - time.monotonic()))
    workers.clear()


def _serve(me: ThreadWorker, info: worker.WorkerInfo, job: worker.Job, ready: threading.Condition) -> None:
    worker.be_thread(info)
    service: worker.Service | None = None
    while (message := me.messages.get()) is not None and not me.stopped:
        if service is None:
            service = worker.Service(job, info)
        if isinstance(message, worker.Epoch):
            service.begin(message.base_seed)
            continue
        header = _answer(me.id, service, message)
        with ready:
            me.results.append(header)
            ready.notify()


def _answer(id: int, service: worker.Service, task: worker.Task) -> Header:
    status, samples, seconds = "batch", 0, 0.0
    value: Any
    try:
        value, samples, seconds = service.fetch(task.indices)
    except Exhausted:
        status, value = "end", None
    except (StopIteration, SystemExit) as error:
        # Raised in the loop, one would end it and the other the program as if all were well.
        status, value = "error", RuntimeError(f"DataLoader worker thread {id} was left by {error!r}")
        value.__cause__ = error
    except BaseException as error:
        error.add_note(f"This was in DataLoader worker thread {id}.")
        status, value = "error", error
    return Header(task.number, status, value, [], [], [], samples, seconds, 0.0)
