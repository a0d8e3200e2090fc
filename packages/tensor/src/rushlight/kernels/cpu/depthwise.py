"""Convolution of each channel with a filter of its own: no sums over channels, so no matrix products.

Large arrays take native loops over padded planes, a row at a time while it is in the first cache; small ones a numpy
pass per kernel position.
"""

from __future__ import annotations

from math import prod

import numpy as np

from rushlight.kernels.cpu import allocator, native
from rushlight.kernels.cpu.windows import HEAD, Sizes, layout_of, usable

_FORWARD = f"""def kernel(lo, hi, layout, out, x, w):
    wide_vectors()
{HEAD}
    channels = u64(load(layout, u64(12)))
    taps = kernel_height * kernel_width
    for plane in range(lo, hi):
        base = i64(plane) * height * width
        first = i64(plane % channels) * taps
        for oh in range(out_height):
            row = (i64(plane) * out_height + oh) * out_width
            for ow in range(out_width):
                scratch_store(out, u64(row + ow), T(0.0))
            for i in range(kernel_height):
                for j in range(kernel_width):
                    factor = load(w, u64(first + i * kernel_width + j))
                    source = base + (oh * stride_height + i * step_height) * width + j * step_width
                    for ow in range(out_width):
                        at = u64(row + ow)
                        product = factor * load(x, u64(source + ow * stride_width))
                        scratch_store(out, at, scratch_load(out, at) + product)
"""

_TRANSPOSE = f"""def kernel(lo, hi, layout, out, grad, w):
    wide_vectors()
{HEAD}
    channels = u64(load(layout, u64(12)))
    taps = kernel_height * kernel_width
    for plane in range(lo, hi):
        base = i64(plane) * height * width
        first = i64(plane % channels) * taps
        for k in range(height * width):
            scratch_store(out, u64(base + k), T(0.0))
        for oh in range(out_height):
            row = (i64(plane) * out_height + oh) * out_width
            for i in range(kernel_height):
                for j in range(kernel_width):
                    factor = load(w, u64(first + i * kernel_width + j))
                    target = base + (oh * stride_height + i * step_height) * width + j * step_width
                    for ow in range(out_width):
                        at = u64(target + ow * stride_width)
                        scratch_store(out, at, scratch_load(out, at) + factor * load(grad, u64(row + ow)))
"""

# A task is a channel; float32 sums of a row are added up in float64.
_WEIGHT = f"""def kernel(lo, hi, layout, out, x, grad):
    wide_vectors()
{HEAD}
    channels = load(layout, u64(12))
    samples = load(layout, u64(13))
    for channel in range(lo, hi):
        for i in range(kernel_height):
            for j in range(kernel_width):
                total = f64(0.0)
                for sample in range(samples):
                    plane = sample * channels + i64(channel)
                    for oh in range(out_height):
                        row = (plane * out_height + oh) * out_width
                        source = (plane * height + oh * stride_height + i * step_height) * width + j * step_width
                        part = T(0.0)
                        for ow in range(out_width):
                            product = load(grad, u64(row + ow)) * load(x, u64(source + ow * stride_width))
                            part = reassociable_add(part, product)
                        total += f64(part)
                store(out, u64((i64(channel) * kernel_height + i) * kernel_width + j), T(total))
"""


def taps(kernel: Sizes, out: Sizes, stride: Sizes, dilation: Sizes):
    """For each kernel position: its index and the slice of the padded input that it meets."""
    for tap in np.ndindex(*kernel):
        yield tap, (..., *[slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, dilation, out, stride)])


def _layout(xp: np.ndarray, kernel: Sizes, out: Sizes, stride: Sizes, dilation: Sizes) -> tuple[int, ...]:
    return (*layout_of(xp.shape[2:], out, kernel, stride, (0,) * len(out), dilation), xp.shape[1])


def _by_channel(w: np.ndarray) -> np.ndarray:
    """Filters (C, 1, *kernel) shaped to multiply planes, kernel dimensions behind the channel."""
    return w[:, 0].reshape(w.shape[0], *w.shape[2:], *(1,) * (w.ndim - 2))


def conv(xp: np.ndarray, w: np.ndarray, out: Sizes, stride: Sizes, dilation: Sizes) -> np.ndarray:
    """Padded (N, C, *size) with filters (C, 1, *kernel): (N, C, *out)."""
    shape, kernel = (*xp.shape[:2], *out), w.shape[2:]
    if usable(xp, prod(shape) * prod(kernel)):
        result = allocator.empty(shape, xp.dtype)
        layout = _layout(xp, kernel, out, stride, dilation)
        loop = native.compiled(_FORWARD, "TTT")
        native.over(loop, prod(shape[:2]), prod(out) * prod(kernel), layout, result, xp, np.ascontiguousarray(w))
        return result
    result = np.zeros(shape, xp.dtype)
    for tap, part in taps(kernel, out, stride, dilation):
        result += xp[part] * _by_channel(w)[(slice(None), *tap)]
    return result


def transpose(grad: np.ndarray, w: np.ndarray, full: Sizes, stride: Sizes, dilation: Sizes) -> np.ndarray:
    """The transpose of `conv` by its padded input of spatial size `full`."""
    shape, kernel, size = (*grad.shape[:2], *full), w.shape[2:], grad.shape[2:]
    grad = native.dense(grad)
    if usable(grad, grad.size * prod(kernel)):
        result = allocator.empty(shape, grad.dtype)
        layout = _layout(result, kernel, size, stride, dilation)
        loop = native.compiled(_TRANSPOSE, "TTT")
        native.over(loop, prod(shape[:2]), prod(size) * prod(kernel), layout, result, grad, np.ascontiguousarray(w))
        return result
    result = np.zeros(shape, grad.dtype)
    for tap, part in taps(kernel, size, stride, dilation):
        result[part] += grad * _by_channel(w)[(slice(None), *tap)]
    return result


def weight(xp: np.ndarray, grad: np.ndarray, kernel: Sizes, stride: Sizes, dilation: Sizes) -> np.ndarray:
    """The transpose of `conv` by its filters: (C, 1, *kernel)."""
    samples, channels, out = xp.shape[0], xp.shape[1], grad.shape[2:]
    result = np.empty((channels, 1, *kernel), xp.dtype)
    grad = native.dense(grad)
    if usable(xp, grad.size * prod(kernel)) and usable(grad, native.WORTH):
        layout = (*_layout(xp, kernel, out, stride, dilation), samples)
        native.over(
            native.compiled(_WEIGHT, "TTT"), channels, grad.size // channels * prod(kernel), layout, result, xp, grad
        )
        return result
    rows = grad.reshape(samples, channels, prod(out))
    for tap, part in taps(kernel, out, stride, dilation):
        result[(slice(None), 0, *tap)] = np.einsum("ncl,ncl->c", xp[part].reshape(rows.shape), rows)
    return result
