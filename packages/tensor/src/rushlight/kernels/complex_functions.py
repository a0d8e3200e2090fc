"""Functions of complex numbers in terms of real ones, so that loops become vectors.

The cuts are where PyTorch and C have them, and on a cut the sign of a zero says from which side it is come to. Large
and small numbers do not overflow on the way. Formulas of the inverse functions: W. Kahan, Branch Cuts for Complex
Elementary Functions (1987); the errors are measured in `tests/kernels/test_complex_functions.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rushlight.core import scalar as s


def _turned(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """-i function(i z), which is the circular function of a hyperbolic one."""

    def circular(z: Any) -> Any:
        value = function(s.complex(-s.imag(z), s.real(z)))
        return s.complex(s.imag(value), -s.real(value))

    return circular


def _scaled(z: Any, factor: float) -> Any:
    """z times a real number."""
    return s.complex(s.real(z) * factor, s.imag(z) * factor)


def divide(a: Any, b: Any) -> Any:
    """a / b by Smith's method: dividing by the larger part first keeps intermediate results in range."""
    ar, ai, br, bi = s.real(a), s.imag(a), s.real(b), s.imag(b)
    by_real = s.abs(br) >= s.abs(bi)
    big, small = s.select(by_real, br, bi), s.select(by_real, bi, br)
    ratio = s.select(big == 0, big, small / big)
    scale = 1.0 / (big + small * ratio)
    real = s.select(by_real, ar + ai * ratio, ar * ratio + ai) * scale
    imag = s.select(by_real, ai - ar * ratio, ai * ratio - ar) * scale
    zero = (br == 0) & (bi == 0)
    return s.complex(s.select(zero, ar / big, real), s.select(zero, ai / big, imag))


def pow(a: Any, b: Any) -> Any:
    """a**b; where a is 0 1 for b = 0, else 0 where the real part of b is positive, and NaN where it is not."""
    known = s.select(s.real(b) > 0, s.constant(0.0, a), s.constant(math.nan * (1 + 1j), a))
    at_zero = s.select(b == 0, s.constant(1.0, a), known)
    return s.select(a == 0, at_zero, s.exp(b * s.log(a)))


def exp(z: Any) -> Any:
    """e**z: real where z is, even where e**z is infinite."""
    re, im = s.real(z), s.imag(z)
    size = s.exp(re)
    return s.complex(size * s.cos(im), s.select(im == 0, im, size * s.sin(im)))


def log(z: Any) -> Any:
    """Natural logarithm; near the unit circle, where that of the modulus cancels, from the modulus less 1."""
    re, im = s.real(z), s.imag(z)
    modulus = s.hypot(re, im)
    large, small = s.maximum(s.abs(re), s.abs(im)), s.minimum(s.abs(re), s.abs(im))
    near = 0.5 * s.log1p(s.fma(small, small, (large - 1.0) * (large + 1.0)))
    return s.complex(s.select((modulus > 0.7) & (modulus < 1.4), near, s.log(modulus)), s.atan2(im, re))


def sqrt(z: Any) -> Any:
    """Square root: the part that does not cancel first, the other one is what is left."""
    re, im = s.real(z), s.imag(z)
    size = s.abs(re)
    large = s.sqrt(0.5 * size + 0.5 * s.hypot(re, im))
    small = s.select(large == 0, s.abs(im), 0.5 * s.abs(im) / large)
    right = re >= 0
    return s.complex(s.select(right, large, small), s.copysign(s.select(right, small, large), im))


def sinh(z: Any) -> Any:
    """Hyperbolic sine."""
    re, im = s.real(z), s.imag(z)
    return s.complex(s.sinh(re) * s.cos(im), s.select(im == 0, im, s.cosh(re) * s.sin(im)))


def cosh(z: Any) -> Any:
    """Hyperbolic cosine."""
    re, im = s.real(z), s.imag(z)
    across = s.select(im == 0, s.clamp(re, -1.0, 1.0) * im, s.sinh(re) * s.sin(im))
    return s.complex(s.cosh(re) * s.cos(im), across)


def tanh(z: Any) -> Any:
    """Hyperbolic tangent; far from 0 without the squares that overflow."""
    re, im = s.real(z), s.imag(z)
    limit = 0.25 * math.log(s.finfo(re).max)
    tangent, rise = s.tan(im), s.sinh(s.clamp(re, -limit, limit))
    slope, root = 1.0 + tangent * tangent, s.sqrt(1.0 + rise * rise)
    scale = 1.0 / (1.0 + slope * rise * rise)
    far = s.abs(re) > limit
    tail = 4.0 * s.sin(im) * s.cos(im) * s.exp(-2.0 * s.abs(re))
    return s.complex(
        s.select(far, s.copysign(s.constant(1.0, re), re), slope * root * rise * scale),
        s.select(far, tail, tangent * scale),
    )


def _roots(z: Any) -> tuple[Any, Any]:
    """sqrt(1 - z) and sqrt(1 + z); the sign of an imaginary part 0 stays."""
    re, im = s.real(z), s.imag(z)
    return sqrt(s.complex(1.0 - re, -im)), sqrt(s.complex(1.0 + re, im))


def asin(z: Any) -> Any:
    """Inverse sine."""
    below, above = _roots(z)
    real = s.atan2(s.real(z), s.real(below) * s.real(above) - s.imag(below) * s.imag(above))
    return s.complex(real, s.asinh(s.real(below) * s.imag(above) - s.imag(below) * s.real(above)))


def acos(z: Any) -> Any:
    """Inverse cosine."""
    below, above = _roots(z)
    imag = s.asinh(s.real(above) * s.imag(below) - s.imag(above) * s.real(below))
    return s.complex(2.0 * s.atan2(s.real(below), s.real(above)), imag)


def acosh(z: Any) -> Any:
    """Inverse hyperbolic cosine."""
    re, im = s.real(z), s.imag(z)
    below, above = sqrt(s.complex(re - 1.0, im)), sqrt(s.complex(re + 1.0, im))
    real = s.asinh(s.real(below) * s.real(above) + s.imag(below) * s.imag(above))
    return s.complex(real, 2.0 * s.atan2(s.imag(below), s.real(above)))


def atanh(z: Any) -> Any:
    """Inverse hyperbolic tangent: by log1p, and near -1 and 1 by the quotient of the distances from them."""
    re, im = s.real(z), s.imag(z)
    size = s.abs(re)
    distance = s.hypot(1.0 - size, im)
    near = 0.5 * s.log(s.hypot(1.0 + size, im) / distance)
    far = 0.25 * s.log1p(4.0 * (size / distance) / distance)
    angle = 0.5 * s.atan2(2.0 * im, (1.0 - re) * (1.0 + re) - im * im)
    return s.complex(s.copysign(s.select(distance < 0.1, near, far), re), angle)


def log1p(z: Any) -> Any:
    """log(1 + z): by what the modulus of 1 + z differs from 1, unless it is small."""
    re, im = s.real(z), s.imag(z)
    excess = s.fma(im, im, re * (re + 2.0))
    modulus = s.select(excess > -0.5, 0.5 * s.log1p(excess), s.log(s.hypot(re + 1.0, im)))
    return s.complex(modulus, s.atan2(im, re + 1.0))


def expm1(z: Any) -> Any:
    """exp(z) - 1"""
    re, im = s.real(z), s.imag(z)
    half = s.sin(im * 0.5)
    return s.complex(s.expm1(re) * s.cos(im) - 2.0 * half * half, s.exp(re) * s.sin(im))


Definitions = dict[s.Function, Callable[..., Any]]
# What no printer has for complex numbers, and what the C library has for them, one by one.
FUNCTIONS: Definitions = {
    s.divide: divide, s.pow: pow, s.log1p: log1p, s.expm1: expm1, s.exp2: lambda z: s.exp(_scaled(z, math.log(2.0))),
    s.log2: lambda z: _scaled(s.log(z), 1.0 / math.log(2.0)),
}  # fmt: skip
LIBRARY: Definitions = {
    s.exp: exp, s.log: log, s.log10: lambda z: _scaled(log(z), 1.0 / math.log(10.0)), s.sqrt: sqrt,
    s.abs: lambda z: s.hypot(s.real(z), s.imag(z)), s.sin: _turned(sinh),
    s.cos: lambda z: cosh(s.complex(-s.imag(z), s.real(z))), s.tan: _turned(tanh), s.asin: asin, s.acos: acos,
    s.atan: _turned(atanh), s.sinh: sinh, s.cosh: cosh, s.tanh: tanh, s.asinh: _turned(asin), s.acosh: acosh,
    s.atanh: atanh,
}  # fmt: skip
