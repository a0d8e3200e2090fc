"""Sine, cosine and tangent that vectorise, for arguments of at most `LIMIT`: all the same instructions, no branch.

The argument is brought to [-pi/4, pi/4] by taking away n pi/2 in three parts, so that nothing of the difference is
lost. Whether the arguments are small enough is for the caller to see (`core/large.py`); beyond the limit the C library
does it, whose reduction needs a thousand bits of pi.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.kernels.horner import fused, horner

LIMIT = 1e5  # n pi/2 is far enough from what float32 can name, and n has 16 bits: 33 bits of pi/2 times n are exact

# 1.5 * 2**23 and 1.5 * 2**52: adding one rounds to an integer, which is left in the low bits.
_ROUND_32, _ROUND = 12582912.0, 6755399441055744.0
_HALF_PI_32 = (1.5707963705062866, -4.371139000186241e-08, -1.7151245100059e-15)
_HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)

_SIN_32 = (-0.16666666663624022, 0.00833333178567173, -0.00019840039113012213, 2.7243811975258105e-06)
_COS_32 = (0.04166666453694609, -0.0013888279449649538, 2.454289633694463e-05)
_SIN = (
    -0.16666666666666666, 0.0083333333333307, -0.00019841269836387345, 2.755731591191116e-06, -2.5051092507061385e-08,
    1.59153232122714e-10,
)  # fmt: skip
_COS = (
    0.041666666666666664, -0.0013888888888887241, 2.4801587298533456e-05, -2.755731715246704e-07,
    2.087612165887116e-09, -1.1380876948169717e-11,
)  # fmt: skip


def magnitude(x: Any) -> Any:
    """What must be at most `LIMIT`; 0 for numbers that are not finite, whose sine is NaN here, too."""
    return s.select(s.abs(x) < math.inf, s.abs(x), 0.0)


def _sine_and_cosine(x: Any) -> tuple[Any, Any, Any]:
    """Sine and cosine of what is left of x, and the quadrant in the low bits of an integer."""
    return _float32(x) if s.dtype_of(x) == np.float32 else _float64(x)


def _float32(x: Any) -> tuple[Any, Any, Any]:
    shifted = fused(x, 2.0 / math.pi, _ROUND_32)
    r, n = x, shifted - _ROUND_32
    for part in _HALF_PI_32:  # the first difference is exact: a multiple of 2**-23 below 1
        r = fused(n, -part, r)
    z = r * r
    sine = fused(z * r, horner(z, *_SIN_32), r)
    cosine = 1.0 - fused(z, 0.5, -z * z * horner(z, *_COS_32))
    return sine, cosine, s.bitcast(shifted, np.uint32)


def _float64(x: Any) -> tuple[Any, Any, Any]:
    shifted = fused(x, 2.0 / math.pi, _ROUND)
    n = shifted - _ROUND
    first = fused(n, -_HALF_PI[0], x)  # exact, like the product in the next line
    taken = n * _HALF_PI[1]
    nearly = first - taken
    rest = fused(n, -_HALF_PI[2], (first - nearly) - taken)  # what rounding left out, and the third part
    r = nearly + rest
    lost = (nearly - r) + rest
    z = r * r
    sine = r + fused(z * r, horner(z, *_SIN), lost)
    cosine = 1.0 - fused(z, 0.5, fused(r, lost, -z * z * horner(z, *_COS)))
    return sine, cosine, s.bitcast(shifted, np.uint64)


def _turned(x: Any, quarters: int) -> Any:
    """The sine of x plus so many quarters of a turn."""
    sine, cosine, quadrant = _sine_and_cosine(x)
    quadrant = quadrant + quarters
    value = s.select((quadrant & 1) == 0, sine, cosine)
    sign = (quadrant & 2) << (8 * s.dtype_of(x).itemsize - 2)
    return s.bitcast(s.bitcast(value, s.dtype_of(quadrant)) ^ sign, s.dtype_of(x))


def sin(x: Any) -> Any:
    """Sine of abs(x) <= LIMIT, infinities and NaN."""
    return s.select(s.abs(x) < 1e-8, x, _turned(x, 0))  # also keeps -0.0


def cos(x: Any) -> Any:
    """Cosine of abs(x) <= LIMIT, infinities and NaN."""
    return _turned(x, 1)


def tan(x: Any) -> Any:
    """Tangent of abs(x) <= LIMIT, infinities and NaN."""
    sine, cosine, quadrant = _sine_and_cosine(x)
    even = (quadrant & 1) == 0
    return s.select(s.abs(x) < 1e-8, x, s.select(even, sine, -cosine) / s.select(even, cosine, sine))
