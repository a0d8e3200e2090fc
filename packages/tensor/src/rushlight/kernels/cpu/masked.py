"""Masks: filling, selecting and storing where a mask is True.

numpy does these with a branch per element, which random masks make slow (9 ns an element); selecting without a branch
costs 0.3 ns, and finding the places first 1 ns.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from rushlight.core import scalar as s
from rushlight.kernels.cpu.elementwise import ElementwiseKernel, bits_dtype, elementwise_kernel
from rushlight.kernels.cpu.native import WORTH


@cache
def _fill_kernel(itemsize: int) -> ElementwiseKernel:
    bits = bits_dtype(itemsize)
    return elementwise_kernel(lambda mask, value, x: s.select(mask, value, x), [np.bool_, bits, bits], bits)


def fill_where(target: np.ndarray, mask: np.ndarray, value: np.ndarray) -> None:
    """Store a 0-dim `value` of the target's dtype where the mask, which broadcasts, is True."""
    if target.size < WORTH:
        np.copyto(target, value, where=mask)
        return
    kernel = _fill_kernel(target.itemsize)
    bits = kernel.in_dtypes[1]
    whole = target.view(bits)
    kernel(whole, mask, value.view(bits), whole)


def select_where(array: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The elements, or parts, where a mask over the leading dimensions is True."""
    if not mask.ndim:
        return array[None][mask[None]]
    if array.shape == mask.shape and array.flags.c_contiguous:
        return array.reshape(-1)[np.flatnonzero(mask)]
    return array[mask]


def store_where(target: np.ndarray, mask: np.ndarray, values: np.ndarray) -> None:
    """Store a vector of values, in order, where a mask of the target's shape is True."""
    if target.flags.c_contiguous:
        target.reshape(-1)[np.flatnonzero(mask)] = values
    else:
        target[mask] = values
