"""Fetching: from a list of indices to a batch, in whichever process does the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rushlight import Tensor
from rushlight.utils.data.collate import collate_tensor_fn, default_collate, default_collate_fn_map
from rushlight.utils.data.dataset import IterableDataset


class Exhausted(Exception):
    """An IterableDataset has no more samples in this process."""


class MapFetcher:
    """Batches of a map-style dataset.

    Args:
        batched: whether tasks are lists of indices, or single indices (`batch_size=None`).

    Attributes:
        samples: how many samples the last task had.
    """

    def __init__(self, dataset: Any, batched: bool, collate_fn: Callable, drop_last: bool) -> None:
        self.dataset = dataset
        self.batched = batched
        self.collate_fn = collate_fn
        self.take_batch = getattr(dataset, "take_batch", None) if batched and collate_fn is default_collate else None
        self.fetch_many = getattr(dataset, "__getitems__", None)

    def fetch(self, task: Any) -> Any:
        """The batch for one task; an error in the dataset gets a note that names the sample."""
        self.samples = 1
        if not self.batched:
            return self.collate_fn(self._sample(task))
        task = task if hasattr(task, "__len__") else list(task)
        self.samples = len(task)
        if self.take_batch is not None and default_collate_fn_map.get(Tensor) is collate_tensor_fn:
            batch = self._take(task)
            if batch is not None:
                return batch
        if self.fetch_many:
            return self.collate_fn(self._samples(task))
        dataset = self.dataset
        samples = []
        index = None
        try:
            for index in task:
                samples.append(dataset[index])
        except Exception as error:
            error.add_note(f"This was sample {index!r} of {type(dataset).__name__}.")
            raise
        return self.collate_fn(samples)

    def _samples(self, task: Any) -> Any:
        try:
            return self.fetch_many(task)
        except Exception as error:
            error.add_note(f"This was in samples {list(task)} of {type(self.dataset).__name__}.")
            raise

    def _take(self, task: Any) -> list[Tensor] | None:
        indices = np.asarray(task)
        if indices.ndim != 1 or indices.dtype.kind != "i":
            return None
        return self.take_batch(indices)

    def _sample(self, index: Any) -> Any:
        try:
            return self.dataset[index]
        except Exception as error:
            error.add_note(f"This was sample {index!r} of {type(self.dataset).__name__}.")
            raise


class IterableFetcher:
    """Batches of an iterable dataset: the indices of a task only say how many samples are wanted."""

    def __init__(self, dataset: Any, batched: bool, collate_fn: Callable, drop_last: bool) -> None:
        self.stream: Iterator = iter(dataset)
        self.batched = batched
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.ended = False

    def fetch(self, task: Any) -> Any:
        """The next batch.

        Raises:
            Exhausted: when there is none.
        """
        if self.ended:
            raise Exhausted
        self.samples = 1
        if not self.batched:
            return self.collate_fn(self._next())
        samples: list = []
        try:
            for _ in task:
                samples.append(self._next())
        except Exhausted:
            if not samples or self.drop_last:
                raise
        self.samples = len(samples)
        return self.collate_fn(samples)

    def _next(self) -> Any:
        try:
            return next(self.stream)
        except StopIteration:
            self.ended = True
            raise Exhausted from None


def fetcher(dataset: Any, batched: bool, collate_fn: Callable, drop_last: bool) -> MapFetcher | IterableFetcher:
    """The fetcher for the kind of `dataset`."""
    cls = IterableFetcher if isinstance(dataset, IterableDataset) else MapFetcher
    return cls(dataset, batched, collate_fn, drop_last)
