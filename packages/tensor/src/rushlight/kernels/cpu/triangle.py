"""Clearing the part of matrices above or below a diagonal."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from rushlight.kernels.cpu import native
from rushlight.kernels.cpu.elementwise import bits_dtype
from rushlight.kernels.cpu.jit import compile_source
from rushlight.kernels.source import SHORT

FEW = 32768  # elements below which a row of numpy's loops as one native call is quicker
_WORDS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
_CLEAR = """def kernel(lo, hi, layout, out):
    wide_vectors()
    rows = load(layout, u64(0))
    n = load(layout, u64(1))
    diagonal = load(layout, u64(2))
    upper = load(layout, u64(3)) != 0
    for task in range(lo, hi):
        cut = min(max(i64(task) % rows + diagonal, 0), n)
        first = select(upper, cut, i64(0))
        last = select(upper, n, cut)
        for j in range(first, last):
            store(out, u64(i64(task) * n + j), ZERO)
"""


def clear_triangle(array: np.ndarray, diagonal: int, upper: bool) -> None:
    """Zeros from a diagonal of the last two dimensions on (`upper`), or in front of it."""
    rows, n = array.shape[-2:]
    if not array.size:
        return
    if array.size >= FEW and array.flags.c_contiguous:
        bits = bits_dtype(array.itemsize)
        short = SHORT[bits.name]
        source = _CLEAR.replace("ZERO", f"{short}(0)")
        kernel = compile_source(source, ("u64", "u64", "*i64", f"*{short}"))
        # Beyond the matrix all diagonals are alike, and a user may ask for one that no int64 holds.
        layout = (rows, n, min(max(diagonal, -rows), n), upper)
        native.over(kernel, array.size // n, n, layout, array)
        return
    bits = _WORDS.get(array.itemsize)
    if bits is None:
        below = np.tri(rows, n, diagonal - 1, dtype=bool)
        np.copyto(array, np.zeros((), array.dtype), where=~below if upper else below)
        return
    words = array.view(bits)  # numpy has vectors for `and`, none for a copy of some elements
    np.bitwise_and(words, _kept(rows, n, min(max(diagonal, -rows), n), upper, bits), out=words)


@lru_cache(16)
def _kept(rows: int, n: int, diagonal: int, upper: bool, bits: np.dtype) -> np.ndarray:
    """All bits where an element stays, none where it is cleared: each row begins one later in the same few words."""
    below = np.arange(rows + n - 1) < rows + diagonal - 1
    return sliding_window_view(np.negative((below if upper else ~below).astype(bits)), n)[::-1]
