"""float16 and bfloat16 as 16-bit patterns: conversions written in the scalar language, so every printer has them.

Half types have no arithmetic here: kernels load the bits, widen to float32 (exact), compute, and round once (to
nearest, ties to even; NaN stays NaN).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from rushlight.core import scalar as s

FLOAT16 = np.dtype(np.float16)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_u16, _u32, _f32 = np.uint16, np.uint32, np.float32


def is_half(dtype: np.dtype) -> bool:
    """Whether `dtype` is stored in 16 bits and computed in float32."""
    return dtype == FLOAT16 or dtype == BFLOAT16


def compute_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype in which values stored as `dtype` are computed."""
    return np.dtype(_f32) if is_half(dtype) else dtype


def storage_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the bits that a kernel loads and stores."""
    return np.dtype(_u16) if is_half(dtype) else dtype


def widen(bits: Any, dtype: np.dtype) -> Any:
    """uint16 bits of a half number -> float32."""
    wide = s.cast(bits, _u32)
    if dtype == BFLOAT16:
        return s.bitcast(wide << 16, _f32)
    sign = (wide & 0x8000) << 16
    magnitude = (wide & 0x7FFF) << 13
    # The exponent is re-biased by a multiplication, which also normalises subnormal halves.
    finite = s.bitcast(magnitude, _f32) * s.constant(2.0**112, s.bitcast(magnitude, _f32))
    special = magnitude | 0x7F800000
    return s.bitcast(s.select((wide & 0x7FFF) >= 0x7C00, special, s.bitcast(finite, _u32)) | sign, _f32)


def narrow(x: Any, dtype: np.dtype) -> Any:
    """float32 -> uint16 bits of the nearest half number."""
    bits = s.bitcast(x, _u32)
    if dtype == BFLOAT16:
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return s.cast(s.select(s.isnan(x), (bits >> 16) | 0x40, rounded), _u16)
    sign = (bits >> 16) & 0x8000
    magnitude = bits & 0x7FFFFFFF
    # Adding 0.5 shifts a subnormal result's bits into place and rounds them in the adder.
    subnormal = s.bitcast(s.bitcast(magnitude, _f32) + 0.5, _u32) - 0x3F000000
    normal = (magnitude + 0xC8000FFF + ((magnitude >> 13) & 1)) >> 13
    special = s.select(magnitude > 0x7F800000, (magnitude >> 13) & 0x3FF | 0x7E00, s.constant(0x7C00, bits))
    finite = s.select(magnitude < 0x38800000, subnormal, normal)
    return s.cast(s.select(magnitude >= 0x47800000, special, finite) | sign, _u16)
