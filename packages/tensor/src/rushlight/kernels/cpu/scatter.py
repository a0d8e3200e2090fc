"""Writing by index: storing, adding, multiplying, taking the larger or smaller; places may repeat.

`combine` is "set", "add", "multiply", "maximum" or "minimum". Indices must have been checked (`indexed.inside`); they
may be negative where torch lets them. What comes to one place comes in row-major order, on any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from rushlight.kernels.cpu import native, pool
from rushlight.kernels.cpu.gather import elements, picked
from rushlight.kernels.cpu.indexed import MOST_DIMS, Place, Walk, plan_write
from rushlight.kernels.cpu.team import run_kernel

Shape = tuple[int, ...]


def _worth(values: np.ndarray, target: np.ndarray, *indices: np.ndarray) -> bool:
    """Are there enough values for a native loop, and can one walk through these arrays?"""
    return (
        values.size >= native.WORTH
        and values.ndim <= MOST_DIMS
        and all(stride % a.itemsize == 0 for a in (target, values, *indices) for stride in a.strides)
    )


_UFUNCS = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def along(index: np.ndarray, axis: int) -> tuple:
    """The numpy index of the elements that gather and scatter address: `index` along `axis`, its own position along
    the others."""
    return tuple(
        [
            index if d == axis else np.arange(size).reshape((-1,) + (1,) * (index.ndim - d - 1))
            for d, size in enumerate(index.shape)
        ]
    )


def _small(target: np.ndarray, places: tuple, values: np.ndarray, combine: str) -> None:
    if combine == "set":
        target[places] = values
    elif target.size:
        _UFUNCS[combine].at(target, places, values)


def _apart(target: np.ndarray, array: np.ndarray) -> np.ndarray:
    """An array that does not change while the target is written."""
    return array.copy() if np.may_share_memory(target, array) else array


def _write(walk: Walk, target: np.ndarray, values: np.ndarray, indices: Sequence[np.ndarray]) -> None:
    run_kernel(walk.kernel, walk.count, walk.grain, walk.layout, target, values, *indices)


def scatter(target: np.ndarray, index: np.ndarray, values: np.ndarray, axis: int, combine: str = "set") -> None:
    """Put values, of the shape of `index`, at `index` along a dimension, at their own place along the others."""
    if not _worth(values, target, index):
        _small(target, along(index, axis), values, combine)
        return
    index, values = _apart(target, index), _apart(target, values)
    walk = _plan_scatter(
        index.shape,
        target.dtype,
        target.strides,
        values.strides,
        (index.itemsize, index.strides, target.shape[axis], axis),
        combine,
        pool.get_num_threads(),
    )
    _write(walk, target, values, (index,))


@lru_cache(4096)
def _plan_scatter(
    shape: Shape, dtype: np.dtype, strides: Shape, values: Shape, at: tuple, combine: str, threads: int
) -> Walk:
    own, values = elements(strides, dtype.itemsize), elements(values, dtype.itemsize)
    itemsize, steps, size, axis = at
    moves = (*own[:axis], 0, *own[axis + 1 :])
    place = Place(itemsize, elements(steps, itemsize), size, own[axis], True)
    return plan_write(shape, dtype, moves, values, [place], combine, threads)


def put(
    target: np.ndarray, indices: Sequence[np.ndarray | None], values: np.ndarray, first: int, combine: str = "set"
) -> None:
    """`target[indices] = values`, or the like, with None for a whole dimension; `values` has the shape of
    `target[indices]`, in which what the indices say stands at dimension `first`."""
    if not _worth(values, target, *[index for index in indices if index is not None]):
        _small(target, tuple([slice(None) if index is None else index for index in indices]), values, combine)
        return
    indices = [index if index is None else _apart(target, index) for index in indices]
    values = _apart(target, values)
    walk = _plan_put(
        values.shape,
        first,
        target.dtype,
        (target.shape, target.strides),
        values.strides,
        tuple([None if index is None else (index.shape, index.strides, index.itemsize) for index in indices]),
        combine,
        pool.get_num_threads(),
    )
    _write(walk, target, values, [index for index in indices if index is not None])


@lru_cache(4096)
def _plan_put(
    shape: Shape,
    first: int,
    dtype: np.dtype,
    target: tuple[Shape, Shape],
    values: Shape,
    indices: tuple,
    combine: str,
    threads: int,
) -> Walk:
    sizes, strides = target
    moves, places = picked(len(shape), first, sizes, elements(strides, dtype.itemsize), indices)
    return plan_write(shape, dtype, moves, elements(values, dtype.itemsize), places, combine, threads)


def add_rows(target: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    """`target[index[i]] += values[i]` along dimension 0, where indices may repeat.

    Half types are summed in float32 and rounded once.
    """
    if not values.size:
        return
    if target.itemsize == 2 and target.dtype.kind not in "iu":
        _add_sorted(target, index, values)
    else:
        put(target, (index,), values, 0, "add")


def _add_sorted(target: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    """Rows of one place brought together and summed at once."""
    index = np.where(index < 0, index + len(target), index)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    sums = np.add.reduceat(values[order], starts, axis=0, dtype=np.float32)
    rows = ordered[starts]
    target[rows] = target[rows] + sums
