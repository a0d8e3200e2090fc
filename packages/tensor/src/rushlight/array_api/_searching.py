"""Searching, sorting, indexing by arrays, and sets."""

from __future__ import annotations

from typing import Any, NamedTuple

import rushlight as rl
from rushlight.array_api._promotion import as_array, cast, promoted
from rushlight.core import dtypes
from rushlight.core.errors import check_dim
from rushlight.core.tensor import Tensor


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the largest element along an axis, or in the flat order of all; the first when there are several."""
    return _argument(rl.argmax, x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the smallest element along an axis, or in the flat order of all; the first of several."""
    return _argument(rl.argmin, x, axis, keepdims)


def _argument(function: Any, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    if axis is not None:
        return function(x, axis, keepdims)
    found = function(x)
    return found.reshape((1,) * x.ndim) if keepdims else found


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The places of the elements that are not zero, an index array per axis. Raises ValueError for a 0-dim array."""
    if x.ndim == 0:
        raise ValueError("nonzero: a 0-dim array has no places; use x != 0")
    return tuple(rl.nonzero(x, as_tuple=True))


def searchsorted(x1: Tensor, x2: Tensor | float, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Where in a sorted array elements would go to keep it sorted: before equal ones, or behind (`side="right"`).

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.searchsorted(xp.asarray([1, 3, 5]), xp.asarray([3, 6]))
        tensor([1, 3])
    """
    x1, x2 = cast(x1, as_array(x2, x1))
    return rl.searchsorted(x1, x2, side=side, sorter=None if sorter is None else sorter.to(dtypes.int64))


def where(condition: Tensor, x1: Any = None, x2: Any = None, /) -> Any:
    """Elements of `x1` where the condition holds, of `x2` elsewhere; one of them may be a number.

    The condition alone gives the places where it holds, as NumPy does; scikit-learn relies on that.
    """
    if x1 is None and x2 is None:
        return nonzero(condition)
    return rl.where(condition, *promoted(x1, x2))


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The order that sorts along an axis; equal elements keep theirs."""
    return rl.argsort(x, axis, descending, stable=stable)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements sorted along an axis."""
    return rl.sort(x, axis, descending, stable=stable)[0]


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The slices along an axis at the places of a 1-D index array; negative ones count from the end.

    Raises ValueError when the axis is missing and there is more than one, IndexError for places out of range.

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.take(xp.asarray([5, 6, 7]), xp.asarray([-1, 0]))
        tensor([7, 5])
    """
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: axis is needed for an array with {x.ndim} dimensions")
        axis = 0
    before = check_dim("take", axis, x.ndim, "axis")
    return x[(slice(None),) * before + (indices.to(dtypes.int64),)]


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """At each place the element that the index there names along the axis; shapes broadcast on the other axes."""
    places = indices.to(dtypes.int64)
    size = x.shape[check_dim("take_along_axis", axis, x.ndim, "axis")]
    return rl.take_along_dim(x, rl.where(places < 0, places + size, places), axis)


def isin(x1: Tensor | int, x2: Tensor | int, /, *, invert: bool = False) -> Tensor:
    """For each element of `x1`: is it in `x2`?

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.isin(xp.asarray([1, 2, 3]), xp.asarray([3, 1]))
        tensor([ True, False,  True])
    """
    x1, x2 = cast(as_array(x1, x2), as_array(x2, x1))
    if x1.dtype is dtypes.bool:  # rushlight's takes real numbers only, as PyTorch's does
        x1, x2 = x1.to(dtypes.uint8), x2.to(dtypes.uint8)
    elif x1.is_complex():
        found = rl.any(rl.eq(x1.unsqueeze(-1), x2.reshape(-1)), -1)
        return ~found if invert else found
    return rl.isin(x1, x2, invert=invert)


class UniqueAll(NamedTuple):
    """Result of `unique_all`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Result of `unique_counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Result of `unique_inverse`."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct elements, where each stands first, which one each element is, and how often each occurs.

    Every NaN counts as an element of its own.

    Example:
        >>> import rushlight.array_api as xp
        >>> values, indices, inverse, counts = xp.unique_all(xp.asarray([3, 1, 3]))
        >>> values, indices, inverse, counts
        (tensor([1, 3]), tensor([1, 0]), tensor([1, 0, 1]), tensor([1, 2]))
    """
    values, inverse, counts = rl.unique(x, return_inverse=True, return_counts=True)
    grouped = rl.argsort(inverse.reshape(-1), stable=True)  # places by value, in order within each
    return UniqueAll(values, grouped[rl.cumsum(counts, 0) - counts], inverse, counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct elements and how often each occurs."""
    return UniqueCounts(*rl.unique(x, return_counts=True))


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct elements and which of them each element is."""
    return UniqueInverse(*rl.unique(x, return_inverse=True))


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements, in ascending order."""
    return rl.unique(x)
