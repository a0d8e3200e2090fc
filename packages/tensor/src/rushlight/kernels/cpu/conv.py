"""Convolution on numpy arrays: which way is taken for what.

`x` is (N, C, *size), `w` is (F, C / groups, *kernel). The three functions are each other's gradients: `conv`,
`conv_transpose` (gradient by `x`) and `conv_weight` (gradient by `w`).

| way | for |
| --- | --- |
| `winograd` | in float32 filters of 3 x 3 and 4 x 4, with a stride of 2 of up to 8 x 8, where it is faster |
| `winograd_weights` | the gradient of 3 x 3 filters in float32 |
| `depthwise_planes` | one filter for each channel, up to 7 x 7, in row-major planes |
| `conv_native` | all else in float32 and float64 that is worth compiled code |
| one matrix product per sample | small arrays, kernels of one element, stride 1 |
| `depthwise`, a numpy pass per element of the kernel | small arrays, one filter for each channel |
| windows gathered into columns, then matrix products | small and complex arrays, integers |
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from rushlight.kernels.cpu import conv_native, depthwise
from rushlight.kernels.cpu.blas import SMALL, matmul

# Columns are made for so many samples at a time that they stay in the cache between the gathering and the product.
COLUMN_BYTES = 1 << 20


def padded(x: np.ndarray, padding: tuple[int, ...]) -> np.ndarray:
    """`x` with zeros around its spatial dimensions."""
    if not any(padding):
        return x
    size = x.shape[2:]
    result = np.zeros_like(x, shape=x.shape[:2] + tuple([s + 2 * p for s, p in zip(size, padding)]))
    result[_inside(size, padding)] = x
    return result


def _inside(size: tuple[int, ...], padding: tuple[int, ...]) -> tuple:
    return (slice(None), slice(None), *[slice(p, p + s) for s, p in zip(size, padding)])


def windows(
    x: np.ndarray, kernel: tuple[int, ...], out: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> np.ndarray:
    """A view (N, C, *kernel, *out) of padded `x`: element k of the window at each output position."""


    def taken(x: np.ndarray) -> np.ndarray:
        steps = x.strides[2:]
        inner = tuple([s * d for s, d in zip(steps, dilation)]) + tuple([s * t for s, t in zip(steps, stride)])
        return as_strided(x, x.shape[:2] + kernel + out, x.strides[:2] + inner)

    return taken(x) if isinstance(x, np.ndarray) else x.part(taken)  # a stand-in, see `core.native_notes`


def conv(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    out: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> np.ndarray:
    """Cross-correlation of `x` with `w`, plus a bias for each filter: (N, F, *out)."""
    n, channels, filters, kernel = x.shape[0], x.shape[1], w.shape[0], w.shape[2:]
    if conv_native.usable(x, n * channels * prod(kernel) * prod(out)):
        return conv_native.conv(x, w, bias, out, stride, padding, dilation, groups)
    if _is_product(kernel, stride, padding, groups) and (x.size < SMALL or x.flags.c_contiguous):
        product = matmul(w.reshape(filters, channels), x.reshape(n, channels, prod(out)))
        return _biased(product.reshape(n, filters, *out), bias)
    if channels == groups == filters:
        return _biased(depthwise.conv(padded(x, padding), w, out, stride, dilation), bias)
    result = np.empty_like(x, shape=(n, groups, filters // groups, prod(out)), order="C")
    rows = w.reshape(1, groups, filters // groups, channels // groups * prod(kernel))
    xp = padded(x, padding)
    for lo, hi in _blocks(n, channels * prod(kernel) * prod(out) * x.itemsize):
        columns = windows(xp[lo:hi], kernel, out, stride, dilation)
        matmul(rows, columns.reshape(hi - lo, groups, rows.shape[-1], prod(out)), out=result[lo:hi])
    return _biased(result.reshape(n, filters, *out), bias)


def _is_product(kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...], groups: int) -> bool:
    return prod(kernel) == prod(stride) == groups == 1 and not any(padding)


def _biased(result: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    if bias is not None:
        result += bias.reshape(-1, *(1,) * (result.ndim - 2))
    return result


def _blocks(n: int, bytes_each: int) -> Iterator[tuple[int, int]]:
    step = max(1, COLUMN_BYTES // max(1, bytes_each))
    for lo in range(0, n, step):
        yield lo, min(n, lo + step)


def conv_transpose(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    out: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> np.ndarray:
    """The transpose of `conv` as a map of its input, plus a bias for each channel: `x` (N, F, *in), `w` (F, C / groups,
    *kernel) -> (N, C, *out)."""
    n, filters, size, kernel = x.shape[0], x.shape[1], x.shape[2:], w.shape[2:]
    channels = w.shape[1] * groups
    if conv_native.usable(x, n * channels * prod(kernel) * prod(size)):
        return conv_native.conv_transpose(x, w, bias, out, stride, padding, dilation, groups)
    if _is_product(kernel, stride, padding, groups) and size == out and x.flags.c_contiguous:
        product = matmul(w.reshape(filters, channels).T, x.reshape(n, filters, prod(size)))
        return _biased(product.reshape(n, channels, *out), bias)
    full = tuple([o + 2 * p for o, p in zip(out, padding)])
    if channels == groups == filters:
        result = depthwise.transpose(x, w, full, stride, dilation)
    else:
        result = np.zeros((n, channels, *full), x.dtype)
        rows = w.reshape(1, groups, filters // groups, w.shape[1] * prod(kernel)).swapaxes(2, 3)
        for lo, hi in _blocks(n, channels * prod(kernel) * prod(size) * x.itemsize):
            columns = matmul(rows, x[lo:hi].reshape(hi - lo, groups, filters // groups, prod(size)))
            columns, block = columns.reshape(hi - lo, channels, *kernel, *size), result[lo:hi]
            for tap, part in depthwise.taps(kernel, size, stride, dilation):
                block[part] += columns[(slice(None), slice(None), *tap)]
    return _biased(result[_inside(out, padding)] if any(padding) else result, bias)


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
    if conv_native.usable(x, n * channels * prod(kernel) * prod(out)):
        result = conv_native.conv_weight(x, grad, kernel, stride, padding, dilation, groups)
        if np.isfinite(result).all():  # else an infinity or NaN may have met a zero that is none of its products
            return result
    if channels == groups == filters:
        return depthwise.weight(padded(x, padding), grad, kernel, stride, dilation)
    result = np.zeros((groups, filters // groups, channels // groups * prod(kernel)), x.dtype)
    xp = padded(x, padding)
    for lo, hi in _blocks(n, channels * prod(kernel) * prod(out) * x.itemsize):
        # One product over all samples of the block: (F, block * out) with (C * kernel, block * out).
        columns = np.moveaxis(windows(xp[lo:hi], kernel, out, stride, dilation), 0, 1 + len(kernel))
        block = grad[lo:hi].swapaxes(0, 1).reshape(groups, filters // groups, (hi - lo) * prod(out))
        result += matmul(block, columns.reshape(groups, result.shape[2], block.shape[2]).swapaxes(1, 2))
    return result.reshape(filters, channels // groups, *kernel)
