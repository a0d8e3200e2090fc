"""A loader's worker processes, as the main process sees them."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import struct
import time
import warnings
import weakref
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

from rushlight.utils.data import start, worker
from rushlight.utils.data.blocks import CAN_SHARE, SPARE_BYTES, Block, SharedFile, send_spares
from rushlight.utils.data.errors import exit_reason, rebuild
from rushlight.utils.data.payload import ArrayFile, Payload
from rushlight.utils.data.transport import Header, Inbox

CHECK_SECONDS = 1.0  # how often a silent worker is looked at
SILENCE_WARNING_SECONDS = 120.0  # without a timeout, a worker that says nothing for so long is named in a warning
PIPE_BYTES = 1 << 16  # surely fit into a pipe that nobody reads
GRACE_SECONDS = 2.0  # for a worker to end by itself, before it is made to
TERMINATE_SECONDS = 0.5  # for SIGTERM to work before SIGKILL


@dataclass
class Kept:
    """Shared memory that a loader keeps from one pass for the next: making it costs most in a short pass.

    Args:
        blocks: for batches.
        file: the dataset's large arrays, for workers that are not forked.
    """

    blocks: list[SharedFile] = field(default_factory=list)
    file: ArrayFile | None = None


class Worker:
    """One worker process and the connection to it."""

    def __init__(self, id: int, process: BaseProcess, inbox: Inbox) -> None:
        self.id = id
        self.process = process
        self.connection = inbox.connection
        self.inbox = inbox
        self.unanswered = 0
        self.sizes: deque[int] = deque()  # of the tasks that are unanswered, in bytes

    def value(self, header: Header) -> Any:
        """The batch that the worker sent.

        Raises:
            BaseException: the error that it sent instead.
        """
        value = self.inbox.unpack(header)
        if header.status == "error":
            raise rebuild(value)
        return value

    def discard(self, header: Header) -> None:
        """Drop a result unseen."""
        self.inbox.leases.drop(header.pieces)

    def death(self) -> RuntimeError:
        """The error for a worker whose connection has ended."""
        self.process.join(CHECK_SECONDS)
        return RuntimeError(exit_reason(self.id, self.process.pid, self.process.exitcode))


class Pool:
    """Starts the workers of a loader, talks to them, and ends them: at the latest at its own or the interpreter's end.

    Args:
        timeout: seconds to wait for a worker; 0 waits for ever, with a warning now and then.
        kept: what the last pool of the loader left; this one will put its own there.

    Raises:
        TypeError: when workers are not forked and the job cannot be pickled.
    """

    def __init__(self, context: BaseContext, job: worker.Job, base_seed: int, timeout: float, kept: Kept) -> None:
        self.workers: list[Worker] = []
        self.timeout = timeout
        self._close = weakref.finalize(self, _end, self.workers, kept.blocks, os.getpid())
        forks = context.get_start_method() == "fork"
        spares = kept.blocks.copy()
        kept.blocks.clear()
        try:
            with start.starting(context):
                for id in range(job.num_workers):
                    self._start(context, job if forks else None, id, base_seed, spares[id :: job.num_workers])
            if not forks:
                self._send_job(job, kept)
        except BaseException:
            self.close()
            raise

    def _start(
        self, context: BaseContext, job: worker.Job | None, id: int, base_seed: int, spares: list[SharedFile]
    ) -> None:
        blocks = [] if job is None else [Block(i, file.size, file.memory) for i, file in enumerate(spares)]
        ours, theirs = context.Pipe(duplex=True)
        _limit(ours, self.timeout)
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
        self.workers.append(Worker(id, process, Inbox(ours, spares)))

    def _send_job(self, job: worker.Job, kept: Kept) -> None:
        payload = Payload(job, kept.file)  # made while the workers start
        for each in self.workers:
            with self._watch(each):
                send_spares(each.connection, each.inbox.leases.unused())
                payload.send(each.connection)
        small = payload.file is not None and payload.file.size <= SPARE_BYTES
        kept.file = payload.file if small else None

    @contextlib.contextmanager
    def _watch(self, each: Worker) -> Any:
        try:
            yield
        except BlockingIOError:  # it stopped in the middle of a message, or reads none
            raise self._timed_out([each]) from None
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise each.death() from None
        except OSError as error:
            if error.errno is None:  # what Connection raises for half a message
                raise each.death() from None
            raise

    def _timed_out(self, candidates: list[Worker]) -> RuntimeError:
        return RuntimeError(
            f"DataLoader timed out after {self.timeout:g} seconds waiting for worker {_names(candidates)}: it is alive "
            "but stuck or too slow. Look into the dataset and collate_fn with num_workers=0, or raise timeout"
        )

    def send_task(self, each: Worker, number: int, indices: Any) -> list[Header]:
        """Give a worker something to fetch; what it had to say before there was room for that is returned."""
        task = ForkingPickler.dumps(worker.Task(number, indices, each.inbox.leases.collect()))
        # A worker reads no task while it is writing a result: if both pipes were full, each would wait for the other.
        headers = []
        while each.sizes and sum(each.sizes) + len(task) > PIPE_BYTES:
            headers.append(self.receive([each])[1])
        each.unanswered += 1
        each.sizes.append(len(task))
        # That a worker is dead is told when its turn comes: what it and others did before is still given out.
        try:
            each.connection.send_bytes(task)
        except (BrokenPipeError, ConnectionResetError):
            pass
        except BlockingIOError:
            raise self._timed_out([each]) from None
        return headers

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
                each.sizes.popleft()
                return each, header
            for each in candidates:
                # Its pipe may be held open by a process it started.
                if not each.process.is_alive() and not each.connection.poll(0):
                    raise each.death()
            now = time.monotonic()
            if self.timeout and now - begin >= self.timeout:
                raise self._timed_out(candidates)
            if now >= warn_at:
                warn_at = now + SILENCE_WARNING_SECONDS
                warnings.warn(
                    f"DataLoader has waited {now - begin:.0f} seconds for worker {_names(candidates)}; "
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


def _end(workers: list[Worker], spares: list[SharedFile], owner: int) -> None:
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
    for file in itertools.chain(*[each.inbox.leases.unused() for each in workers]):
        if sum(spare.size for spare in spares) + file.size <= SPARE_BYTES:
            spares.append(file)
    workers.clear()


def _names(workers: list[Worker]) -> str:
    return ", ".join(f"{each.id} (pid {each.process.pid})" for each in workers)


def _limit(connection: Connection, timeout: float) -> None:
    """Let no read or write of a connection take longer than `timeout` seconds; then it raises BlockingIOError."""
    if timeout and CAN_SHARE:  # else pipes are not sockets
        limit = struct.pack("@ll", int(timeout), max(1, int(timeout % 1 * 1e6)))
        with socket.socket(fileno=os.dup(connection.fileno())) as sock:
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                sock.setsockopt(socket.SOL_SOCKET, option, limit)


def _shut(connection: Connection, how: int) -> None:
    """End a connection for the worker. Closing would not do: a process forked later may hold a copy of this end."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as sock:
        sock.shutdown(how)
