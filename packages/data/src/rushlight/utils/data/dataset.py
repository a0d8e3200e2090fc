"""Datasets: things with samples, and ways to combine and split them."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from rushlight import Tensor
from rushlight.utils.data import bridge

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by index or key: subclasses define `__getitem__`, and `__len__` for samplers and loaders that need it.

    A subclass may also define `__getitems__(indices)`, which returns the list of samples for a whole batch in one call.

    Example:
        >>> class Squares(Dataset):
        ...     def __len__(self):
        ...         return 4
        ...     def __getitem__(self, index):
        ...         return index**2
        >>> [Squares()[i] for i in range(4)]
        [0, 1, 4, 9]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(
            f"{type(self).__name__} has no __getitem__: a Dataset subclass defines __getitem__(index), "
            "or is an IterableDataset and defines __iter__"
        )

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Samples in the order in which they come: subclasses define `__iter__`.

    With worker processes every worker iterates its own copy; share the work out with `get_worker_info()`.

    Example:
        >>> class Count(IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(3))
        >>> list(Count())
        [0, 1, 2]
    """

    def __add__(self, other: Dataset) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors: sample `i` is the tuple of `tensor[i]`.

    Args:
        tensors: tensors with the same size of the first dimension.

    Raises:
        AssertionError: when the first sizes differ.

    Example:
        >>> import rushlight
        >>> TensorDataset(rushlight.arange(3), rushlight.tensor([0.5, 1.5, 2.5]))[1]
        (tensor(1), tensor(1.5000))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.shape[0] != tensors[0].shape[0] for tensor in tensors):
            sizes = [tensor.shape[0] for tensor in tensors]
            raise AssertionError(
                f"Size mismatch between tensors: first dimensions are {sizes}, TensorDataset needs one size"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([tensor[index] for tensor in self.tensors])

    def __len__(self) -> int:
        return self.tensors[0].shape[0]

    def take_batch(self, indices: np.ndarray) -> list[Tensor] | None:
        """The collated batch by one gather per tensor, or None when it has to be made of single samples."""
        if type(self).__getitem__ is not TensorDataset.__getitem__:
            return None
        arrays = [bridge.plain_array(tensor) for tensor in self.tensors]
        return None if any(array is None for array in arrays) else bridge.rows(arrays, indices)


class StackDataset(Dataset):
    """Datasets side by side: sample `i` is the tuple, or for keyword arguments the dict, of every dataset's sample `i`.

    Raises:
        ValueError: for no datasets, for positional and keyword datasets together, or for different lengths.

    Example:
        >>> StackDataset(image=["a", "b"], label=[0, 1])[1]
        {'image': 'b', 'label': 1}
    """

    datasets: tuple | dict

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "StackDataset takes either positional datasets (samples are tuples) or named ones (dicts), got both"
            )
        if not args and not kwargs:
            raise ValueError("StackDataset: at least one dataset should be passed")
        self.datasets = args or kwargs
        lengths = [len(dataset) for dataset in self._parts()]
        if len(set(lengths)) > 1:
            raise ValueError(f"Size mismatch between datasets: lengths are {lengths}, StackDataset needs one length")
        self._length = lengths[0]

    def _parts(self) -> list:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _sample(self, parts: Iterable) -> Any:
        return dict(zip(self.datasets, parts, strict=True)) if isinstance(self.datasets, dict) else tuple(parts)

    def __getitem__(self, index: int) -> Any:
        return self._sample(dataset[index] for dataset in self._parts())

    def __getitems__(self, indices: Sequence[int]) -> list:
        columns = [fetch_many(dataset, indices) for dataset in self._parts()]
        return [self._sample(row) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """Map-style datasets one after the other.

    Raises:
        AssertionError: for no datasets, or an IterableDataset among them.
        ValueError: when an index lies before the first sample.

    Example:
        >>> ConcatDataset([["a", "b"], ["c"]])[2]
        'c'
    """

    datasets: list
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset; chain those with ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T_co:
        if index < 0:
            if -index > len(self):
                raise ValueError(
                    f"absolute value of index should not exceed dataset length: index {index}, length {len(self)}"
                )
            index += len(self)
        if index >= len(self):
            raise IndexError(f"ConcatDataset index {index} is out of range: it has {len(self)} samples")
        part = bisect.bisect_right(self.cumulative_sizes, index)
        start = self.cumulative_sizes[part - 1] if part else 0
        return self.datasets[part][index - start]


class ChainDataset(IterableDataset[T_co]):
    """IterableDatasets one after the other.

    Raises:
        AssertionError: while iterating, when a part is not an IterableDataset.
    """

    def __init__(self, datasets: Iterable) -> None:
        self.datasets = datasets

    def _parts(self) -> Iterator:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError(f"ChainDataset only supports IterableDataset, got {type(dataset).__name__}")
            yield dataset

    def __iter__(self) -> Iterator[T_co]:
        for dataset in self._parts():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._parts())


class Subset(Dataset[T_co]):
    """The samples of `dataset` at `indices`, in that order.

    Example:
        >>> list(Subset("abcd", [3, 1]))
        ['d', 'b']
    """

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[int]) -> list:
        return fetch_many(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)

    def take_batch(self, indices: np.ndarray) -> list[Tensor] | None:
        """The collated batch by one gather of the dataset below, or None where that has no such way."""
        cls = type(self)
        if cls.__getitem__ is not Subset.__getitem__ or cls.__getitems__ is not Subset.__getitems__:
            return None
        take_batch = getattr(self.dataset, "take_batch", None)
        if take_batch is None:
            return None
        if isinstance(self.indices, (list, tuple)):
            chosen = np.asarray([self.indices[i] for i in indices.tolist()])
        else:
            chosen = np.asarray(self.indices)[indices]
        return take_batch(chosen) if chosen.dtype.kind == "i" else None


def fetch_many(dataset: Any, indices: Sequence[int]) -> list:
    """The samples at `indices`, in one call where the dataset has one for that."""
    if callable(getattr(dataset, "__getitems__", None)):
        items = dataset.__getitems__(indices)
        if len(items) != len(indices):
            raise ValueError(
                f"{type(dataset).__name__}.__getitems__ returned {len(items)} samples for {len(indices)} indices; "
                "it has to return one for each"
            )
        return items
    return [dataset[i] for i in indices]


def random_split(dataset: Any, lengths: Sequence[int | float], generator: Any = None) -> list[Subset]:
    """Split a dataset at random into parts that do not overlap.

    Args:
        lengths: sizes that add up to `len(dataset)`, or fractions that add up to 1. Of fractions the rounded-down
            sizes are taken, and what remains goes one by one to the parts from the first on.
        generator: where the random order comes from; the default generator when None.

    Raises:
        ValueError: when the lengths do not add up, or a fraction is not between 0 and 1.

    Example:
        >>> [len(part) for part in random_split(range(10), [0.5, 0.33, 0.17])]
        [6, 3, 1]
    """
    total = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for i, fraction in enumerate(lengths):
            if fraction < 0 or fraction > 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1: got {fraction}")
        sizes = [math.floor(total * fraction) for fraction in lengths]
        for i in range(total - sum(sizes)):
            sizes[i % len(sizes)] += 1
        for i, size in enumerate(sizes):
            if size == 0:
                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2
                )
        lengths = sizes
    if sum(lengths) != total:
        raise ValueError(
            "Sum of input lengths does not equal the length of the input dataset! "
            f"The lengths {list(lengths)} add up to {sum(lengths)}, the dataset has {total} samples"
        )
    order = bridge.permutation(total, generator).tolist()
    ends = list(itertools.accumulate(int(length) for length in lengths))
    return [Subset(dataset, order[end - int(length) : end]) for end, length in zip(ends, lengths, strict=True)]
