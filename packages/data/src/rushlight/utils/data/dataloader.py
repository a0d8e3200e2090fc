"""The loader: batches of a dataset, in order or shuffled, from this process or from workers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

from rushlight.utils.data import arguments, bridge, start
from rushlight.utils.data.collate import default_collate, default_convert
from rushlight.utils.data.dataset import Dataset, IterableDataset
from rushlight.utils.data.iterators import LoaderIterator, SerialIterator, WorkerIterator
from rushlight.utils.data.pool import Kept
from rushlight.utils.data.resume import Order, Position
from rushlight.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from rushlight.utils.data.stats import LoaderStats
from rushlight.utils.data.worker import get_worker_info

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

T_co = TypeVar("T_co", covariant=True)

FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
DEFAULT_PREFETCH = 2
DEFAULT_TIMEOUT = 120


class _Endless(Sampler):
    """Tasks for an IterableDataset, which decides itself when it ends."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[T_co]):
    """Iterates over a dataset in batches.

    Args:
        dataset: map-style (`__getitem__`, `__len__`) or an `IterableDataset`.
        batch_size: samples per batch; None gives single samples, or what `sampler` asks for, without collation.
        shuffle: visit the samples in a new random order every pass.
        sampler: order of the indices, in place of `shuffle`.
        batch_sampler: lists of indices, in place of `batch_size`, `shuffle`, `sampler` and `drop_last`.
        num_workers: workers that fetch batches ahead of time; 0 fetches in this process. The order does not depend on
            it.
        collate_fn: makes a batch of a list of samples; `default_collate` by default (`default_convert` without
            batches).
        pin_memory: put tensors into page-locked memory, where there is a GPU.
        drop_last: leave out a last batch that is not full.
        timeout: seconds to wait for a worker before an error (default 120); 0 never gives up on one that is alive. A
            dead one is noticed at once.
        worker_init_fn: called in each worker with its id, after seeding and before the first sample.
        multiprocessing_context: how to start workers: "forkserver" (the default on Linux), "spawn", "fork", or a
            context; see `rushlight.utils.data.start`.
        generator: where the order and the workers' seeds come from; the default generator when None.
        prefetch_factor: batches that each worker works ahead (default 2).
        persistent_workers: keep the workers after a pass for the next one.
        in_order: give batches out in the sampler's order; else as they get ready.
        worker_type: "process", or "thread" for datasets that wait for files or networks, or whose work lets other
            threads run. Threads share the dataset and need not start; a stuck one is named but cannot be ended.
        progress: show samples per second and the share of time spent waiting for data on stderr.

    In worker processes, `random`, `numpy.random` and rushlight are seeded anew each pass, each worker differently.
    Threads share the program's generators; use generators of your own there, seeded by `get_worker_info().seed`.

    Raises:
        ValueError: for arguments that are out of range or exclude each other.
        TypeError: for a generator or context of another kind, or, with workers, a dataset that cannot be pickled.

    Example:
        >>> for batch in DataLoader(range(5), batch_size=2):
        ...     print(batch)
        tensor([0, 1])
        tensor([2, 3])
        tensor([4])
    """

    def __init__(
        self,
        dataset: Dataset[T_co] | Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable | None = None,
        batch_sampler: Iterable | None = None,
        num_workers: int = 0,
        collate_fn: Callable | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float | None = None,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        worker_type: str = "process",
        progress: bool = False,
    ) -> None:
        if timeout is None:
            timeout = DEFAULT_TIMEOUT if num_workers else 0
        arguments.check_generator(generator)
        arguments.check_workers(num_workers, timeout, prefetch_factor, persistent_workers, worker_type)
        iterable = isinstance(dataset, IterableDataset)
        if iterable:
            arguments.check_iterable(shuffle, sampler, batch_sampler)
        arguments.check_exclusive(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = DEFAULT_PREFETCH if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.worker_type = worker_type
        self.progress = progress
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.generator = generator
        self.persistent_workers = persistent_workers
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None:
            sampler = _default_sampler(dataset, iterable, shuffle, generator)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)
        self._iterator: LoaderIterator | None = None  # the one whose workers persist
        self._stats = LoaderStats()
        self._kept = Kept()
        self._position = Position()
        self._order_state: dict | None = None  # what the order depended on when the last pass began
        self._resume: dict | None = None
        self._ready = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and getattr(self, "_ready", False):
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized: make a new one"
            )
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        # A copy gets workers and shared memory of its own.
        return {**self.__dict__, "_iterator": None, "_kept": Kept()}

    @property
    def multiprocessing_context(self) -> BaseContext | None:
        """The context that workers are started with, or None when it is chosen at each start."""
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: str | BaseContext | None) -> None:
        self._multiprocessing_context = arguments.context_of(context, self.num_workers, self.worker_type)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def _context(self) -> BaseContext:
        context = self.multiprocessing_context
        if context is None:
            return start.default_context()
        if context.get_start_method() == "fork" and (trouble := start.certain_trouble()):
            raise RuntimeError(f'workers cannot be forked now: {trouble}. Use multiprocessing_context="forkserver"')
        return context

    def __iter__(self) -> Iterator[Any]:
        resume, self._resume = self._resume, None
        order = Order(self)
        if resume is None:
            self._order_state = order.state()
            return self._begin(Position(), lambda tasks: tasks)
        self._order_state = resume["order"]
        with order.replayed(resume["order"]):
            # A sampler may draw when it is first asked, so that is done in here too.
            return self._begin(Position(resume["batches"], set(resume["beyond"])), _started)

    def _begin(self, position: Position, prepare: Callable[[Iterator], Iterator]) -> LoaderIterator:
        base_seed = bridge.seed_from(self.generator)
        tasks = prepare(iter(self._index_sampler))
        iterator = self._iterator
        if isinstance(iterator, WorkerIterator) and iterator.pool.workers:
            iterator.restart(self, tasks, base_seed, position)
        else:
            cls = WorkerIterator if self.num_workers else SerialIterator
            iterator = cls(self, tasks, base_seed, position)
        # Not the iterator itself: a loop that is left must let go of its workers.
        self._stats, self._position = iterator.stats, position
        if self.persistent_workers:
            self._iterator = iterator
        return iterator

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self._index_sampler)
        length = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def stats(self) -> LoaderStats:
        """Where the time of the current (or last) pass went.

        Example:
            >>> loader = DataLoader(range(6), batch_size=2)
            >>> for _ in loader:
            ...     pass
            >>> loader.stats().batches
            3
        """
        return self._stats

    def state_dict(self) -> dict[str, Any]:
        """The position in the current pass, for `load_state_dict` of a loader over the same dataset, with any number of
        workers. It holds only what `rushlight.save` takes.

        Exact for map-style datasets with samplers that draw when they are asked for an iterator or for their first
        index, as all of this package do; batches that were errors are tried again. An IterableDataset is read again up
        to the position, which needs the same number of workers and `in_order`.

        Raises:
            ValueError: for an IterableDataset with several workers and `in_order=False`, whose order is not repeatable.
        """
        if self._resume is not None:
            return self._resume
        iterable = isinstance(self.dataset, IterableDataset)
        if iterable and self.num_workers > 1 and not self.in_order:
            raise ValueError("state_dict: with in_order=False the order of an IterableDataset cannot be repeated")
        return {
            "batches": self._position.done,
            "beyond": sorted(self._position.beyond),
            "order": self._order_state,
            "num_workers": self.num_workers if iterable else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next pass go on where `state` was taken: batches that were given out before do not come again.

        With `state | {"batches": 0, "beyond": []}` the interrupted pass is replayed from its begin.

        Raises:
            ValueError: for an IterableDataset with another number of workers.
        """
        if state["num_workers"] not in (None, self.num_workers):
            raise ValueError(
                f"load_state_dict: the state is of {state['num_workers']} workers, this loader has {self.num_workers}; "
                "an IterableDataset can be resumed with the same number only"
            )
        self._resume = None if state["order"] is None else dict(state)


def _started(tasks: Iterator) -> Iterator:
    """The same tasks, the first of them drawn now."""
    return itertools.chain(list(itertools.islice(tasks, 1)), tasks)


def _default_sampler(dataset: Any, iterable: bool, shuffle: bool | None, generator: Any) -> Sampler:
    if iterable:
        return _Endless()
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
