"""Elimination for large float32 and float64 matrices: LU with row swaps, and systems of equations.

LAPACK's recursive algorithm with our products. To eliminate some columns, eliminate their left half; let the right half
catch up (swap its rows the same way, solve for the rows of U, take L times U from the rest: a matrix product, and
nearly all of the work); then eliminate the right half.

        +------+-------+
        | L\\U  |   U   |      <- solved with the triangle of L beside it
        +------+-------+
        |      |       |
        |  L   | rest  |      <- rest - L U, eliminated next
        |      |       |
        +------+-------+

A panel of WIDTH columns is eliminated directly: in each column the largest number comes to the diagonal by a swap of
rows, what stands below is divided by it, and multiples of the column are taken from the columns to its right. Pivots
are LAPACK's: the first of the largest.

A system A X = B is eliminated with B written beside A, so that B catches up, too; going backwards through U solves it.
The steps depend on sizes alone and are kept (`_Program`), for there are hundred of them and each takes microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from math import prod
from typing import Any

import numpy as np

from rushlight.kernels.cpu import allocator, gemm, gemm_kernels, pool
from rushlight.kernels.cpu.blas import scipy_linalg
from rushlight.kernels.cpu.jit import compile_source
from rushlight.kernels.cpu.team import run_kernel
from rushlight.kernels.source import SHORT

# Rows from which on this is faster than LAPACK.
WORTH = 128
# Columns of a panel. Fewer make products that only fetch and store, more leave too much to the panel's single thread.
WIDTH = 32
# Columns, and multiply-adds of a product, that are worth sharing out: what one thread wrote another has to fetch from
# its cache.
_GRAIN, _SHARED = 1024, 2_000_000


def _transposed(source: str, source_pitch: str, target: str, pitch: str, rows: str, columns: str) -> str:
    """The loops of target[r, c] = source[c, r], in blocks of vectors where there are whole ones."""
    return f"""
    for r in range(0, {rows}, LANES):
        for c in range(0, {columns}, LANES):
            if r + LANES <= {rows} and c + LANES <= {columns}:
                block = moved({target}, r * {pitch} + c)
                transpose_block(moved({source}, c * {source_pitch} + r), {source_pitch}, block, {pitch})
            else:
                for y in range(r, min(r + LANES, {rows})):
                    for x in range(c, min(c + LANES, {columns})):
                        value = scratch_load({source}, x * {source_pitch} + y)
                        scratch_store({target}, y * {pitch} + x, value)"""


# The copy of the panel has columns along the memory, so that all inner loops do. Bits of positive floats compare as
# their values do, and LLVM makes vectors of maxima of integers.
_PANEL = f"""def kernel(lo, hi, layout, work, copy, pivots):
    wide_vectors()
    pitch, m, first, last = load(layout, 0), load(layout, 1), load(layout, 2), load(layout, 3)
    rows, columns = m - first, last - first
    corner = moved(work, first * pitch + first)
    {_transposed("corner", "pitch", "copy", "rows", "columns", "rows")}
    for j in range(columns):
        column = moved(copy, j * rows)
        largest = I(0)
        for i in range(j, rows):
            largest = max(largest, bitcast(fabs(scratch_load(column, i)), I))
        best = j
        while bitcast(fabs(scratch_load(column, best)), I) != largest:
            best += 1
        store(pivots, first + j, first + best)
        if best != j:
            for c in range(columns):
                upper, lower = scratch_load(copy, c * rows + j), scratch_load(copy, c * rows + best)
                scratch_store(copy, c * rows + j, lower)
                scratch_store(copy, c * rows + best, upper)
        pivot = scratch_load(column, j)
        if pivot != T(0):
            for i in range(j + 1, rows):
                scratch_store(column, i, scratch_load(column, i) / pivot)
        for c in range(j + 1, columns):
            other = moved(copy, c * rows)
            factor = scratch_load(other, j)
            for i in range(j + 1, rows):
                scratch_store(other, i, scratch_load(other, i) - scratch_load(column, i) * factor)
    {_transposed("copy", "rows", "corner", "pitch", "rows", "columns")}
"""

# Swaps the rows first..last, in columns from `start`, with those that `pivots` says.
_SWAP = """def kernel(lo, hi, layout, work, copy, pivots):
    pitch, first, last, start = load(layout, 0), load(layout, 1), load(layout, 2), load(layout, 3)
    for j in range(first, last):
        row, other = moved(work, j * pitch + start), moved(work, load(pivots, j) * pitch + start)
        if load(pivots, j) != j:
            for c in range(i64(lo), i64(hi)):
                x, y = scratch_load(row, c), scratch_load(other, c)
                scratch_store(row, c, y)
                scratch_store(other, c, x)
"""

# Solves rows first..last, in columns from `start`, for the triangle in columns first..last. Four vectors of a row stay
# in registers while all solved rows are taken from them.
_SUBSTITUTE = """def kernel(lo, hi, layout, work, copy, pivots):
    wide_vectors()
    pitch, first, last, start = load(layout, 0), load(layout, 1), load(layout, 2), load(layout, 3)
    upper, unit = load(layout, 4), load(layout, 5)
    step = i64(-1) if upper != 0 else i64(1)
    origin = last - 1 if upper != 0 else first
    whole = i64(lo) + (i64(hi) - i64(lo)) // (4 * LANES) * (4 * LANES)
    for c in range(i64(lo), whole, 4 * LANES):
        for t in range(last - first):
            i = origin + step * t
            row, factors = moved(work, i * pitch + start + c), moved(work, i * pitch + origin)
            v0, v1 = vload(row, 0, LANES), vload(row, LANES, LANES)
            v2, v3 = vload(row, 2 * LANES, LANES), vload(row, 3 * LANES, LANES)
            for s in range(t):
                factor = splat(-scratch_load(factors, step * s), LANES)
                solved = moved(work, (origin + step * s) * pitch + start + c)
                v0 = vadd(v0, vmul(factor, vload(solved, 0, LANES)))
                v1 = vadd(v1, vmul(factor, vload(solved, LANES, LANES)))
                v2 = vadd(v2, vmul(factor, vload(solved, 2 * LANES, LANES)))
                v3 = vadd(v3, vmul(factor, vload(solved, 3 * LANES, LANES)))
            if unit == 0:
                diagonal = splat(scratch_load(factors, step * t), LANES)
                v0, v1, v2, v3 = vdiv(v0, diagonal), vdiv(v1, diagonal), vdiv(v2, diagonal), vdiv(v3, diagonal)
            vstore(row, 0, v0)
            vstore(row, LANES, v1)
            vstore(row, 2 * LANES, v2)
            vstore(row, 3 * LANES, v3)
    for t in range(last - first):
        i = origin + step * t
        factors = moved(work, i * pitch + origin)
        for s in range(t):
            factor = scratch_load(factors, step * s)
            for c in range(whole, i64(hi)):
                x = scratch_load(work, (origin + step * s) * pitch + start + c)
                scratch_store(work, i * pitch + start + c, scratch_load(work, i * pitch + start + c) - factor * x)
        if unit == 0:
            for c in range(whole, i64(hi)):
                x = scratch_load(work, i * pitch + start + c)
                scratch_store(work, i * pitch + start + c, x / scratch_load(factors, step * t))
"""


@cache
def _kernel(source: str, dtype: np.dtype) -> Callable[..., None]:
    short = SHORT[dtype.name]
    names = f"T = {short}\nI = i{8 * dtype.itemsize}\nLANES = {gemm.tile_shape(dtype)[1] // 2}\n"
    return compile_source(names + source, ("u64", "u64", "*i64", f"*{short}", f"*{short}", "*i64"))


class _Program:
    """The steps of an elimination in a row-major matrix of so many rows, and columns `pitch`."""

    def __init__(self, dtype: np.dtype, rows: int, pitch: int):
        self.dtype, self.rows, self.pitch, self.threads = dtype, rows, pitch, pool.get_num_threads()
        self.steps: list[tuple[Any, ...]] = []

    def run(self, work: np.ndarray) -> np.ndarray:
        """Take the steps; returns the row, from 0, that each row was swapped with."""
        pivots, copy = np.empty(self.rows, np.int64), np.empty(self.rows * WIDTH, self.dtype)
        minus = np.array([-1, 1], self.dtype)
        for kernel, tasks, grain, words in self.steps:
            if kernel is gemm.multiply:
                left, right, target = words
                gemm.multiply(work[left], work[right], part := work[target], part, -1.0)
            elif grain:
                run_kernel(kernel, tasks, grain, words, work, work, work, work, minus)
            else:
                run_kernel(kernel, tasks, _GRAIN, words, work, copy, pivots)
        return pivots

    def eliminate(self, first: int, last: int) -> None:
        """Eliminate columns below the diagonal."""
        if last - first <= WIDTH:
            self._step(_PANEL, 1, self.rows, first, last)
            return
        middle = first + -(-(last - first) // (2 * WIDTH)) * WIDTH
        self.eliminate(first, middle)
        self.catch_up(first, middle, middle, last)
        self._subtract(slice(middle, self.rows), slice(first, middle), slice(middle, last))
        self.eliminate(middle, last)
        self._step(_SWAP, middle - first, middle, last, first)

    def catch_up(self, first: int, last: int, start: int, stop: int) -> None:
        """Do to columns start..stop what eliminating columns first..last did to the rows first..last."""
        if start < stop:
            self._step(_SWAP, stop - start, first, last, start)
            self.solve(first, last, start, stop, upper=False, unit=True)

    def solve(self, first: int, last: int, start: int, stop: int, upper: bool, unit: bool) -> None:
        """Solve rows first..last of columns start..stop for the triangle in columns first..last."""
        blocks = range(first, last, WIDTH)
        for top in reversed(blocks) if upper else blocks:
            bottom = min(top + WIDTH, last)
            self._step(_SUBSTITUTE, stop - start, top, bottom, start, upper, unit)
            rest = slice(first, top) if upper else slice(bottom, last)
            self._subtract(rest, slice(top, bottom), slice(start, stop))

    def _step(self, source: str, tasks: int, *words: int) -> None:
        self.steps.append((_kernel(source, self.dtype), tasks, 0, np.array([self.pitch, *words], np.int64)))

    def _subtract(self, rows: slice, inner: slice, columns: slice) -> None:
        """work[rows, columns] -= work[rows, inner] @ work[inner, columns]"""
        size = rows.stop - rows.start, columns.stop - columns.start, inner.stop - inner.start
        if not size[0] or not size[1]:
            return
        places = (rows.start, inner.start), (inner.start, columns.start), (rows.start, columns.start)
        plan = gemm.within(self.dtype.char, self.pitch, places, size, self.threads)
        if plan is None:
            parts = (rows, inner), (inner, columns), (rows, columns)
            self.steps.append((gemm.multiply, 0, 0, parts))
        else:
            tasks, grain, words = plan
            alone = prod(size) < _SHARED
            self.steps.append((gemm_kernels.multiply(self.dtype), tasks, tasks if alone else grain, words))


@lru_cache(16)
def _factoring(dtype: np.dtype, m: int, n: int, threads: int) -> _Program:
    program = _Program(dtype, m, n)
    small = min(m, n)
    program.eliminate(0, small)
    program.catch_up(0, small, small, n)
    return program


@lru_cache(16)
def _solving(dtype: np.dtype, n: int, columns: int, threads: int) -> _Program:
    program = _Program(dtype, n, n + columns)
    program.eliminate(0, n)
    program.catch_up(0, n, n, n + columns)
    program.solve(0, n, n, n + columns, upper=True, unit=False)
    return program


def takes(a: np.ndarray) -> bool:
    """Are these matrices for which this is faster than LAPACK?"""
    return a.dtype.char in "fd" and min(a.shape[-2:]) >= WORTH and a.size > 0


def lu(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """L and U in one matrix, the row (from 0) that each row was swapped with, and 0 or the index (from 1) of a zero on
    the diagonal: what LAPACK's getrf returns."""
    work = np.array(a, order="C")
    swaps = _factoring(a.dtype, *a.shape, pool.get_num_threads()).run(work)[: min(a.shape)]
    zeros = np.flatnonzero(work.diagonal() == 0)
    return work, swaps, int(zeros[0]) + 1 if zeros.size else 0


def solve(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """X with A X = B for a square matrix and the columns of another; None where U has a zero on its diagonal."""
    n = len(a)
    work = allocator.empty((n, n + b.shape[1]), a.dtype)
    work[:, :n], work[:, n:] = a, b
    _solving(work.dtype, *b.shape, pool.get_num_threads()).run(work)
    return np.ascontiguousarray(work[:, n:]) if work.diagonal().all() else None


def cholesky(a: np.ndarray) -> tuple[np.ndarray, int]:
    """The lower factor of a matrix by LAPACK, and 0 or the order of the minor that is not positive.

    LAPACK reads columns, for which the lower triangle of rows is the upper one. numpy would compute float32 in double
    precision, in five times the time.
    """
    upper, info = scipy_linalg().get_lapack_funcs("potrf", dtype=a.dtype)(a.T, lower=False, clean=True)
    return upper.T, info
