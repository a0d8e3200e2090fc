"""A loader's worker processes, as the main process sees them."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import socket
import time
import warnings
import weakref
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

from rushlight.utils.data import start, worker
from rushlight.utils.data.blocks import SPARE_BYTES, Block
from rushlight.utils.data.errors import exit_reason
from rushlight.utils.data.payload import Payload
from rushlight.utils.data.transport import Header, Inbox

CHECK_SECONDS = 1.0  # how often a silent worker is looked at
SILENCE_WARNING_SECONDS = 120.0  # without a timeout, a worker that says nothing for so long is named in a warning
GRACE_SECONDS = 2.0  # for a worker to end by itself, before it is made to
TERMINATE_SECONDS = 0.5  # for SIGTERM to work before SIGKILL


class Worker:
    """One worker process and the connection to it."""

    def __init__(self, id: int, process: BaseProcess, inbox: Inbox) -> None:
        self.id = id
        self.process = process
        self.connection = inbox.connection
        self.inbox = inbox
        self.unanswered = 0

    def death(self) -> RuntimeError:
        """The error for a worker whose connection has ended."""
        self.process.join(CHECK_SECONDS)
        return RuntimeError(exit_reason(self.id, self.process.pid, self.process.exitcode))


class Pool:
    """Starts the workers of a loader, talks to them, and ends them: at the latest at its own or the interpreter's end.

    Args:
        timeout: seconds to wait for a result; 0 waits for ever, with a warning now and then.
        spares: blocks that the last pool of the loader left; this one will put its own there. Making blocks costs
            most in a short pass over large batches.

    Raises:
        TypeError: when workers cannot be forked and the job cannot be pickled.
    """

    def __init__(
        self, context: BaseContext, job: worker.Job, base_seed: int, timeout: float, spares: list[mmap.mmap]
    ) -> None:
        self.workers: list[Worker] = []
        self.timeout = timeout
        self._close = weakref.finalize(self, _end, self.workers, spares, os.getpid())
        forks = context.get_start_method() == "fork"
        payload = None if forks else Payload(job)
        try:
            with start.starting(context):
                for id in range(job.num_workers):
                    mine = spares[id :: job.num_workers] if forks else []
                    self._start(context, job if forks else None, id, base_seed, mine)
            spares.clear()
            if payload is not None:
                for each in self.workers:
                    with self._watch(each):
                        payload.send(each.connection)
        except BaseException:
            self.close()
            raise
        finally:
            if payload is not None:
                payload.close()

    def _start(
        self, context: BaseContext, job: worker.Job | None, id: int, base_seed: int, spares: list[mmap.mmap]
    ) -> None:
        blocks = [Block(i, len(memory), memory) for i, memory in enumerate(spares)]
        ours, theirs = context.Pipe(duplex=True)
        # A forked worker holds copies of our ends, which would hide from its siblings that we are gone.
        inherited = [] if job is None else [each.connection for each in self.workers] + [ours]
        process = context.Process(  # type: ignore[attr-defined]
            target=worker.main,
            args=(theirs, job, id, base_seed, blocks, inherited),
            name=f"DataLoader-{id}",
            daemon=True,
        )
        process.start()
        theirs.close()
        self.workers.append(Worker(id, process, Inbox(ours, blocks)))

    @contextlib.contextmanager
    def _watch(self, each: Worker) -> Any:
        try:
            yield
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise each.death() from None

    def send_task(self, each: Worker, number: int, indices: Any) -> None:
        """Give a worker something to fetch."""
        each.unanswered += 1
        # That a worker is dead is told when its turn comes: what it and others did before is still given out.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            each.connection.send(worker.Task(number, indices, each.inbox.leases.collect()))

    def begin_epoch(self, base_seed: int) -> None:
        """Tell all workers that a new pass begins."""
        for each in self.workers:
            with self._watch(each):
                each.connection.send(worker.Epoch(base_seed))

    def receive(self, candidates: list[Worker]) -> tuple[Worker, Header]:
        """Wait for the next result of one of the workers.

        Raises:
            RuntimeError: when a worker died, or none answered within the timeout.
        """
        begin = time.monotonic()
        warn_at = begin + SILENCE_WARNING_SECONDS
        connections: dict[Any, Worker] = {each.connection: each for each in candidates}
        while True:
            ready = wait(list(connections), CHECK_SECONDS if not self.timeout else min(CHECK_SECONDS, self.timeout))
            if ready:
                each = connections[ready[0]]
                with self._watch(each):
                    header = each.inbox.receive()
                each.unanswered -= 1
                return each, header
            for each in candidates:
                # Its pipe may be held open by a process it started.
                if not each.process.is_alive() and not each.connection.poll(0):
                    raise each.death()
            now = time.monotonic()
            who = ", ".join(f"{each.id} (pid {each.process.pid})" for each in candidates)
            if self.timeout and now - begin >= self.timeout:
                raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds waiting for worker {who}")
            if now >= warn_at:
                warn_at = now + SILENCE_WARNING_SECONDS
                warnings.warn(
                    f"DataLoader has waited {now - begin:.0f} seconds for worker {who}; "
                    "pass timeout=SECONDS to make this an error",
                    stacklevel=4,
                )

    def end_tasks(self) -> None:
        """Let each worker end when it has done what it was given."""
        for each in self.workers:
            _shut(each.connection, socket.SHUT_WR)

    def close(self) -> None:
        """End all workers and wait until they are gone."""
        self._close()


def _end(workers: list[Worker], spares: list[mmap.mmap], owner: int) -> None:
    if os.getpid() != owner:
        return  # a forked child that inherited the pool
    for each in workers:
        _shut(each.connection, socket.SHUT_RDWR)
        each.connection.close()
    deadline = time.monotonic() + GRACE_SECONDS
    for each in workers:
        each.process.join(max(0.0, deadline - time.monotonic()))
    for each in workers:
        if each.process.exitcode is None:
            each.process.terminate()
    for each in workers:
        each.process.join(TERMINATE_SECONDS)
        if each.process.exitcode is None:
            each.process.kill()
            each.process.join()
        each.process.close()
    for memory in itertools.chain(*[each.inbox.leases.unused() for each in workers]):
        if sum(map(len, spares)) + len(memory) <= SPARE_BYTES:
            spares.append(memory)
    workers.clear()


def _shut(connection: Connection, how: int) -> None:
    """End a connection for the worker. Closing would not do: a process forked later may hold a copy of this end."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as sock:
        sock.shutdown(how)
