"""Copies and conversions of large arrays, on all threads and into pooled memory. Plans keep numpy quiet meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.kernels.cpu import allocator
from rushlight.kernels.cpu.elementwise import ElementwiseKernel, copy_array, elementwise_kernel

# What a loop would round twice, by way of float32.
_NUMPY = {(np.dtype(np.float64), np.dtype(np.float16))}
LARGE = 32768  # elements from which threads, and memory that was used before, are worth it


def assign(target: np.ndarray, source: np.ndarray) -> None:
    """`target[...] = source`, which broadcasts and is converted; real parts of complex numbers for real targets.

    The two may overlap.
    """
    if source.dtype.kind == "c" and target.dtype.kind != "c":
        source = source != 0 if target.dtype.kind == "b" else source.real
    if target.size < LARGE or np.may_share_memory(target, source):
        np.copyto(target, source, "unsafe")
    elif target.dtype == source.dtype:
        copy_array(target, source)
    elif (source.dtype, target.dtype) in _NUMPY or target.dtype == np.uint64:
        np.copyto(target, source, "unsafe")
    else:
        _conversion(source.dtype, target.dtype)(target, source)


def duplicate(array: np.ndarray) -> np.ndarray:
    """A row-major copy."""
    if array.size < LARGE:
        return array.copy()
    fresh = allocator.empty(array.shape, array.dtype)
    assign(fresh, array)
    return fresh


def joined(arrays: Sequence[np.ndarray], shape: tuple[int, ...], dtype: np.dtype, axis: int) -> np.ndarray:
    """Arrays one after the other along a dimension, in a new array of the shape and dtype."""
    out = allocator.empty(shape, dtype)
    if out.size < LARGE * len(arrays):
        return np.concatenate(arrays, axis=axis, out=out, casting="unsafe")
    at, before = 0, (slice(None),) * axis
    for array in arrays:
        size = array.shape[axis]
        assign(out[(*before, slice(at, at + size))], array)
        at += size
    return out


@cache
def _conversion(source: np.dtype, target: np.dtype) -> ElementwiseKernel:
    def convert(x: Any) -> Any:
        if target.kind == "b":
            return x != 0
        if target.kind in "iu" and source.kind not in "iub":
            # The processor converts to these two only; what does not fit wraps around, as in numpy.
            return s.cast(x, np.int32 if target.itemsize < 4 or target == np.int32 else np.int64)
        return x

    return elementwise_kernel(convert, [source], target)
