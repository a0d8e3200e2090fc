"""Class indices as losses use them: checked, picked from scores, weighted, averaged. With numpy."""

from __future__ import annotations

import numpy as np

from rushlight.core.checks import widened
from rushlight.kernels.cpu import copy


def checked(name: str, target: np.ndarray, classes: int, ignore_index: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Class indices that are safe to index with, and which of them count (None when all do)."""
    index = target.astype(np.intp, copy=False)
    # As numbers without sign, negative ones are too large, too.
    if index.size and not 0 <= ignore_index < classes and np.maximum.reduce(index.view(np.uintp), axis=None) < classes:
        return index, None
    ignored = index == ignore_index
    if not ignored.any():
        counts = None
    else:
        counts = ~ignored
        index = np.where(ignored, 0, index)
    if index.size and (index.min() < 0 or index.max() >= classes) and (counts is None or counts.any()):
        bad = index[(index < 0) | (index >= classes)]
        raise IndexError(f"{name}: Target {bad.flat[0]} is out of bounds for {classes} classes")
    return index, counts


def pick(x: np.ndarray, index: np.ndarray) -> np.ndarray:
    """`x` at the class of each target."""
    if x.ndim == 1:
        return x[index]
    if x.ndim == 2:
        return x[np.arange(x.shape[0]), index]
    return np.take_along_axis(x, index[:, None], 1)[:, 0]


def scattered(shape: tuple[int, ...], index: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Zeros, and the values at the class of each target."""
    x = copy.zeros(shape, values.dtype)
    if x.ndim == 1:
        x[index] = values
    elif x.ndim == 2:
        x[np.arange(x.shape[0]), index] = values
    else:
        np.put_along_axis(x, index[:, None], values[:, None], 1)
    return x


def put(x: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    """Add values to `x` at the class of each target."""
    if x.ndim == 1:
        x[index] += values
    elif x.ndim == 2:
        x[np.arange(x.shape[0]), index] += values
    else:
        np.put_along_axis(x, index[:, None], np.take_along_axis(x, index[:, None], 1) + values[:, None], 1)


def factors(index: np.ndarray, counts: np.ndarray | None, weight: np.ndarray | None, dtype) -> np.ndarray | None:
    """The weight of each target; None when all are 1."""
    if weight is None:
        return None if counts is None else counts.astype(dtype)
    factors = widened(weight)[index]
    return factors if counts is None else factors * counts


def reduced(loss: np.ndarray, factors: np.ndarray | None, reduction: str) -> np.ndarray:
    if factors is not None:
        loss = np.where(factors == 0, loss.dtype.type(0), loss * factors)
    if reduction == "none":
        return loss
    total = np.add.reduce(loss, axis=None)
    if reduction == "sum":
        return total
    return total / loss.dtype.type(loss.size if factors is None else factors.sum())


def spread(grad: np.ndarray, factors: np.ndarray | None, index: np.ndarray, reduction: str) -> np.ndarray:
    """The gradient of each single loss term."""
    if reduction == "mean":
        grad = grad / grad.dtype.type(index.size if factors is None else factors.sum())
    if factors is None:
        return np.broadcast_to(grad, index.shape) if reduction != "none" else grad
    grad = np.broadcast_to(grad, index.shape)
    # With every target ignored the mean divides by zero, and still no target has a gradient.
    return np.where(factors == 0, grad.dtype.type(0), grad * factors)
