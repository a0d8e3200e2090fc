"""Convolution of each channel with a filter of its own, a numpy pass per kernel position: for arrays that are too small
for compiled code, and the dtypes that it has no loops for."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

Sizes = tuple[int, ...]


def taps(kernel: Sizes, out: Sizes, stride: Sizes, dilation: Sizes) -> Iterator[tuple[Sizes, tuple]]:
    """For each kernel position: its index and the slice of the padded input that it meets."""
    for tap in np.ndindex(*kernel):
        yield tap, (..., *[slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, dilation, out, stride)])


def _by_channel(w: np.ndarray) -> np.ndarray:
    """Filters (C, 1, *kernel) shaped to multiply planes, kernel dimensions behind the channel."""
    return w[:, 0].reshape(w.shape[0], *w.shape[2:], *(1,) * (w.ndim - 2))


def conv(xp: np.ndarray, w: np.ndarray, out: Sizes, stride: Sizes, dilation: Sizes) -> np.ndarray:
    """Padded (N, C, *size) with filters (C, 1, *kernel): (N, C, *out)."""
    result = np.zeros_like(xp, shape=(*xp.shape[:2], *out))
    for tap, part in taps(w.shape[2:], out, stride, dilation):
        result += xp[part] * _by_channel(w)[(slice(None), *tap)]
    return result


def transpose(grad: np.ndarray, w: np.ndarray, full: Sizes, stride: Sizes, dilation: Sizes) -> np.ndarray:
    """The transpose of `conv` by its padded input of spatial size `full`."""
    result = np.zeros_like(grad, shape=(*grad.shape[:2], *full))
    for tap, part in taps(w.shape[2:], grad.shape[2:], stride, dilation):
        result[part] += grad * _by_channel(w)[(slice(None), *tap)]
    return result


def weight(xp: np.ndarray, grad: np.ndarray, kernel: Sizes, stride: Sizes, dilation: Sizes) -> np.ndarray:
    """The transpose of `conv` by its filters: (C, 1, *kernel)."""
    samples, channels, out = xp.shape[0], xp.shape[1], grad.shape[2:]
    result = np.empty((channels, 1, *kernel), xp.dtype)
    rows = grad.reshape(samples, channels, prod(out))
    for tap, part in taps(kernel, out, stride, dilation):
        result[(slice(None), 0, *tap)] = np.einsum("ncl,ncl->c", xp[part].reshape(rows.shape), rows)
    return result
