"""Pooling on numpy arrays (N, C, *size): one pass over the input per kernel position, whole planes at a time."""

from __future__ import annotations

from math import prod

import numpy as np

from rushlight.kernels.cpu import pool_last, pool_native
from rushlight.kernels.cpu.pool_native import Sizes, Windows


def _tap_slices(
    tap: tuple[int, ...],
    out: tuple[int, ...],
    size: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[tuple, tuple] | None:
    """Where one kernel position reads the input, and which outputs it reaches (those whose element lies inside)."""
    reads, reached = [], []
    for t, o, n, s, p, d in zip(tap, out, size, stride, padding, dilation):
        shift = t * d - p
        first = max(0, -(shift // s))  # smallest i with i * s + shift >= 0
        last = min(o - 1, (n - 1 - shift) // s)
        if last < first:
            return None
        begin = first * s + shift
        reads.append(slice(begin, begin + (last - first) * s + 1, s))
        reached.append(slice(first, last + 1))
    return (..., *reads), (..., *reached)


def max_pool(
    x: np.ndarray,
    kernel: tuple[int, ...],
    out: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[np.ndarray, np.ndarray]:
    """Largest element of each window and its flat position in the plane; NaN counts as largest, the first of equals
    wins."""
    windows = Windows(x.shape[2:], kernel, out, stride, padding, dilation)
    found = pool_last.max_pool(x, windows, out) or pool_native.max_pool(x, windows, out)
    if found is not None:
        return found
    size = x.shape[2:]
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    values = np.full_like(x, lowest, shape=(*x.shape[:2], *out))
    indices = np.full_like(values, -1, dtype=np.int64)
    position = np.arange(int(np.prod(size)), dtype=np.int64).reshape(size)
    for tap in np.ndindex(*kernel):
        slices = _tap_slices(tap, out, size, stride, padding, dilation)
        if slices is None:
            continue
        reads, reached = slices
        candidate, best, where = x[reads], values[reached], indices[reached]
        better = candidate > best
        better |= where < 0
        if x.dtype.kind == "f":
            better |= np.isnan(candidate)
        np.copyto(best, candidate, where=better)
        np.copyto(where, position[reads], where=better)
    return values, indices


def scatter_planes(values: np.ndarray, indices: np.ndarray, size: tuple[int, ...]) -> np.ndarray | None:
    """Planes of `size` in which values are added at flat positions; None when one is out of range."""
    planes, area = values.shape[0] * values.shape[1], prod(size)
    found = pool_last.scatter(values, indices, size) or pool_native.scatter(values, indices, size)
    if found is not None:
        return found[0] if found[1] else None
    if indices.size and (indices.min() < 0 or indices.max() >= area):
        return None
    flat = (indices.reshape(planes, prod(indices.shape[2:])) + np.arange(planes)[:, None] * area).ravel()
    if values.dtype.kind == "f":
        total = np.bincount(flat, values.ravel(), planes * area).astype(values.dtype)
    else:
        total = np.zeros(planes * area, values.dtype)
        np.add.at(total, flat, values.ravel())
    return total.reshape(*values.shape[:2], *size)


def avg_pool(
    x: np.ndarray,
    kernel: tuple[int, ...],
    out: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    divisors: list[np.ndarray],
) -> np.ndarray:
    """Sum of each window over its divisor, the product of the divisors of its place in each dimension."""
    windows = _dense_windows(x.shape[2:], kernel, out, stride, padding)
    found = pool_last.avg_pool(x, windows, out, divisors)
    if found is None:
        found = pool_native.avg_pool(x, windows, out, divisors)
    if found is not None:
        return found
    result = np.zeros_like(x, shape=(*x.shape[:2], *out))
    for tap in np.ndindex(*kernel):
        slices = _tap_slices(tap, out, x.shape[2:], stride, padding, (1,) * len(out))
        if slices is not None:
            result[slices[1]] += x[slices[0]]
    result /= _product(divisors, x.dtype)
    return result


def avg_pool_transpose(
    grad: np.ndarray,
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    divisors: list[np.ndarray],
) -> np.ndarray:
    """Each output's share spread over its window: the transpose of `avg_pool`."""
    windows = _dense_windows(size, kernel, grad.shape[2:], stride, padding)
    found = pool_last.avg_pool_transpose(grad, windows, size, divisors)
    if found is None:
        found = pool_native.avg_pool_transpose(grad, windows, size, divisors)
    if found is not None:
        return found
    share = grad / _product(divisors, grad.dtype)
    result = np.zeros_like(share, shape=(*grad.shape[:2], *size))
    for tap in np.ndindex(*kernel):
        slices = _tap_slices(tap, grad.shape[2:], size, stride, padding, (1,) * len(size))
        if slices is not None:
            result[slices[0]] += share[slices[1]]
    return result


def _dense_windows(size: Sizes, kernel: Sizes, out: Sizes, stride: Sizes, padding: Sizes) -> Windows:
    return Windows(size, kernel, out, stride, padding, (1,) * len(size))


def _product(divisors: list[np.ndarray], dtype: np.dtype) -> np.ndarray:
    """The divisor of each window."""
    result = np.ones((), dtype)
    for d, lengths in enumerate(divisors, 1):
        result = result * lengths.astype(dtype).reshape(-1, *(1,) * (len(divisors) - d))
    return result
