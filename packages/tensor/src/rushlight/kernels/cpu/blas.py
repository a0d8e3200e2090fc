"""Matrix products by the fastest route: our own kernels, or numpy's BLAS with one thread a call.

Ours (`gemm`, `gemv`) take float32 and float64 from some size on. BLAS has the rest: small products, for which nobody
should wait for a compiler, complex numbers, and large products where vectors are short (`_is_large`).

A BLAS that starts threads of its own meets at barriers that spin. On a machine with other work each product then waits
for a thread that has no CPU: measured with a load of 7 on 2 cores, a training step of a small CNN took 12 times as long
with two BLAS threads as with one. So BLAS gets one thread, and a product that is worth it is cut into pieces for the
pool, whose callers do the work of a thread that does not come.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from rushlight.kernels.cpu import gemm, gemm_kernels, gemv, pool

# Multiply-adds below which choosing a route costs more than the wrong one.
SMALL = 1 << 15
# Multiply-adds per piece: about 40 us of work, so that handing it over (3..6 us) does not show.
PIECE = 2_000_000
# Multiply-adds from which on a product counts as large. With AVX2, OpenBLAS does 90 to 93 Gflop/s of 103 on large
# matrices, ours 75 to 85; by columns of A, 90 and 65 to 78. (Two threads: 150 to 180 and 110 to 170; smaller products
# are faster by ours.) With AVX-512, ours are as fast.
LARGE_WORK = 30_000_000

pool.use_one_blas_thread()


def matmul(
    a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None, added: np.ndarray | None = None
) -> np.ndarray:
    """`np.matmul(a, b, out=out)` on all threads; plus `added`, of the same dtype and a shape that broadcasts to the
    result's."""
    if a.size * b.shape[-1] < SMALL:
        result = np.matmul(a, b, out=out)
    elif a.ndim < 2 or b.ndim < 2:
        result = _with_vector(a, b, out)
    elif out is None and (a.ndim == b.ndim == 2) and (a.shape[0] == 1 or b.shape[1] == 1):
        result = (_with_vector(a[0], b, None) if a.shape[0] == 1 else _with_vector(a, b[:, 0], None)).reshape(
            a.shape[0], b.shape[1]
        )
    else:
        # Multiply-adds, where one operand has the whole batch.
        work = max(a.size * b.shape[-1], b.size * a.shape[-2])
        if work >= gemm.WORTH and gemm.takes(a, b) and not _is_large(a, b, work):
            return gemm.multiply(a, b, out, added)
        result = _by_blas(a, b, out, work)
    if added is not None:
        result += added
    return result


def _is_large(a: np.ndarray, b: np.ndarray, work: int) -> bool:
    """Is it a product that BLAS multiplies faster? Those whose A has its columns side by side, or is too large for
    the caches, where tiles have six rows."""
    if work < LARGE_WORK or a.ndim > 2 or b.ndim > 2:
        return False
    by_rows = a.strides[1] == a.itemsize
    return (not by_rows or a.size + b.size > gemm.LARGE) and gemm_kernels.tile_shape(a.dtype)[0] < 8


def _by_blas(a: np.ndarray, b: np.ndarray, out: np.ndarray | None, work: int) -> np.ndarray:
    a, b = _readable(a), _readable(b)
    if work < 2 * PIECE or pool.inside_piece():
        return np.matmul(a, b, out=out)
    if a.ndim == b.ndim == 2:
        return _product(a, b, out)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if out is None:
        out = np.empty((*batch, a.shape[-2], b.shape[-1]), np.result_type(a, b))
    first = next((d for d, size in enumerate(batch) if size > 1), None)
    if first is None:
        _product(a.reshape(a.shape[-2:]), b.reshape(b.shape[-2:]), out.reshape(out.shape[-2:]))
        return out
    from_end = first - len(batch)

    def piece(lo: int, hi: int) -> None:
        part = out[(slice(None),) * first + (slice(lo, hi),)]
        np.matmul(_part(a, from_end, lo, hi), _part(b, from_end, lo, hi), out=part)

    pool.parallel_for(piece, batch[first], _grain(work // batch[first]))
    return out


def _with_vector(a: np.ndarray, b: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """A product with one vector, or two."""
    if out is None and a.ndim == 2 and b.ndim == 1 and gemv.takes(a, b):
        return gemv.multiply(a, b)
    if out is None and a.ndim == 1 and b.ndim == 2 and gemv.takes(b.T, a):
        return gemv.multiply(b.T, a)
    return np.matmul(_readable(a), _readable(b), out=out)


def _readable(a: np.ndarray) -> np.ndarray:
    """The array, copied if BLAS could not read its matrices in place (numpy would fall to a slow loop)."""
    if a.ndim < 2 or a.dtype.kind not in "fc":
        return a
    row, column = a.strides[-2:]
    size = a.itemsize
    if (column == size and row >= size * a.shape[-1]) or (row == size and column >= size * a.shape[-2]):
        return a
    return np.ascontiguousarray(a)


@cache
def scipy_linalg() -> Any:
    """The module scipy.linalg, which loads when it is needed; its BLAS gets one thread a call like numpy's."""
    import scipy.linalg

    pool.use_one_blas_thread()
    return scipy.linalg


def _part(x: np.ndarray, dim: int, lo: int, hi: int) -> np.ndarray:
    """The entries lo..hi of a batch dimension, counted from the end of the batch; all of an operand that repeats along
    it."""
    at = x.ndim - 2 + dim
    if at < 0 or x.shape[at] == 1:
        return x
    return x[(slice(None),) * at + (slice(lo, hi),)]


def _product(a: np.ndarray, b: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """A product of two matrices, cut along the longer side of the result."""
    rows, columns, depth = a.shape[0], b.shape[1], a.shape[1]
    if out is None:
        out = np.empty((rows, columns), np.result_type(a, b))
    # Each piece packs one operand anew: two pieces a thread are enough.
    fewest = max(rows, columns) // (2 * pool.get_num_threads())
    if rows >= columns:
        grain = max(8, fewest, _grain(columns * depth))
        pool.parallel_for(lambda lo, hi: np.matmul(a[lo:hi], b, out=out[lo:hi]), rows, grain)
    else:
        grain = max(8, fewest, _grain(rows * depth))
        pool.parallel_for(lambda lo, hi: np.matmul(a, b[:, lo:hi], out=out[:, lo:hi]), columns, grain)
    return out


def _grain(each: int) -> int:
    """How many positions of so many multiply-adds make a piece."""
    return max(1, PIECE // max(1, each))
