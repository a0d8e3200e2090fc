"""The inverse of the error function without a loop over its argument, so that it vectorises."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core import scalar as s

# erfinv(y) / y, by w = -log(1 - y**2) below 5, where it is nearly a straight line, and by sqrt(w) from there on:
# minimax fits (reweighted least squares on Chebyshev points) about the middle of each interval. Relative errors are
# 6e-9, 1e-8 up to the float32 next to 1, and 7e-7 up to the float64 next to 1.
_LIMIT = 5.0
_MIDDLE = 2.5
_CENTRAL = (
    1.5014093592825277, 0.24664028615341368, -0.004177386781125897, -0.0012527418783716238, 0.00021834443944996137,
    -4.963347898534274e-06, -3.462704764004305e-06, 4.66170673619606e-07, 2.3232644717830948e-08,
    -8.791057182803018e-09,
)  # fmt: skip
_TAIL_MIDDLE = {"float32": 3.1680339887498947, "float64": 4.168033988749895}
_TAIL = {
    "float32": (
        3.001526780240304, 1.0042970475622164, 0.006405622925951842, -0.004693049585037896, 0.003267898568671609,
        -0.002206197834257633, 0.0012216030653265473, -0.00035194734637660505, -0.00013588908290991544,
        0.00011363992037795924,
    ),
    "float64": (
        4.009445428283752, 1.0098628499716773, 0.0008641795793389819, -0.0007424590346979764, 0.0002555709077669363,
        -7.320754268062795e-06, 1.3118373405966906e-05, -4.430311693674653e-05, 1.7672975140467218e-05,
        -1.3056611403420894e-06,
    ),
}  # fmt: skip

# erf(x) / x by x**2, for x below erfinv(1/2), where the term after these is below 2e-18 (DLMF 7.6.1).
_ERF = tuple([2.0 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(13)])


def erfinv(y: Any) -> Any:
    """The inverse of the error function: polynomials, and in float64 one step of Halley's method, which triples the
    digits."""
    name = s.dtype_of(y).name
    size = s.abs(y)
    rest = 1.0 - size
    w = -s.log(rest * (1.0 + size))
    tail = _polynomial(s.sqrt(w) - _TAIL_MIDDLE[name], _TAIL[name])
    x = size * s.select(w < _LIMIT, _polynomial(w - _MIDDLE, _CENTRAL), tail)
    if name == "float64":
        error = s.select(size < 0.5, x * _polynomial(x * x, _ERF) - size, rest - s.erfc(x))
        step = error * (0.5 * math.sqrt(math.pi)) * s.exp(x * x)
        x = x - step / (1.0 + x * step)
    return s.copysign(s.select(size == 1.0, s.constant(math.inf, y), x), y)


def _polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    """Horner's scheme; the constant term comes first."""
    result = s.constant(coefficients[-1], x)
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result
