"""Inverse circular functions that vectorise, of float32 and float64: the same steps with fewer or more coefficients.

asin(x) is x + x**3 p(x**2) below 1/2, and pi/2 - 2 asin(sqrt((1 - x) / 2)) above; atan(x) is such a polynomial below 1,
and pi/2 - atan(1 / x) above. The coefficients are minimax fits (reweighted least squares on Chebyshev points, 40
digits); 27 and 57 bits are right before rounding, and the errors are measured in `tests/kernels/test_polynomials.py`.
"""

from __future__ import annotations

import math
from typing import Any

from rushlight.core import scalar as s
from rushlight.kernels.horner import fused, horner

# pi/2 rounded, and what the rounding left out.
_HALF_PI = {"float32": (1.5707963705062866, -4.371139000186241e-08), "float64": (math.pi / 2, 6.123233995736766e-17)}

_ASIN = {
    "float32": (
        0.16666752099990845, 0.07495298236608505, 0.04547032713890076, 0.024179812520742416, 0.04216574877500534,
    ),
    "float64": (
        0.1666666666666676, 0.07499999999970802, 0.04464285717460649, 0.03038194270812418, 0.02237221497646534,
        0.017351612234626036, 0.01398081772668359, 0.011398936282411079, 0.010780114261556738, 0.003706941066176582,
        0.021706137896738177, -0.02099719802152079, 0.03262745399920223,
    ),
}  # fmt: skip
_ATAN = {
    "float32": (
        -0.33333298563957214, 0.19998545944690704, -0.14264219999313354, 0.10952071100473404, -0.08403115719556808,
        0.057951878756284714, -0.031172167509794235, 0.010911567136645317, -0.0017929448513314128,
    ),
    "float64": (
        -0.33333333333333065, 0.19999999999951368, -0.14285714282570014, 0.111111110068821, -0.09090907000518235,
        0.0769227981109744, -0.06666403831577292, 0.05880526490944498, -0.05253512734840028, 0.04722302671446664,
        -0.04219128173299979, 0.036640884017876504, -0.02990224050782389, 0.02198287564985452, -0.013898705096100316,
        0.007195194248851315, -0.002884246527071988, 0.0008310850924843215, -0.0001521096800009969,
        1.321995754432432e-05,
    ),
}  # fmt: skip


def _asin_parts(magnitude: Any) -> tuple[Any, Any, Any]:
    """(whether x < 1/2, t, asin(t) - t) with t = x there and sqrt((1 - x) / 2) elsewhere; NaN above 1."""
    name = s.dtype_of(magnitude).name
    small = magnitude < 0.5
    z = s.select(small, magnitude * magnitude, fused(magnitude, -0.5, 0.5))
    t = s.select(small, magnitude, s.sqrt(z))
    return small, t, t * z * horner(z, *_ASIN[name])


def asin(x: Any) -> Any:
    """Inverse sine."""
    high, low = _HALF_PI[s.dtype_of(x).name]
    small, t, rest = _asin_parts(s.abs(x))
    return s.copysign(s.select(small, t + rest, high - (2.0 * t + (2.0 * rest - low))), x)


def acos(x: Any) -> Any:
    """Inverse cosine."""
    high, low = _HALF_PI[s.dtype_of(x).name]
    small, t, rest = _asin_parts(s.abs(x))
    negative = x < 0
    middle = high - (s.select(negative, -t, t) + (s.select(negative, -rest, rest) - low))
    outside = s.select(negative, 2.0 * (high - (t + (rest - low))), 2.0 * (t + rest))
    return s.select(small, middle, outside)


def atan(x: Any) -> Any:
    """Inverse tangent."""
    name = s.dtype_of(x).name
    high, low = _HALF_PI[name]
    magnitude = s.abs(x)
    large = magnitude >= 1.0
    t = s.select(large, 1.0 / magnitude, magnitude)
    z = t * t
    rest = t * z * horner(z, *_ATAN[name])
    return s.copysign(s.select(large, high - (t + (rest - low)), t + rest), x)


INVERSES = {
    (function, dtype): definition
    for function, definition in ((s.asin, asin), (s.acos, acos), (s.atan, atan))
    for dtype in ("float32", "float64")
}
