"""batch_norm of memory in which the channels of a place lie side by side, as rows of channels.

A task is a block of rows that stays in the first cache: vectors of channels go down its rows, and leave a partial sum
per channel. Blocks do not depend on the number of threads, so results do not either. The variance is put together from
the means and squared deviations of the blocks, and so loses no digits to a mean far from zero.
"""

from __future__ import annotations

import numpy as np

from rushlight.kernels.cpu import allocator, native

LANES = 16
BLOCK = 1 << 13  # elements of the rows of a task

_ROWS = f"""    wide_vectors()
    rows, channels, step = load(layout, u64(0)), load(layout, u64(1)), load(layout, u64(2))
    for task in range(i64(lo), i64(hi)):
        first = task * step
        last = min(rows, first + step)
        for block in range(i64(0), channels, i64({LANES})):
            c = min(block, channels - i64({LANES}))
"""

_MOMENTS = f"""def kernel(lo, hi, layout, means, squares, x):
{_ROWS}
            total = splat(T(0.0), {LANES})
            for row in range(first, last):
                total = vadd(total, vload(x, row * channels + c, {LANES}))
            middle = vdiv(total, splat(T(last - first), {LANES}))
            total, less = splat(T(0.0), {LANES}), vmul(middle, splat(T(-1.0), {LANES}))
            for row in range(first, last):
                d = vadd(vload(x, row * channels + c, {LANES}), less)
                total = vadd(total, vmul(d, d))
            vstore(means, task * channels + c, middle)
            vstore(squares, task * channels + c, total)
"""

_NORMALIZE = f"""def kernel(lo, hi, layout, out, x, minus_mean, scale, shift):
{_ROWS}
            less, by, plus = vload(minus_mean, c, {LANES}), vload(scale, c, {LANES}), vload(shift, c, {LANES})
            for row in range(first, last):
                d = vadd(vload(x, row * channels + c, {LANES}), less)
                vstore(out, row * channels + c, vadd(vmul(d, by), plus))
"""

_SUMS = f"""def kernel(lo, hi, layout, plain, along, grad, x, minus_mean):
{_ROWS}
            less = vload(minus_mean, c, {LANES})
            total, product = splat(T(0.0), {LANES}), splat(T(0.0), {LANES})
            for row in range(first, last):
                g = vload(grad, row * channels + c, {LANES})
                total = vadd(total, g)
                product = vadd(product, vmul(g, vadd(vload(x, row * channels + c, {LANES}), less)))
            vstore(plain, task * channels + c, total)
            vstore(along, task * channels + c, product)
"""

_BACKWARD = f"""def kernel(lo, hi, layout, out, grad, x, minus_mean, minus_base, minus_slope, scale):
{_ROWS}
            less, below = vload(minus_mean, c, {LANES}), vload(minus_base, c, {LANES})
            by, factor = vload(minus_slope, c, {LANES}), vload(scale, c, {LANES})
            for row in range(first, last):
                d = vadd(vload(x, row * channels + c, {LANES}), less)
                g = vadd(vload(grad, row * channels + c, {LANES}), below)
                vstore(out, row * channels + c, vmul(vadd(g, vmul(d, by)), factor))
"""

Triple = tuple[np.ndarray, np.ndarray, np.ndarray]


def fits(x: np.ndarray) -> bool:
    """Do the channels of (N, C, L) lie side by side, enough of them for a vector?"""
    return x.shape[1] >= LANES and native.worthwhile(x.transpose(0, 2, 1))


def _run(source: str, rows: np.ndarray, *arrays: np.ndarray) -> None:
    (count, channels), step = rows.shape, _step(rows)
    native.over(native.compiled(source, "T" * len(arrays)), -(-count // step), step * channels,
                (count, channels, step), *arrays)  # fmt: skip


def _step(rows: np.ndarray) -> int:
    return max(LANES, BLOCK // rows.shape[1])


def _rows(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(0, 2, 1)).reshape(-1, x.shape[1])


def _as(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows of channels in the shape (N, C, L) of x."""
    return rows.reshape(x.shape[0], x.shape[2], x.shape[1]).transpose(0, 2, 1)


def _partial(source: str, rows: np.ndarray, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two partial results of each block of rows, by channel."""
    shape = (-(-len(rows) // _step(rows)), rows.shape[1])
    parts = np.empty(shape, rows.dtype), np.empty(shape, rows.dtype)
    _run(source, rows, *parts, *arrays)
    return parts


def batch_norm(x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, eps: float) -> Triple:
    """Channels of (N, C, L) normalized, and the mean and biased variance of each."""
    rows = _rows(x)
    means, squares = _partial(_MOMENTS, rows, rows)
    counts = np.minimum(_step(rows), len(rows) - np.arange(len(means)) * _step(rows))[:, None]
    middle = (means * counts).sum(axis=0, dtype=np.float64) / len(rows)
    spread = (squares.sum(axis=0, dtype=np.float64) + (counts * (means - middle) ** 2).sum(axis=0)) / len(rows)
    mean, variance = middle.astype(x.dtype), spread.astype(x.dtype)
    scale = (1 if weight is None else weight) / np.sqrt(variance + x.dtype.type(eps))
    shift = np.zeros_like(mean) if bias is None else np.ascontiguousarray(bias)
    out = allocator.empty(rows.shape, x.dtype)
    _run(_NORMALIZE, rows, out, rows, -mean, scale, shift)
    return _as(x, out), mean, variance


def batch_norm_backward(
    grad: np.ndarray, x: np.ndarray, weight: np.ndarray | None, mean: np.ndarray, variance: np.ndarray, eps: float
) -> Triple:
    """Gradients of `batch_norm` by input, weight and bias."""
    rows, by_row, minus_mean = _rows(x), _rows(grad), -np.ascontiguousarray(mean)
    rstd = 1 / np.sqrt(variance + x.dtype.type(eps))
    plain, along = (part.sum(axis=0, dtype=np.float64) for part in _partial(_SUMS, rows, by_row, rows, minus_mean))
    along = along * rstd
    base, slope = (plain / len(rows)).astype(x.dtype), (along / len(rows) * rstd).astype(x.dtype)
    scale = np.ascontiguousarray(rstd if weight is None else rstd * weight)
    out = allocator.empty(rows.shape, x.dtype)
    _run(_BACKWARD, rows, out, by_row, rows, minus_mean, -base, -slope, scale)
    return _as(x, out), along.astype(x.dtype), plain.astype(x.dtype)
