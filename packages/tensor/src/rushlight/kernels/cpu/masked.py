"""Masks: filling, selecting and storing where a mask is True.

numpy does these with a branch per element, which random masks make slow (9 ns an element); without a branch they cost
0.3 to 1 ns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from rushlight.core import scalar as s
from rushlight.kernels.cpu import allocator, gather, native
from rushlight.kernels.cpu.copy import assign
from rushlight.kernels.cpu.elementwise import ElementwiseKernel, bits_dtype, elementwise_kernel
from rushlight.kernels.cpu.jit import compile_source
from rushlight.kernels.cpu.native import WORTH
from rushlight.kernels.source import SHORT


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


# What is found in a block of the mask goes to its own part of the result: first all blocks are counted, then all are
# worked off. The loops do not branch on the mask: each element is stored, and the place moves on by what the mask says.
BLOCK = 4096
_COUNT = """def kernel(lo, hi, layout, counts, mask):
    wide_vectors()
    n = load(layout, u64(0))
    for block in range(lo, hi):
        first = i64(block) * BLOCK
        total = i64(0)
        for j in range(first, min(first + BLOCK, n)):
            total = total + i64(load(mask, u64(j)) != u8(0))
        scratch_store(counts, block + u64(1), total)
"""
_SELECT = """def kernel(lo, hi, layout, starts, out, x, mask):
    for block in range(lo, hi):
        at = load(starts, block)
        stop = load(starts, block + u64(1))
        j = block * u64(BLOCK)
        while at < stop:
            store(out, u64(at), load(x, j))
            at = at + i64(load(mask, j) != u8(0))
            j = j + u64(1)
"""
_STORE = """def kernel(lo, hi, layout, starts, t, x, mask):
    n = load(layout, u64(0))
    last = load(layout, u64(1))
    for block in range(lo, hi):
        at = load(starts, block)
        first = i64(block) * BLOCK
        for j in range(first, min(first + BLOCK, n)):
            chosen = load(mask, u64(j)) != u8(0)
            value = load(x, u64(min(at, last)))
            scratch_store(t, u64(j), select(chosen, value, scratch_load(t, u64(j))))
            at = at + i64(chosen)
"""
_PLACES = """def kernel(lo, hi, layout, starts, out, mask):
    ndim = load(layout, u64(0))
    inner = load(layout, u64(1))
    found = stack_array(i64, BLOCK)
    coordinates = stack_array(i64, 64)
    for block in range(lo, hi):
        at = load(starts, block)
        count = load(starts, block + u64(1)) - at
        first = i64(block) * BLOCK
        k = i64(0)
        j = first
        while k < count:
            scratch_store(found, u64(k), j)
            k = k + i64(load(mask, u64(j)) != u8(0))
            j = j + 1
        row = first // inner
        begin = row * inner
        for back in range(ndim - 1):
            d = u64(ndim - 2 - back)
            size = load(layout, d + u64(2))
            scratch_store(coordinates, d, row % size)
            row = row // size
        for k in range(count):
            place = scratch_load(found, u64(k)) - begin
            while place >= inner:
                place = place - inner
                begin = begin + inner
                d = ndim - 2
                while d >= 0:
                    c = scratch_load(coordinates, u64(d)) + 1
                    if c < load(layout, u64(d + 2)):
                        scratch_store(coordinates, u64(d), c)
                        break
                    scratch_store(coordinates, u64(d), i64(0))
                    d = d - 1
            base = (at + k) * ndim
            for d in range(ndim - 1):
                store(out, u64(base + d), scratch_load(coordinates, u64(d)))
            store(out, u64(base + ndim - 1), place)
"""


def _compiled(source: str, *arrays: str) -> Callable[..., None]:
    return compile_source(source.replace("BLOCK", str(BLOCK)), ("u64", "u64", "*i64", "*i64", *arrays))


def _starts(mask: np.ndarray) -> np.ndarray:
    """Where in the result each block of a row-major mask begins, and the length of the result."""
    counts = np.zeros(-(-mask.size // BLOCK) + 1, np.int64)
    native.over(_compiled(_COUNT, "*u8"), len(counts) - 1, BLOCK, (mask.size,), counts, mask)
    return np.cumsum(counts)


def _words(itemsize: int) -> str:
    return f"*{SHORT[bits_dtype(itemsize).name]}"


def select_where(array: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The elements, or parts, where a mask over the leading dimensions is True."""
    if not mask.ndim:
        return array[None][mask[None]]
    if array.size < WORTH or not array.flags.c_contiguous:
        return array[mask]
    if array.shape != mask.shape:
        chosen = np.flatnonzero(mask)
        rows = array.reshape(-1, *array.shape[mask.ndim :])
        if not gather.worth((len(chosen), *rows.shape[1:]), rows, chosen):
            return rows.take(chosen, 0)
        return gather.take(rows, chosen, 0, False)
    mask = np.ascontiguousarray(mask)
    starts = _starts(mask)
    out = allocator.empty((int(starts[-1]),), array.dtype)
    word = _words(array.itemsize)
    native.over(_compiled(_SELECT, word, word, "*u8"), len(starts) - 1, BLOCK, (), starts, out, array, mask)
    return out


def store_where(target: np.ndarray, mask: np.ndarray, source: np.ndarray) -> None:
    """Store elements of a source, in row-major order, where a mask of the target's shape is True; there must be
    enough."""
    mask, source = [x.copy() if np.may_share_memory(target, x) else x for x in (mask, source)]
    if target.size < WORTH or not all(x.flags.c_contiguous for x in (target, mask, source)):
        values = source.reshape(-1) if source.flags.c_contiguous else source.flat  # whose slices are copies
        start = 0
        for part in native.parts(target.shape, target.ndim, target, mask, source):
            end = start + np.count_nonzero(mask[part])
            target[part][mask[part]] = values[start:end]
            start = end
        return
    if not source.size:
        return
    starts = _starts(mask)
    word = _words(target.itemsize)
    layout = (target.size, source.size - 1)
    native.over(
        _compiled(_STORE, word, word, "*u8"), len(starts) - 1, BLOCK, layout, starts, target, source, mask
    )


def places(array: np.ndarray) -> np.ndarray:
    """The indices of the elements that are not zero, a row each, in row-major order."""
    if array.size < WORTH:
        return np.array(array.nonzero()).T.copy()
    mask = array
    if array.dtype != np.bool_ or not array.flags.c_contiguous:
        mask = allocator.empty(array.shape, np.bool_)
        assign(mask, array)
    starts = _starts(mask)
    out = allocator.empty((int(starts[-1]), mask.ndim), np.int64)
    layout = (mask.ndim, mask.shape[-1], *mask.shape[:-1])
    native.over(_compiled(_PLACES, "*i64", "*u8"), len(starts) - 1, BLOCK, layout, starts, out, mask)
    return out
