"""What a worker does: it takes tasks, fetches batches and gives them back."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from rushlight.utils.data import bridge, payload
from rushlight.utils.data.blocks import Block, receive_spares
from rushlight.utils.data.collate import CollateMap, default_collate_fn_map
from rushlight.utils.data.errors import describe
from rushlight.utils.data.fetch import Exhausted, IterableFetcher, MapFetcher, fetcher
from rushlight.utils.data.transport import Outbox

PARENT_CHECK_SECONDS = 5.0
# A process that an MPI launcher started carries these; an MPI library that meets them in a worker takes it for a rank.
MPI_PREFIXES = ("OMPI_", "PMIX_", "PRTE_", "PMI_", "MPI_LOCAL", "HYD")


@dataclass
class WorkerInfo:
    """What a worker knows about itself; see `get_worker_info`."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


@dataclass
class Job:
    """What every worker of a loader needs to know."""

    dataset: Any
    batched: bool
    collate_fn: Callable
    collate_fn_map: CollateMap
    drop_last: bool
    worker_init_fn: Callable[[int], None] | None
    num_workers: int


@dataclass
class Epoch:
    """Message: a new pass over the dataset begins."""

    base_seed: int


@dataclass
class Task:
    """Message: fetch this; the listed blocks are free again."""

    number: int
    indices: Any
    free_blocks: list[int]


_info: WorkerInfo | None = None  # of a worker process
_thread = threading.local()  # of a thread that is a worker


def get_worker_info() -> WorkerInfo | None:
    """In a worker its `id`, `num_workers`, `seed` and `dataset` (a process has its own copy); None elsewhere.

    Example:
        >>> get_worker_info() is None
        True
    """
    return getattr(_thread, "info", None) or _info


def be_thread(info: WorkerInfo) -> None:
    """Let `get_worker_info` answer with `info` in this thread."""
    _thread.info = info


class Service:
    """What a worker does with the messages it gets, be it a process or a thread.

    Args:
        broken: an error that happened before; every task is answered with it.
    """

    def __init__(self, job: Job | None, info: WorkerInfo | None, broken: Exception | None = None) -> None:
        self.job = job
        self.info = info
        self.broken = broken
        self.source: MapFetcher | IterableFetcher | None = None
        if broken is None and job.worker_init_fn is not None:
            try:
                job.worker_init_fn(info.id)
            except Exception as error:
                self.broken = error

    def begin(self, base_seed: int) -> None:
        """Begin a new pass."""
        self.source = None
        if self.info is not None:
            self.info.seed = base_seed + self.info.id

    def fetch(self, indices: Any) -> tuple[Any, int, float]:
        """The batch for one task, the number of its samples, and the seconds it took.

        Raises:
            Exhausted: when an IterableDataset has no more.
        """
        if self.broken is not None:
            raise self.broken
        job = self.job
        start = time.perf_counter()
        if self.source is None:
            self.source = fetcher(job.dataset, job.batched, job.collate_fn, job.drop_last)
        # Nothing here refers to the batch: a block is free again only when nothing refers to its arrays.
        return self.source.fetch(indices), self.source.samples, time.perf_counter() - start


def main(
    connection: Connection,
    job: Job | None,
    worker_id: int,
    base_seed: int,
    spares: list[Block],
    to_close: list[Connection],
) -> None:
    """Run a worker until the main process ends the connection or is gone.

    Args:
        job: None when it is not inherited: then the connection brings blocks and it.
        spares: blocks of an earlier pass to write into.
        to_close: inherited connections of others.
    """
    # Ctrl-C reaches the whole process group; the main process decides what becomes of its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for inherited in to_close:
        inherited.close()
    for name in [name for name in os.environ if name.startswith(MPI_PREFIXES)]:
        del os.environ[name]
    # A collection that walked the parent's objects would copy every page they are on.
    gc.freeze()
    bridge.use_one_thread()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        if job is None:
            spares = receive_spares(connection)
        _serve(Outbox(connection, spares), job, worker_id, base_seed)


def _serve(outbox: Outbox, job: Job | None, worker_id: int, base_seed: int) -> None:
    global _info
    bridge.set_allocator(outbox.arena.empty)
    bridge.seed_worker(base_seed + worker_id)
    parent = os.getppid()
    service = None
    if job is None:
        try:
            job = payload.receive(outbox.connection)
            # With the types that the program has added.
            default_collate_fn_map.update(job.collate_fn_map)
        except Exception as error:  # whatever the dataset's own unpickling raises
            service = Service(None, None, error)
    if service is None:
        _info = WorkerInfo(worker_id, job.num_workers, base_seed + worker_id, job.dataset)
        service = Service(job, _info)
    first_pass = True
    while True:
        message = _next_message(outbox.connection, parent)
        if isinstance(message, Epoch):
            service.begin(message.base_seed)
            if not first_pass:
                bridge.seed_worker(message.base_seed + worker_id)
            first_pass = False
            continue
        outbox.arena.give_back(message.free_blocks)
        try:
            result = outbox.pack(message.number, "batch", *service.fetch(message.indices))
        except Exhausted:
            result = outbox.pack(message.number, "end", None)
        except Exception as error:
            result = outbox.pack(message.number, "error", describe(error, worker_id))
        outbox.send(*result)


def _next_message(connection: Connection, parent: int) -> Epoch | Task:
    while not connection.poll(PARENT_CHECK_SECONDS):
        # Another process may hold a copy of the pipe's other end, so its end alone is not proof.
        mother = multiprocessing.parent_process()
        if os.getppid() != parent or mother is None or not mother.is_alive():
            raise EOFError
    return connection.recv()
