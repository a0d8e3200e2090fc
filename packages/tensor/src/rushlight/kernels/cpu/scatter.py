"""Writing by index: storing, adding, multiplying, taking the larger or smaller; places may repeat.

`combine` is "set", "add", "multiply", "maximum" or "minimum". Indices must have been checked (`indexed.inside`); they
may be negative where torch lets them. What comes to one place comes in row-major order, on any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np

from rushlight.core import scalar as s
from rushlight.kernels.cpu import native, pool
from rushlight.kernels.cpu.copy import zeros
from rushlight.kernels.cpu.elementwise import ElementwiseKernel, elementwise_kernel
from rushlight.kernels.cpu.gather import elements, in_elements, picked
from rushlight.kernels.cpu.indexed import MOST_DIMS, Place, Walk, plan_write
from rushlight.kernels.cpu.team import run_kernel
from rushlight.kernels.half import is_half

Shape = tuple[int, ...]


def worth(shape: Shape, *arrays: np.ndarray) -> bool:
    """Are there enough places to write to for a native loop, and can one walk through these arrays?"""
    return (
        native.enough(math.prod(shape))
        and len(shape) <= MOST_DIMS
        and all(map(in_elements, arrays))
    )


def _strides(values: np.ndarray, shape: Shape) -> Shape:
    """Strides in elements of values that broadcast."""
    return elements((values if values.shape == shape else np.broadcast_to(values, shape)).strides, values.itemsize)


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


def _write(walk: Walk, target: np.ndarray, values: np.ndarray, indices: Sequence[np.ndarray]) -> bool:
    bad = np.zeros(1, np.int64)
    run_kernel(walk.kernel, walk.count, walk.grain, walk.layout, bad, target, values, *indices)
    return not bad[0]


def scatter(
    target: np.ndarray, index: np.ndarray, values: np.ndarray, axis: int, combine: str = "set", check: bool = False
) -> bool:
    """Put values, which broadcast to the shape of `index`, at `index` along a dimension, at their own place along the
    others.

    With `check`, for a target that nobody has seen, it looks at the indices on the way: False when one was outside.
    """
    if not worth(index.shape, values, target, index):
        _small(target, along(index, axis), values, combine)
        return True
    index, values = _apart(target, index), _apart(target, values)
    walk = _plan_scatter(
        index.shape,
        target.dtype,
        target.strides,
        _strides(values, index.shape),
        (index.itemsize, index.strides, target.shape[axis], axis),
        combine,
        pool.get_num_threads(),
        check,
    )
    return _write(walk, target, values, (index,))


@lru_cache(4096)
def _plan_scatter(
    shape: Shape, dtype: np.dtype, strides: Shape, values: Shape, at: tuple, combine: str, threads: int, check: bool
) -> Walk:
    own = elements(strides, dtype.itemsize)
    itemsize, steps, size, axis = at
    moves = (*own[:axis], 0, *own[axis + 1 :])
    place = Place(itemsize, elements(steps, itemsize), size, own[axis], False)
    return plan_write(shape, dtype, moves, values, [place], combine, threads, check)


def put(
    target: np.ndarray,
    indices: Sequence[np.ndarray | None],
    values: np.ndarray,
    shape: Shape,
    first: int = 0,
    combine: str = "set",
) -> None:
    """`target[indices] = values`, or the like, with None for a whole dimension; `values` broadcasts to `shape`, that of
    `target[indices]`, in which what the indices say stands at dimension `first`."""
    if not worth(shape, values, target, *[index for index in indices if index is not None]):
        _small(target, tuple([slice(None) if index is None else index for index in indices]), values, combine)
        return
    indices = [index if index is None else _apart(target, index) for index in indices]
    values = _apart(target, values)
    walk = _plan_put(
        shape,
        first,
        (target.dtype, values.dtype),
        (target.shape, target.strides),
        _strides(values, shape),
        tuple([None if index is None else (index.shape, index.strides, index.itemsize) for index in indices]),
        combine,
        pool.get_num_threads(),
    )
    _write(walk, target, values, [index for index in indices if index is not None])


@lru_cache(4096)
def _plan_put(
    shape: Shape,
    first: int,
    dtypes: tuple[np.dtype, np.dtype],
    target: tuple[Shape, Shape],
    values: Shape,
    indices: tuple,
    combine: str,
    threads: int,
) -> Walk:
    dtype, source = dtypes
    sizes, strides = target
    moves, places = picked(len(shape), first, sizes, elements(strides, dtype.itemsize), indices)
    return plan_write(
        shape, dtype, moves, values, places, combine, threads, source=None if source == dtype else source
    )


def divide(total: np.ndarray, count: np.ndarray) -> None:
    """`total /= count` in place, rounded down for integers; where nothing was counted it stays."""
    if total.size >= native.WORTH and total.dtype.kind in "fV":
        _division(total.dtype)(total, total, count)
        return
    np.maximum(count, 1, out=count)
    if total.dtype.kind in "iu":
        np.floor_divide(total, count, out=total, casting="unsafe")
    else:
        np.copyto(total, total / count, casting="unsafe")


@cache
def _division(dtype: np.dtype) -> ElementwiseKernel:
    wide = np.float64 if dtype == np.float64 else np.float32
    return elementwise_kernel(lambda a, n: a / s.cast(s.select(n > 1, n, 1), wide), [dtype, np.int64], dtype)


def add_rows(target: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    """`target[index[i]] += values[i]` along dimension 0, where indices may repeat.

    Half types are summed in float32 and rounded once.
    """
    if not values.size:
        return
    if not is_half(target.dtype):
        put(target, (index,), values, values.shape, 0, "add")
    elif not worth(values.shape, target, values, index):
        _add_sorted(target, index, values)
    else:
        sums = _sums(target.dtype)
        for part in _columns(target):
            wide = zeros(target[part].shape, np.float32)
            put(wide, (index,), values[part], values[part].shape, 0, "add")
            sums(target[part], target[part], wide)


@cache
def _sums(dtype: np.dtype) -> ElementwiseKernel:
    return elementwise_kernel(s.add, [dtype, np.float32], dtype, [np.float32, np.float32])


def _columns(target: np.ndarray) -> list[tuple]:
    """Parts of an array of rows, along dimension 1, of a few million elements: so much is summed at a time."""
    if target.ndim == 1:
        return [()]
    count = max(1, min(target.size >> 22, target.shape[1]))
    size = -(-target.shape[1] // count)
    return [(slice(None), slice(at, at + size)) for at in range(0, target.shape[1], size)]


def _add_sorted(target: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    """Rows of one place brought together and summed at once."""
    index = np.where(index < 0, index + len(target), index)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    sums = np.add.reduceat(values[order], starts, axis=0, dtype=np.float32)
    rows = ordered[starts]
    target[rows] = target[rows] + sums
