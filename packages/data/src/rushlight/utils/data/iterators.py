"""One pass over a loader: in this process, or with workers."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rushlight import Tensor
from rushlight.utils.data import bridge
from rushlight.utils.data.collate import default_collate_fn_map
from rushlight.utils.data.dataset import IterableDataset
from rushlight.utils.data.fetch import Exhausted, fetcher
from rushlight.utils.data.pool import Pool, Worker
from rushlight.utils.data.resume import Position
from rushlight.utils.data.stats import LoaderStats, Meter
from rushlight.utils.data.threads import ThreadPool, ThreadWorker
from rushlight.utils.data.transport import Header
from rushlight.utils.data.worker import Job

if TYPE_CHECKING:
    from rushlight.utils.data.dataloader import DataLoader

AnyWorker = Worker | ThreadWorker


class LoaderIterator(Iterator):
    """What both kinds of pass share.

    Args:
        position: the tasks whose batches are not wanted; moves on with every batch.
    """

    def __init__(self, loader: DataLoader, tasks: Iterator, base_seed: int, position: Position) -> None:
        self.position = position
        self.tasks = enumerate(tasks)
        self.skip = 0
        self.by_count = isinstance(loader.dataset, IterableDataset)
        if self.by_count:
            # Only reading finds the way to a position in a stream.
            self.skip = position.done
        elif position.done or position.beyond:
            before = position.copy()
            self.tasks = ((number, task) for number, task in enumerate(tasks) if number not in before)
        self.base_seed = base_seed
        self.stats = LoaderStats()
        self.start = time.perf_counter()
        self.finish: Callable[[Any], Any] | None = pin if loader.pin_memory and bridge.can_pin() else None
        self.meter: Meter | None = None
        if loader.progress:
            self.meter = Meter(position.done + len(position.beyond), _length(loader))
            weakref.finalize(self, self.meter.close)

    def __iter__(self) -> LoaderIterator:
        return self

    def __next__(self) -> Any:
        start = time.perf_counter()
        stats = self.stats
        try:
            while self.skip:
                self._fetch()
                self.skip -= 1
            number, samples, batch = self._fetch()
            if self.finish is not None:
                batch = self._finished(batch)
        except StopIteration:
            if self.meter is not None:
                self.meter.close()
            raise
        finally:
            now = time.perf_counter()
            stats.wait += now - start
            stats.elapsed = now - self.start
        stats.batches += 1
        stats.samples += samples
        self.position.take(self.position.done if self.by_count else number)
        if self.meter is not None:
            self.meter.show(stats)
        return batch

    def _finished(self, batch: Any) -> Any:
        start = time.perf_counter()
        batch = self.finish(batch)
        self.stats.transfer += time.perf_counter() - start
        return batch

    def _fetch(self) -> tuple[int, int, Any]:
        """The number of the next task, how many samples it had, and its batch."""
        raise NotImplementedError


class SerialIterator(LoaderIterator):
    """A pass without workers: a batch is fetched when it is asked for."""

    def __init__(self, loader: DataLoader, tasks: Iterator, base_seed: int, position: Position) -> None:
        if loader.timeout:
            raise AssertionError(
                f"timeout option needs workers: nothing can be done about a dataset that is stuck in this process; "
                f"got timeout={loader.timeout} and num_workers=0"
            )
        super().__init__(loader, tasks, base_seed, position)
        self.source = fetcher(loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last)

    def _fetch(self) -> tuple[int, int, Any]:
        number, task = next(self.tasks)
        start = time.perf_counter()
        try:
            batch = self.source.fetch(task)
        except Exhausted:
            raise StopIteration from None
        except StopIteration as stop:
            # Let through, it would end the loop as if all were well.
            raise RuntimeError("the dataset or collate_fn raised StopIteration") from stop
        finally:
            self.stats.decode += time.perf_counter() - start
        return number, self.source.samples, batch


class WorkerIterator(LoaderIterator):
    """A pass with workers, which get tasks in turn, ahead of time; results come out in task order (or as ready)."""

    def __init__(self, loader: DataLoader, tasks: Iterator, base_seed: int, position: Position) -> None:
        super().__init__(loader, tasks, base_seed, position)
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
        self.pool: Any  # a Pool or a ThreadPool
        if loader.worker_type == "thread":
            self.pool = ThreadPool(job, base_seed, loader.timeout)
        else:
            self.pool = Pool(loader._context(), job, base_seed, loader.timeout, loader._kept)
        self._begin()

    def restart(self, loader: DataLoader, tasks: Iterator, base_seed: int, position: Position) -> None:
        """Begin another pass with the same workers; what the last one left unread is dropped."""
        if self.meter is not None:
            self.meter.close()
        super().__init__(loader, tasks, base_seed, position)
        for header in self.results.values():
            self.workers_by_task[header.task].discard(header)
        for each in self.pool.workers:
            while each.unanswered:
                _, header = self._guarded(lambda: self.pool.receive([each]))  # noqa: B023, called at once
                each.discard(header)
        self._begin()

    def _begin(self) -> None:
        self.workers_by_task: dict[int, AnyWorker] = {}  # tasks not given out yet, in order
        self.results: dict[int, Header] = {}  # those of them that came before their turn
        self.active = set(self.pool.workers)  # whose part of an IterableDataset has not ended
        self.turn = 0
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
            number, indices = next(self.tasks)
        except StopIteration:
            self.no_more = True
            if not self.keep_workers:
                self.pool.end_tasks()
            return
        for header in self.pool.send_task(each, number, indices):
            self.results[header.task] = header
        self.workers_by_task[number] = each

    def _next_worker(self) -> AnyWorker | None:
        """Whose turn it is: in task order simply the next that has something to give; else one that also has room."""
        workers = self.pool.workers
        for _ in workers:
            each = workers[self.turn]
            self.turn = (self.turn + 1) % len(workers)
            if each in self.active and (self.in_order or each.unanswered < self.ahead):
                return each
        return None

    def _fetch(self) -> tuple[int, int, Any]:
        if not self.pool.workers:
            raise StopIteration
        each, header = self._guarded(self._receive)
        if header is None:
            if not self.keep_workers:
                self.pool.close()
            raise StopIteration
        start = time.perf_counter()
        batch = each.value(header)
        self.stats.decode += header.fetch_seconds
        self.stats.transfer += header.pack_seconds + time.perf_counter() - start
        return header.task, header.samples, batch

    def _receive(self) -> tuple[AnyWorker | None, Header | None]:
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

    def _busy(self) -> list[AnyWorker]:
        return [each for each in self.pool.workers if each.unanswered]


def _length(loader: DataLoader) -> int | None:
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return None


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
