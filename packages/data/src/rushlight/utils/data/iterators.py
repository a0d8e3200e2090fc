"""One pass over a loader: in this process, or with workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rushlight import Tensor
from rushlight.utils.data import bridge
from rushlight.utils.data.collate import default_collate_fn_map
from rushlight.utils.data.errors import rebuild
from rushlight.utils.data.fetch import Exhausted, fetcher
from rushlight.utils.data.pool import Pool, Worker
from rushlight.utils.data.transport import Header
from rushlight.utils.data.worker import Job

if TYPE_CHECKING:
    from rushlight.utils.data.dataloader import DataLoader

LONG_TASK = 2000  # indices; shorter tasks fit into the pipe's buffer together


@dataclass
class LoaderStats:
    """Where the time of a pass went, in seconds, summed over its batches.

    `wait` is what the program spent waiting for the loader; `fetch` is dataset and collation, `transfer` is packing and
    unpacking, both in the workers or, without workers, in the program itself. When `wait` is small beside the whole,
    data is not the bottleneck.
    """

    batches: int = 0
    wait: float = 0.0
    fetch: float = 0.0
    transfer: float = 0.0


class LoaderIterator(Iterator):
    """What both kinds of pass share."""

    def __init__(self, loader: DataLoader, tasks: Iterator, base_seed: int, skip: int) -> None:
        self.tasks = tasks
        self.base_seed = base_seed
        self.skip = skip
        self.stats = LoaderStats()
        self.finish: Callable[[Any], Any] = pin if loader.pin_memory and bridge.can_pin() else _same

    def __iter__(self) -> LoaderIterator:
        return self

    def __next__(self) -> Any:
        start = time.perf_counter()
        try:
            while self.skip:
                self._fetch()
                self.skip -= 1
            batch = self.finish(self._fetch())
        finally:
            self.stats.wait += time.perf_counter() - start
        self.stats.batches += 1
        return batch

    def _fetch(self) -> Any:
        raise NotImplementedError


class SerialIterator(LoaderIterator):
    """A pass without workers: a batch is fetched when it is asked for."""

    def __init__(self, loader: DataLoader, tasks: Iterator, base_seed: int, skip: int) -> None:
        super().__init__(loader, tasks, base_seed, skip)
        self.source = fetcher(loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last)

    def _fetch(self) -> Any:
        task = next(self.tasks)
        start = time.perf_counter()
        try:
            return self.source.fetch(task)
        except Exhausted:
            raise StopIteration from None
        except StopIteration as stop:
            # Let through, it would end the loop as if all were well.
            raise RuntimeError("the dataset or collate_fn raised StopIteration") from stop
        finally:
            self.stats.fetch += time.perf_counter() - start


class WorkerIterator(LoaderIterator):
    """A pass with workers, which get tasks in turn, ahead of time; results come out in task order (or as ready)."""

    def __init__(self, loader: DataLoader, tasks: Iterator, base_seed: int, skip: int) -> None:
        super().__init__(loader, tasks, base_seed, skip)
        job = Job(
            loader.dataset,
            loader._auto_collation,
            loader.collate_fn,
            default_collate_fn_map,
            loader.drop_last,
            loader.worker_init_fn,
            loader.num_workers,
        )
        self.in_order = loader.in_order
        self.keep_workers = loader.persistent_workers
        self.ahead = max(1, loader.prefetch_factor or 0)
        self.pool = Pool(loader._context(), job, base_seed, loader.timeout, loader._kept)
        self._begin()

    def restart(self, loader: DataLoader, tasks: Iterator, base_seed: int, skip: int) -> None:
        """Begin another pass with the same workers; what the last one left unread is dropped."""
        super().__init__(loader, tasks, base_seed, skip)
        for header in self.results.values():
            self.workers_by_task[header.task].inbox.discard(header)
        for each in self.pool.workers:
            while each.unanswered:
                _, header = self.pool.receive([each])
                each.inbox.discard(header)
        self._begin()

    def _begin(self) -> None:
        self.workers_by_task: dict[int, Worker] = {}  # tasks not given out yet, in order
        self.results: dict[int, Header] = {}  # those of them that came before their turn
        self.active = set(self.pool.workers)  # whose part of an IterableDataset has not ended
        self.turn = 0
        self.count = 0
        self.no_more = False
        self._guarded(self._prime)

    def _guarded(self, step: Callable[[], Any]) -> Any:
        """Run a step; whatever interrupts it between two messages leaves no worker behind."""
        try:
            return step()
        except BaseException:
            self.pool.close()
            raise

    def _prime(self) -> None:
        self.pool.begin_epoch(self.base_seed)
        for _ in range(self.ahead * len(self.active)):
            self._send_next()

    def _send_next(self) -> None:
        each = None if self.no_more else self._next_worker()
        if each is None:
            return
        try:
            indices = next(self.tasks)
        except StopIteration:
            self.no_more = True
            if not self.keep_workers:
                self.pool.end_tasks()
            return
        # A worker reads no task while it is writing a result. So a task that may not fit into the pipe is only sent
        # when all earlier results of the worker are here; else each could wait for the other.
        if hasattr(indices, "__len__") and len(indices) > LONG_TASK:
            while each.unanswered:
                _, header = self.pool.receive([each])
                self.results[header.task] = header
        self.pool.send_task(each, self.count, indices)
        self.workers_by_task[self.count] = each
        self.count += 1

    def _next_worker(self) -> Worker | None:
        """Whose turn it is: in task order simply the next that has something to give; else one that also has room."""
        workers = self.pool.workers
        for _ in workers:
            each = workers[self.turn]
            self.turn = (self.turn + 1) % len(workers)
            if each in self.active and (self.in_order or each.unanswered < self.ahead):
                return each
        return None

    def _fetch(self) -> Any:
        if not self.pool.workers:
            raise StopIteration
        return self._take(*self._guarded(self._receive))

    def _take(self, each: Worker | None, header: Header | None) -> Any:
        if header is None or each is None:
            if not self.keep_workers:
                self.pool.close()
            raise StopIteration
        if header.status == "error":
            raise rebuild(each.inbox.unpack(header))
        start = time.perf_counter()
        batch = each.inbox.unpack(header)
        self.stats.fetch += header.fetch_seconds
        self.stats.transfer += header.pack_seconds + time.perf_counter() - start
        return batch

    def _receive(self) -> tuple[Worker | None, Header | None]:
        while self.workers_by_task:
            number = next(iter(self.workers_by_task))
            if not self.in_order and self.results:
                number = next(iter(self.results))
            if number not in self.results:
                waited_for = [self.workers_by_task[number]] if self.in_order else self._busy()
                _, header = self.pool.receive(waited_for)
                self.results[header.task] = header
                continue
            header = self.results.pop(number)
            each = self.workers_by_task.pop(number)
            if header.status == "end":
                self.active.discard(each)
                self._send_next()
                continue
            self._send_next()
            return each, header
        return None, None

    def _busy(self) -> list[Worker]:
        return [each for each in self.pool.workers if each.unanswered]


def _same(batch: Any) -> Any:
    return batch


def pin(data: Any) -> Any:
    """Move the tensors of a batch to pinned memory; an object with a method `pin_memory` pins itself."""
    if isinstance(data, Tensor):
        return bridge.pinned(data)
    if isinstance(data, dict):
        return {key: pin(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(pin, data))
    if isinstance(data, (list, tuple)):
        return type(data)(map(pin, data))
    return data.pin_memory() if hasattr(data, "pin_memory") else data
