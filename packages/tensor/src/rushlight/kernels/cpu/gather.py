"""Reading rows by index."""

from __future__ import annotations

import numpy as np

from rushlight.kernels.cpu import allocator


def take(array: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    """`numpy.take` for checked indices, which may be negative down to -size; large results take pooled memory."""
    shape = (*array.shape[:axis], *index.shape, *array.shape[axis + 1 :])
    out = allocator.empty(shape, array.dtype)
    # Without a mode, numpy checks once more and goes through a copy of `out`.
    return np.take(array, index, axis, out=out, mode="wrap") if out.size else out
