"""From the arrays that kernels give to tensors whose metadata is right."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from rushlight.core.meta import Meta, of_array, strides_in_order
from rushlight.core.quiet import quiet
from rushlight.core.tensor import Tensor, wrap
from rushlight.kernels.cpu import allocator
from rushlight.kernels.cpu.copy import assign


def finish(array: Any, expected: Meta) -> Tensor:
    """Wrap a kernel's result, brought into the layout that was inferred: metadata is never wrong about memory."""
    if type(array) is not np.ndarray:
        array = np.asarray(array)
    if array.dtype is not expected.numpy and array.dtype != expected.numpy:
        array = quiet(array.astype, expected.numpy)
    if array.shape != expected.shape:
        raise AssertionError(f"a kernel returned shape {array.shape} where {expected.shape} was inferred")
    if expected.contiguous and array.flags.c_contiguous:
        return wrap(array, expected)
    size = expected.dtype.itemsize
    if array.strides == tuple([stride * size for stride in expected.strides]):
        return wrap(array, expected)
    laid_out = empty_array(expected)
    assign(laid_out, array)
    return wrap(laid_out, expected)


def allocation(m: Meta) -> Callable[[], np.ndarray]:
    """`empty_array(m)` as a function without arguments that has decided all it can, for plans."""
    if not m.contiguous:
        return partial(empty_array, m)
    nbytes = m.numel * m.dtype.itemsize
    if nbytes < allocator.LARGE:
        return partial(np.empty, m.shape, m.numpy)
    return partial(allocator.lend, allocator.size_class(nbytes), m.shape, m.numpy)


def empty_array(m: Meta) -> np.ndarray:
    """Uninitialised memory laid out as the meta says (its dimensions must fill memory without gaps)."""
    empty = np.empty if m.numel * m.dtype.itemsize < allocator.LARGE else allocator.empty
    if m.contiguous:
        return empty(m.shape, m.numpy)
    order = tuple(sorted(range(m.ndim), key=lambda d: (-m.strides[d], m.shape[d] == 1)))
    if strides_in_order(m.shape, order) != m.strides:
        order = tuple(range(m.ndim))
    inverse = sorted(range(m.ndim), key=order.__getitem__)
    return empty(tuple([m.shape[d] for d in order]), m.numpy).transpose(inverse)


def wrap_any(array: Any) -> Tensor:
    """Wrap an array whose shape depended on data."""
    array = np.asarray(array)
    return wrap(array, of_array(array))
