"""Reading by index: rows, single elements, and everything between; results in pooled memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from rushlight.kernels.cpu import allocator, native
from rushlight.kernels.cpu.indexed import MOST_DIMS, Place, Walk, plan_read
from rushlight.kernels.cpu.team import run_kernel

Shape = tuple[int, ...]


def worth(shape: Shape, array: np.ndarray, *indices: np.ndarray) -> bool:
    """Is the result large enough for a native loop, and can one walk through these arrays?"""
    count = 1
    for size in shape:
        count *= size
    return (
        native.enough(count)
        and len(shape) <= MOST_DIMS
        and array.size > 0
        and all(map(in_elements, (array, *indices)))
    )


def in_elements(array: np.ndarray) -> bool:
    """Are the strides whole elements?"""
    return array.flags.forc or all(stride % array.itemsize == 0 for stride in array.strides)


def _read(walk: Walk, shape: Shape, array: np.ndarray, indices: Sequence[np.ndarray]) -> np.ndarray | None:
    out = allocator.empty(shape, array.dtype)
    bad = np.zeros(1, np.int64)
    run_kernel(walk.kernel, walk.count, walk.grain, walk.layout, bad, out, array, *indices)
    return None if bad[0] else out


def elements(strides: Shape, itemsize: int) -> Shape:
    """Strides in elements."""
    return tuple([stride // itemsize for stride in strides])


def take(array: np.ndarray, index: np.ndarray, axis: int, wraps: bool) -> np.ndarray | None:
    """The parts at the places `index`, of any shape, of one dimension; None when an index is outside.

    Large results only, see `worth`.
    """
    shape = (*array.shape[:axis], *index.shape, *array.shape[axis + 1 :])
    walk = _plan_take(
        shape, array.shape[axis], array.strides, array.itemsize, index.strides, index.itemsize, axis, wraps
    )
    return _read(walk, shape, array, (index,))


@lru_cache(4096)
def _plan_take(
    shape: Shape, size: int, strides: Shape, itemsize: int, at: Shape, index_itemsize: int, axis: int, wraps: bool
) -> Walk:
    own = elements(strides, itemsize)
    rest = len(own) - axis - 1
    index = ((0,) * axis) + elements(at, index_itemsize) + (0,) * rest
    moves = (*own[:axis], *(0,) * len(at), *own[axis + 1 :])
    return plan_read(shape, itemsize, moves, [Place(index_itemsize, index, size, own[axis], wraps)])


def gather(array: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray | None:
    """The elements at `index` along a dimension, at their own place along the others; None when an index is outside.

    Large results only, see `worth`.
    """
    walk = _plan_gather(
        index.shape, array.shape[axis], array.strides, array.itemsize, index.strides, index.itemsize, axis
    )
    return _read(walk, index.shape, array, (index,))


@lru_cache(4096)
def _plan_gather(
    shape: Shape, size: int, strides: Shape, itemsize: int, at: Shape, index_itemsize: int, axis: int
) -> Walk:
    own = elements(strides, itemsize)
    moves = (*own[:axis], 0, *own[axis + 1 :])
    place = Place(index_itemsize, elements(at, index_itemsize), size, own[axis], False)
    return plan_read(shape, itemsize, moves, [place])


def pick(array: np.ndarray, indices: Sequence[np.ndarray | None], shape: Shape, first: int) -> np.ndarray | None:
    """`array[indices]` with None for a whole dimension; None when an index is outside.

    `shape` is that of the result, and `first` the dimension at which what the indices say stands in it. Large results
    only, see `worth`.
    """
    given = [index for index in indices if index is not None]
    walk = _plan_pick(
        shape,
        first,
        array.shape,
        array.strides,
        array.itemsize,
        tuple([None if index is None else (index.shape, index.strides, index.itemsize) for index in indices]),
    )
    return _read(walk, shape, array, given)


@lru_cache(4096)
def _plan_pick(shape: Shape, first: int, sizes: Shape, strides: Shape, itemsize: int, indices: tuple) -> Walk:
    moves, places = picked(len(shape), first, sizes, elements(strides, itemsize), indices)
    return plan_read(shape, itemsize, moves, places)


def picked(ndim: int, first: int, sizes: Shape, strides: Shape, indices: tuple) -> tuple[list[int], list[Place]]:
    """How to walk over `x[indices]`: the strides of x (in elements), and the places that the indices say.

    An index is None (a whole dimension) or (shape, strides in bytes, itemsize). `sizes` and `strides` are x's, `ndim`
    and `first` as in `pick`.
    """
    common = max([len(at[0]) for at in indices if at is not None])
    whole = [strides[d] for d in range(len(sizes)) if d >= len(indices) or indices[d] is None]
    moves = [*whole[:first], *(0,) * common, *whole[first:]]
    places = []
    for d, at in enumerate(indices):
        if at is not None:
            shape, steps, width = at
            own = [0 if size == 1 else step for size, step in zip(shape, elements(steps, width))]
            lead = (0,) * (first + common - len(shape))
            spread = (*lead, *own, *(0,) * (ndim - first - common))
            places.append(Place(width, spread, sizes[d], strides[d], True))
    return moves, places
