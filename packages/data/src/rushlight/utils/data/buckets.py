"""Batches of samples of similar length, so that padding wastes little."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rushlight import Tensor
from rushlight.utils.data import bridge
from rushlight.utils.data.sampler import Sampler, check_count


class BucketBatchSampler(Sampler[list[int]]):
    """Lists of indices of samples of similar length.

    In random order, every `pool` batches' worth of indices are sorted by length and cut into batches, whose order is
    then random again: a larger pool pads less and mixes less. Without `shuffle` all indices are sorted.

    Args:
        lengths: length of each sample.
        batch_size: samples in a batch; or
        max_tokens: the most that samples times the longest of them may be in a batch. A longer sample is a batch alone.
        drop_last: leave out batches that are not full; only with `batch_size`.
        pool: batches among which samples are sorted.
        generator: where the random order comes from; by default a new one each time, seeded from the default generator.

    Raises:
        ValueError: for lengths that are not a row of numbers, when not one of `batch_size` and `max_tokens` is given,
            and for counts that are not positive.
        TypeError: from `len()` with `max_tokens`, since the number of batches depends on the order.

    Example:
        >>> list(BucketBatchSampler([5, 1, 4, 2, 9], batch_size=2, shuffle=False))
        [[1, 3], [2, 0], [4]]
        >>> list(BucketBatchSampler([5, 1, 4, 2, 9], max_tokens=10, shuffle=False))
        [[1, 3], [2, 0], [4]]
    """

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray | Tensor,
        batch_size: int | None = None,
        *,
        max_tokens: int | None = None,
        shuffle: bool = True,
        drop_last: bool = False,
        pool: int = 100,
        generator: Any = None,
    ) -> None:
        table = np.asarray(lengths.tolist() if isinstance(lengths, Tensor) else lengths)
        if table.ndim != 1 or (len(table) and table.dtype.kind not in "uif"):
            raise ValueError(f"lengths should be a row of numbers, got {table.dtype} of shape {table.shape}")
        if (batch_size is None) == (max_tokens is None):
            raise ValueError(
                f"one of batch_size and max_tokens should be given, got {batch_size} and {max_tokens}"
            )
        if max_tokens is not None and drop_last:
            raise ValueError("drop_last needs batch_size: with max_tokens no batch is full")
        if max_tokens is None:
            check_count("batch_size", batch_size)
        else:
            check_count("max_tokens", max_tokens)
        check_count("pool", pool)
        self.lengths = table
        self.batch_size = batch_size
        self.max_tokens = max_tokens
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.pool = pool
        self.generator = generator

    def __iter__(self) -> Iterator[list[int]]:
        if not self.shuffle:
            return iter(self._cut(np.argsort(self.lengths, kind="stable")))
        generator = self.generator
        if generator is None:
            generator = bridge.generator_from(bridge.seed_from(None))
        order = bridge.permutation(len(self.lengths), generator)
        batches: list[list[int]] = []
        size = self.pool * self._typical_size()
        for low in range(0, len(order), size):
            part = order[low : low + size]
            batches += self._cut(part[np.argsort(self.lengths[part], kind="stable")])
        return iter([batches[i] for i in bridge.permutation(len(batches), generator).tolist()])

    def _typical_size(self) -> int:
        if self.batch_size is not None:
            return self.batch_size
        mean = self.lengths.sum() / max(1, len(self.lengths))
        return max(1, int(self.max_tokens / max(1.0, mean)))

    def _cut(self, order: np.ndarray) -> list[list[int]]:
        """Batches of indices that are in the order of their lengths."""
        if self.batch_size is None:
            return self._cut_by_tokens(order)
        batches = [order[low : low + self.batch_size].tolist() for low in range(0, len(order), self.batch_size)]
        if self.drop_last and batches and len(batches[-1]) < self.batch_size:
            batches.pop()
        return batches

    def _cut_by_tokens(self, order: np.ndarray) -> list[list[int]]:
        batches: list[list[int]] = []
        for index, length in zip(order.tolist(), self.lengths[order].tolist()):
            if batches and (len(batches[-1]) + 1) * length <= self.max_tokens:
                batches[-1].append(index)
            else:
                batches.append([index])
        return batches

    def __len__(self) -> int:
        if self.batch_size is None:
            raise TypeError("BucketBatchSampler with max_tokens has no length: it depends on the order")
        full, rest = divmod(len(self.lengths), self.batch_size)
        return full + bool(rest and not self.drop_last)
