"""Moving dimensions of arrays without the checks of numpy's functions, which cost a small call several microseconds."""

from __future__ import annotations

import numpy as np


def first(array: np.ndarray, axis: int) -> np.ndarray:
    """The array with a dimension moved to the front."""
    if axis == 0:
        return array
    axis %= array.ndim
    return array.transpose(axis, *[d for d in range(array.ndim) if d != axis])


def last(array: np.ndarray, axis: int) -> np.ndarray:
    """The array with a dimension moved to the end."""
    if axis in (-1, array.ndim - 1):
        return array
    axis %= array.ndim
    return array.transpose(*[d for d in range(array.ndim) if d != axis], axis)


def part(array: np.ndarray, axis: int, start: int | None, stop: int | None, step: int = 1) -> np.ndarray:
    """The part `start:stop:step` of a dimension."""
    if array.ndim == 1:
        return array[start:stop:step]
    return array[(slice(None),) * (axis % array.ndim) + (slice(start, stop, step),)]


def backward(array: np.ndarray, axis: int) -> np.ndarray:
    """The array with a dimension in reverse order."""
    return part(array, axis, None, None, -1)


def take_along(array: np.ndarray, places: np.ndarray, axis: int) -> np.ndarray:
    """The elements at `places` along a dimension, as `np.take_along_axis` gives them."""
    return array[places] if array.ndim == places.ndim == 1 else np.take_along_axis(array, places, axis)
