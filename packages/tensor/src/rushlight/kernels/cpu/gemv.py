"""Products of a matrix and a vector, on all threads.

They fetch each element of the matrix once, for one multiply-add, so memory sets the pace: what counts is to read along
the memory and with all threads. A matrix with rows along the memory gives dot products of its rows with the vector; one
with columns along the memory is added up column by column, four at a time, in a share of the result that stays in the
cache. The order of additions does not depend on the threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from rushlight.kernels.cpu import native
from rushlight.kernels.cpu.team import run_kernel

# Elements of the matrix from which on this is faster than BLAS on one thread, and elements to a piece of work.
WORTH, PIECE = 1 << 17, 1 << 15

_ROWS = """def kernel(lo, hi, layout, a, x, y):
    wide_vectors()
    depth, pitch = u64(load(layout, u64(0))), u64(load(layout, u64(1)))
    for i in range(lo, hi):
        total = T(0)
        for k in range(depth):
            total = reassociable_add(total, load(a, i * pitch + k) * load(x, k))
        store(y, i, total)
"""

_COLUMNS = """def kernel(lo, hi, layout, a, x, y):
    wide_vectors()
    depth, pitch = u64(load(layout, u64(0))), u64(load(layout, u64(1)))
    for i in range(lo, hi):
        scratch_store(y, i, T(0))
    fours = depth // u64(4) * u64(4)
    for k in range(u64(0), fours, u64(4)):
        x0, x1, x2, x3 = load(x, k), load(x, k + u64(1)), load(x, k + u64(2)), load(x, k + u64(3))
        for i in range(lo, hi):
            at = k * pitch + i
            near = load(a, at) * x0 + load(a, at + pitch) * x1
            far = load(a, at + u64(2) * pitch) * x2 + load(a, at + u64(3) * pitch) * x3
            scratch_store(y, i, scratch_load(y, i) + (near + far))
    for k in range(fours, depth):
        x0 = load(x, k)
        for i in range(lo, hi):
            scratch_store(y, i, scratch_load(y, i) + load(a, k * pitch + i) * x0)
"""


@cache
def _kernel(by_rows: bool, dtype: np.dtype) -> Callable[..., None]:
    return native.compiled(_ROWS if by_rows else _COLUMNS, "TTT", dtype)


def takes(a: np.ndarray, x: np.ndarray) -> bool:
    """Can `multiply` take these operands, and is it worth it?"""
    if a.size < WORTH or a.dtype != x.dtype or a.dtype.char not in "fd" or not (a.flags.aligned and x.flags.aligned):
        return False
    row, column = a.strides
    return (column == a.itemsize and row >= 0) or (row == a.itemsize and column >= 0)


def multiply(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """`a @ x` for a matrix (m, k) with rows or columns along the memory, and a vector (k,). `takes` must hold."""
    m, k = a.shape
    by_rows = a.strides[1] == a.itemsize
    layout = np.array([k, a.strides[0 if by_rows else 1] // a.itemsize], np.int64)
    y = np.empty(m, a.dtype)
    # Shares of columns are whole cache lines and no shorter than the prefetcher needs.
    grain = max(1 if by_rows else 128, PIECE // max(1, k))
    run_kernel(_kernel(by_rows, a.dtype), m, grain, layout, a, np.ascontiguousarray(x), y)
    return y
