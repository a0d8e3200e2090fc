"""Convolution on numpy arrays: windows gathered into columns, then one matrix product per sample (BLAS).

`x` is (N, C, *size), `w` is (F, C / groups, *kernel), the columns of a sample are (C * prod(kernel), prod(out)). The
three functions are each other's gradients: `conv`, `conv_transpose` (gradient by `x`) and `conv_weight` (gradient by
`w`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from rushlight.kernels.cpu import allocator, depthwise, pool
from rushlight.kernels.cpu import windows as native
from rushlight.kernels.cpu.blas import matmul

# Columns are made for so many samples at a time that they stay in the cache between the gathering and the product.
COLUMN_BYTES = 1 << 20
# From this size of all columns on, threads pay.
PARALLEL_BYTES = 1 << 19


def padded(x: np.ndarray, padding: tuple[int, ...]) -> np.ndarray:
    """`x` with zeros around its spatial dimensions."""
    if not any(padding):
        return x
    size = x.shape[2:]
    result = np.zeros(x.shape[:2] + tuple([s + 2 * p for s, p in zip(size, padding)]), x.dtype)
    result[_inside(size, padding)] = x
    return result


def _inside(size: tuple[int, ...], padding: tuple[int, ...]) -> tuple:
    return (slice(None), slice(None), *[slice(p, p + s) for s, p in zip(size, padding)])


def windows(
    x: np.ndarray, kernel: tuple[int, ...], out: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> np.ndarray:
    """A view (N, C, *kernel, *out) of padded `x`: element k of the window at each output position."""
    steps = x.strides[2:]
    return as_strided(
        x,
        x.shape[:2] + kernel + out,
        x.strides[:2] + tuple([s * d for s, d in zip(steps, dilation)]) + tuple([s * t for s, t in zip(steps, stride)]),
    )


def conv(
    x: np.ndarray,
    w: np.ndarray,
    out: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> np.ndarray:
    """Cross-correlation of `x` with `w`: (N, F, *out)."""
    n, channels, filters, kernel = x.shape[0], x.shape[1], w.shape[0], w.shape[2:]
    if prod(kernel) == 1 and groups == 1 and set(stride) == {1} and not any(padding) and x.flags.c_contiguous:
        return matmul(w.reshape(filters, channels), x.reshape(n, channels, -1)).reshape(n, filters, *out)
    if channels == groups == filters:
        return depthwise.conv(padded(x, padding), w, out, stride, dilation)
    result = allocator.empty((n, groups, filters // groups, prod(out)), x.dtype)
    rows = w.reshape(1, groups, filters // groups, -1)
    gather = _gatherer(x, kernel, out, stride, padding, dilation)

    def samples(lo: int, hi: int) -> None:
        matmul(rows, gather(lo, hi, False).reshape(hi - lo, groups, rows.shape[-1], -1), out=result[lo:hi])

    _over_samples(samples, n, channels * prod(kernel) * prod(out) * x.itemsize)
    return result.reshape(n, filters, *out)


def _gatherer(
    x: np.ndarray, kernel: tuple, out: tuple, stride: tuple, padding: tuple, dilation: tuple
) -> Callable[..., np.ndarray]:
    """`gather(lo, hi, by_tap)`: the columns of some samples, (samples, C * K, L) or (C * K, samples * L)."""
    xp = padded(x, padding)
    if native.usable(xp, x.shape[0] * x.shape[1] * prod(kernel) * prod(out)):
        return lambda lo, hi, by_tap: native.columns(xp, lo, hi, by_tap, kernel, out, stride, dilation)
    depth, length = x.shape[1] * prod(kernel), prod(out)

    def gather(lo: int, hi: int, by_tap: bool) -> np.ndarray:
        view = windows(xp[lo:hi], kernel, out, stride, dilation)
        if by_tap:
            return np.moveaxis(view, 0, 1 + len(kernel)).reshape(depth, (hi - lo) * length)
        return view.reshape(hi - lo, depth, length)

    return gather


def _blocks(n: int, bytes_each: int):
    step = max(1, COLUMN_BYTES // max(1, bytes_each))
    for lo in range(0, n, step):
        yield lo, min(n, lo + step)


def _over_samples(work: Callable[[int, int], None], n: int, bytes_each: int) -> None:
    """`work(lo, hi)` for blocks of samples whose columns stay in the cache, on all threads when there are several
    blocks' worth."""
    blocks = list(_blocks(n, max(bytes_each, COLUMN_BYTES // max(1, n // (2 * pool.get_num_threads())))))

    def several(first: int, last: int) -> None:
        for lo, hi in blocks[first:last]:
            work(lo, hi)

    if n * bytes_each < PARALLEL_BYTES:
        several(0, len(blocks))
    else:
        pool.parallel_for(several, len(blocks), 1)


def conv_transpose(
    x: np.ndarray,
    w: np.ndarray,
    out: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> np.ndarray:
    """The transpose of `conv` as a map of its input: `x` (N, F, *in), `w` (F, C / groups, *kernel) -> (N, C, *out)."""
    n, filters, size, kernel = x.shape[0], x.shape[1], x.shape[2:], w.shape[2:]
    channels = w.shape[1] * groups
    full = tuple([o + 2 * p for o, p in zip(out, padding)])
    if channels == groups == filters:
        result = depthwise.transpose(x, w, full, stride, dilation)
    else:
        x = np.ascontiguousarray(x)
        direct = native.usable(x, n * channels * prod(kernel) * prod(size))
        make = allocator.empty if direct else np.zeros
        result = make((n, channels, *full), x.dtype)
        rows = w.reshape(1, groups, filters // groups, -1).swapaxes(2, 3)

        def samples(lo: int, hi: int) -> None:
            columns = allocator.empty((hi - lo, groups, rows.shape[2], prod(size)), x.dtype)
            matmul(rows, x[lo:hi].reshape(hi - lo, groups, filters // groups, -1), out=columns)
            if direct:
                native.add_columns(result, lo, hi, columns, kernel, size, stride, dilation)
                return
            columns = columns.reshape(hi - lo, channels, *kernel, *size)
            block = result[lo:hi]
            for tap, part in depthwise.taps(kernel, size, stride, dilation):
                block[part] += columns[(slice(None), slice(None), *tap)]

        _over_samples(samples, n, channels * prod(kernel) * prod(size) * x.itemsize)
    return result[_inside(out, padding)] if any(padding) else result


def overlap_add(
    columns: np.ndarray,
    out: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> np.ndarray:
    """Windows (N, C, *kernel, *size) added up where they lie in (N, C, *out): the transpose of taking windows."""
    kernel, size = columns.shape[2 : 2 + len(out)], columns.shape[2 + len(out) :]
    result = np.zeros((*columns.shape[:2], *[o + 2 * p for o, p in zip(out, padding)]), columns.dtype)
    for tap, part in depthwise.taps(kernel, size, stride, dilation):
        result[part] += columns[(slice(None), slice(None), *tap)]
    return result[_inside(out, padding)] if any(padding) else result


def conv_weight(
    x: np.ndarray,
    grad: np.ndarray,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> np.ndarray:
    """The transpose of `conv` as a map of its weight: `x` (N, C, *size), `grad` (N, F, *out) -> (F, C / groups,
    *kernel)."""
    n, channels, filters, out = x.shape[0], x.shape[1], grad.shape[1], grad.shape[2:]
    if channels == groups == filters:
        return depthwise.weight(padded(x, padding), grad, kernel, stride, dilation)
    result = np.zeros((groups, filters // groups, channels // groups * prod(kernel)), x.dtype)
    gather = _gatherer(x, kernel, out, stride, padding, dilation)
    for lo, hi in _blocks(n, channels * prod(kernel) * prod(out) * x.itemsize):
        # One product over all samples of the block: (F, block * out) with (C * kernel, block * out).
        columns = gather(lo, hi, True).reshape(groups, result.shape[2], -1)
        block = grad[lo:hi].swapaxes(0, 1).reshape(groups, filters // groups, -1)
        result += matmul(block, columns.swapaxes(1, 2))
    return result.reshape(filters, channels // groups, *kernel)
