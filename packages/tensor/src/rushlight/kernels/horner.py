"""What the polynomials of float32 and float64 are written with."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core import scalar as s


def horner(x: Any, *coefficients: float) -> Any:
    """The polynomial with these coefficients, constant term first."""
    result = s.constant(coefficients[-1], x)
    for coefficient in reversed(coefficients[:-1]):
        result = s.fma(result, x, s.constant(coefficient, x))
    return result


def fused(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once; numbers take the dtype of the others."""
    like = next(v for v in (a, b, c) if isinstance(v, s.Symbol))
    return s.fma(*(v if isinstance(v, s.Symbol) else s.constant(v, like) for v in (a, b, c)))


def log_edges(x: Any, result: Any) -> Any:
    """The logarithm of x, right where x is 0, negative, infinite or NaN, too."""
    result = s.select(x < math.inf, result, x)  # inf, and nan
    return s.select(
        x > 0, result, s.select(x == 0, s.constant(-math.inf, x), s.select(x < 0, s.constant(math.nan, x), x))
    )
