"""Integers in the order of numbers, written in the scalar language.

Sorting and choosing work on them: one loop serves floats and integers, compares without regard to NaN, and runs in
vectors. NaN, whatever its sign, comes after all numbers; -0.0 equals 0.0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import scalar as s


def key_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the keys of numbers that compute in `dtype`."""
    return {np.dtype(np.float32): np.dtype(np.int32), np.dtype(np.float64): np.dtype(np.int64)}.get(dtype, dtype)


def ascending(x: Any) -> Any:
    """Keys that grow with the numbers."""
    own = np.dtype(s.dtype_of(x))
    if own.kind != "f":
        return x
    wanted = key_dtype(own)
    bits = s.bitcast(x + s.constant(0.0, x), wanted)  # -0.0 + 0.0 is 0.0
    most = np.iinfo(wanted).max
    ordered = bits ^ ((bits >> (8 * wanted.itemsize - 1)) & most)
    return s.select(s.isnan(x), s.constant(most, bits), ordered)


def descending(x: Any) -> Any:
    """Keys that fall as the numbers grow, but for NaN, whose key is the largest here too."""
    own = np.dtype(s.dtype_of(x))
    if own.kind != "f":
        return s.bitwise_not(x)
    key = ascending(x)
    return s.select(s.isnan(x), key, s.bitwise_not(key))
