"""Samplers: the order in which a loader visits a dataset.

A sampler draws what it needs from its generator when it is asked for an iterator, not at the first step. So the numbers
that the rest of a program draws meanwhile cannot change the order, and it is the same however far a loader reads ahead.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from rushlight import Tensor
from rushlight.utils.data import bridge

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """An order over indices (or lists of them): subclasses define `__iter__`, and `__len__` if it is known."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__: a Sampler subclass defines it")


class SequentialSampler(Sampler[int]):
    """The indices of `data_source` in order.

    Example:
        >>> list(SequentialSampler("abc"))
        [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


_MANY = 1 << 16  # more indices than this, and than the dataset has, are not drawn at once


class RandomSampler(Sampler[int]):
    """The indices of `data_source` in random order.

    Args:
        replacement: draw every index anew, so that some come repeatedly and others not at all.
        num_samples: how many to draw (default: `len(data_source)`); without replacement, random orders of all follow
            one another.
        generator: where randomness comes from; by default a new one each time, seeded from the default generator.

    Raises:
        TypeError: when `replacement` is not a bool.
        ValueError: when `num_samples` is not a positive int.

    Example:
        >>> sorted(RandomSampler("abcd"))
        [0, 1, 2, 3]
    """

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        check_count("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many indices one pass gives; follows the dataset's size unless it was set."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        generator = self.generator
        if generator is None:
            generator = bridge.generator_from(bridge.seed_from(None))
        n, count = len(self.data_source), self.num_samples
        if count > max(n, _MANY):
            return itertools.chain.from_iterable(self._blocks(bridge.generator_from(bridge.seed_from(generator))))
        if self.replacement:
            return iter(bridge.integers(n, count, generator).tolist())
        orders = [bridge.permutation(n, generator) for _ in range(-(-count // n))]
        return iter((orders[0] if len(orders) == 1 else np.concatenate(orders))[:count].tolist())

    def _blocks(self, generator: Any) -> Iterator[list[int]]:
        """The indices, some at a time, from a generator of their own: programs ask for billions and stop early."""
        n, left = len(self.data_source), self.num_samples
        while left > 0:
            draw = bridge.integers(n, _MANY, generator) if self.replacement else bridge.permutation(n, generator)
            yield draw[:left].tolist()
            left -= len(draw)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order.

    Example:
        >>> sorted(SubsetRandomSampler([5, 9, 7]))
        [5, 7, 9]
    """

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        order = bridge.permutation(len(self.indices), self.generator).tolist()
        return (self.indices[i] for i in order)

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with the given weights: P(i) = weights[i] / sum(weights).

    Args:
        weights: one number per index, not negative; they need not add up to 1.
        num_samples: how many to draw.
        replacement: without it, an index that was drawn does not come again.

    Raises:
        ValueError: for weights that are not one-dimensional, negative, not finite or all 0, and for a bad
            `num_samples` or `replacement`.
        RuntimeError: while iterating, when without replacement more are asked for than have a weight.

    Example:
        >>> sorted(WeightedRandomSampler([0.5, 0.0, 2.0], 2, replacement=False))
        [0, 2]
    """

    def __init__(
        self, weights: Sequence[float] | Tensor, num_samples: int, replacement: bool = True, generator: Any = None
    ) -> None:
        check_count("num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        table = np.array(weights.tolist() if isinstance(weights, Tensor) else weights, dtype=np.float64)
        if table.ndim != 1:
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {table.shape}")
        if not np.isfinite(table).all() or (table < 0).any() or not table.any():
            raise ValueError("weights should be finite and not negative, with at least one above 0")
        self.weights = bridge.from_array(table)
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        weights = self.weights.numpy()
        if self.replacement:
            ends = np.cumsum(weights)
            draws = bridge.uniform(self.num_samples, self.generator) * ends[-1]
            # The clip is for a draw that rounds up to the total.
            last = np.flatnonzero(weights)[-1]
            return iter(np.minimum(np.searchsorted(ends, draws, side="right"), last).tolist())
        possible = np.flatnonzero(weights)
        if self.num_samples > len(possible):
            raise RuntimeError(
                f"WeightedRandomSampler cannot draw num_samples={self.num_samples} without replacement: "
                f"only {len(possible)} of {len(weights)} weights are above 0"
            )
        # An exponential race: index i arrives at an exponential time of rate weights[i], and the order of arrival is
        # that of a draw without replacement (Efraimidis and Spirakis, 2006).
        times = -np.log1p(-bridge.uniform(len(weights), self.generator)[possible]) / weights[possible]
        return iter(possible[np.argsort(times, kind="stable")][: self.num_samples].tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Groups the indices of another sampler into lists of `batch_size`.

    Args:
        drop_last: leave out the last list when it is shorter.

    Raises:
        ValueError: when `batch_size` is not a positive int or `drop_last` not a bool.

    Example:
        >>> list(BatchSampler(range(5), 2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        check_count("batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        return self._batches(iter(self.sampler))

    def _batches(self, indices: Iterator[int]) -> Iterator[list[int]]:
        while batch := list(itertools.islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        full, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return full + bool(rest and not self.drop_last)


def check_count(name: str, value: Any) -> None:
    """Check that an argument is a positive whole number.

    Raises:
        ValueError: when it is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")
