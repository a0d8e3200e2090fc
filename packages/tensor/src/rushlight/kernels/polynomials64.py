"""float64 functions as polynomials and bit patterns, so that LLVM vectorises the loops they are in.

The methods are those of `polynomials`, with more terms; the errors that `tests/kernels/test_polynomials.py` measures
are about 1 ulp, 2 at most. Where a float64 comes from an integer, the integer is put into the low bits of a large
number, because not every instruction set converts 64-bit integers in vectors.

The coefficients are fits at Chebyshev points, computed with 40 digits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.kernels.expand import Expansion
from rushlight.kernels.horner import fused, horner, log_edges

_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer, which is left in the low bits
_ROUND_BITS = 0x4338000000000000
_LN2_HIGH = 0.6931471803691238  # 33 bits: its product with an exponent is exact
_LN2_LOW = 1.9082149292705878e-10


def _reduce(x: Any) -> tuple[Any, Any]:
    """x = n * log(2) + r with abs(r) <= log(2) / 2: (a number with n in its low bits, r)."""
    shifted = fused(x, 1.0 / math.log(2.0), _ROUND)
    n = shifted - _ROUND
    return shifted, fused(n, -_LN2_LOW, fused(n, -_LN2_HIGH, x))


def _scale(value: Any, shifted: Any) -> Any:
    """value * 2.0**n, n in the low bits of `shifted`, for normal results."""
    return s.bitcast(s.bitcast(value, np.int64) + (s.bitcast(shifted, np.int64) << 52), np.float64)


_EXP = (
    0.5000000000000001, 0.16666666666666669, 0.04166666666662064, 0.008333333333329793, 0.0013888888918939168,
    0.00019841269864380513, 2.4801518641395993e-05, 2.75572664186123e-06, 2.7621338669142925e-07,
    2.510134692835034e-08,
)  # fmt: skip


def _exp_less_one(r: Any) -> Any:
    return fused(r * r, horner(r, *_EXP), r)


def _exponential(x: Any, value: Any, shifted: Any, small: float, largest: float) -> Any:
    """The result of exp and exp2: below `small`, where it may be subnormal, it is scaled down last, and rounded once
    then.
    """
    tiny = x < small
    lifted = s.bitcast(s.bitcast(value, np.int64) + s.cast(tiny, np.int64) * (64 << 52), np.float64)
    result = _scale(lifted, shifted) * s.select(tiny, s.constant(2.0**-64, x), 1.0)
    return s.select(x <= largest, result, x + math.inf)  # infinity, and NaN stays


def exp(x: Any) -> Any:
    """e**x: 2**n * (1 + r + r**2 p(r))."""
    shifted, r = _reduce(s.select(x < -746.0, -746.0, x))
    return _exponential(x, _exp_less_one(r) + 1.0, shifted, -708.0, 709.782712893384)


def exp_term(x: Any) -> Any:
    """e**x of x <= 0 where a number near 1 is added to it; see `polynomials.exp_term`."""
    inside = s.select(x < -708.0, -708.0, x)
    inside = s.select(inside > 0.0, 0.0, inside)
    shifted = fused(inside, 1.0 / math.log(2.0), _ROUND + 1023.0)
    n = shifted - (_ROUND + 1023.0)
    r = fused(n, -_LN2_LOW, fused(n, -_LN2_HIGH, inside))
    return (_exp_less_one(r) + 1.0) * s.bitcast(s.bitcast(shifted, np.int64) << 52, np.float64)


def exp2(x: Any) -> Any:
    """2**x."""
    clamped = s.select(x < -1076.0, -1076.0, x)
    shifted = clamped + _ROUND
    r = (clamped - (shifted - _ROUND)) * math.log(2.0)
    return _exponential(x, _exp_less_one(r) + 1.0, shifted, -1021.5, 1023.9999999999999)


def _expm1(x: Any) -> Any:
    """e**x - 1 for x in [-40, 710]: 2**n (e**r - 1) + (2**n - 1), the first part without cancellation."""
    shifted, r = _reduce(x)
    halved = s.bitcast((s.bitcast(shifted, np.int64) - (_ROUND_BITS - 1022)) << 52, np.float64)  # n = 1024 is in range
    return 2.0 * fused(halved, _exp_less_one(r), halved - 0.5)


def expm1(x: Any) -> Any:
    """e**x - 1."""
    value = _expm1(s.select(x > 710.0, 710.0, s.select(x < -40.0, -40.0, x)))
    return s.select(s.abs(x) < 1e-17, x, value)


_LOG = (
    0.666666666666667, 0.3999999999989322, 0.28571428628810996, 0.22222210674238516, 0.18182922513515942,
    0.15330617306743305, 0.1463003136412286,
)  # fmt: skip


def _log_parts(x: Any) -> tuple[Any, Any]:
    """x = 2**e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)): (e as float, f). Subnormals are scaled up first."""
    small = x < 2.2250738585072014e-308
    bits = s.bitcast(s.select(small, x * 2.0**54, x), np.uint64)
    biased = (bits + (0x3FF0000000000000 - 0x3FE6A09E667F3BCD)) >> 52
    exponent = s.bitcast(biased | 0x4330000000000000, np.float64) - (2.0**52 + 1023.0)
    mantissa = s.bitcast(bits - (biased << 52) + 0x3FF0000000000000, np.float64)
    return exponent - s.select(small, s.constant(54.0, x), 0.0), mantissa - 1.0


def _log_terms(f: Any) -> tuple[Any, Any]:
    """log(1 + f) = f - (half - rest): (half, rest), by the series of atanh(f / (2 + f))."""
    slope = f / (2.0 + f)
    z = slope * slope
    half = 0.5 * f * f
    return half, slope * fused(z, horner(z, *_LOG), half)


def log(x: Any) -> Any:
    """Natural logarithm."""
    e, f = _log_parts(x)
    half, rest = _log_terms(f)
    return log_edges(x, fused(e, _LN2_HIGH, f - (half - fused(e, _LN2_LOW, rest))))


def _log_base(x: Any, high: float, low: float, exponent_high: float, exponent_low: float) -> Any:
    e, f = _log_parts(x)
    half, rest = _log_terms(f)
    # The first bits of the logarithm of 1 + f apart: their product with the scale is nearly exact.
    first = s.bitcast(s.bitcast(f - half, np.uint64) & 0xFFFFFFFF00000000, np.float64)
    second = (f - first) - half + rest
    tail = fused(second, high, fused(first + second, low, e * exponent_low))
    return log_edges(x, fused(e, exponent_high, fused(first, high, tail)))


def log2(x: Any) -> Any:
    """Logarithm to base 2."""
    return _log_base(x, 1.4426950408889634, 2.035527374093103e-17, 1.0, 0.0)


def log10(x: Any) -> Any:
    """Logarithm to base 10."""
    return _log_base(x, 0.4342944819032518, 1.0983196502167651e-17, 0.3010299955494702, 1.1451100898021838e-10)


def log1p(x: Any) -> Any:
    """log(1 + x): the logarithm of the rounded sum u, plus what the rounding lost, (x - (u - 1)) / u."""
    u = 1.0 + x
    e, f = _log_parts(u)
    half, rest = _log_terms(f)
    lost = (x - (u - 1.0)) / u
    value = fused(e, _LN2_HIGH, f - (half - (fused(e, _LN2_LOW, rest) + lost)))
    value = s.select(x < math.inf, value, x)
    value = s.select(
        x > -1.0, value, s.select(x == -1.0, s.constant(-math.inf, x), s.select(x < -1.0, s.constant(math.nan, x), x))
    )
    return s.select(s.abs(x) < 1e-17, x, value)  # also keeps -0.0


def tanh(x: Any) -> Any:
    """With e = exp(-2 abs(x)): (1 - e) / (1 + e) below 0.5, 1 - 2 e / (1 + e) above."""
    magnitude = s.abs(x)
    small = magnitude < 0.5
    shifted, r = _reduce(s.select(magnitude > 20.0, -40.0, -2.0 * magnitude))
    less_one = _exp_less_one(r)
    e = _scale(less_one + 1.0, shifted)
    halved = 0.5 * _scale(s.constant(1.0, x), shifted)
    t = 2.0 * fused(halved, less_one, halved - 0.5)
    quotient = s.select(small, -t, 2.0 * e) / (1.0 + e)
    return s.copysign(s.select(s.isnan(x), x, s.select(small, quotient, 1.0 - quotient)), x)


_ERF = (
    0.12837916709551256, -0.37612638903183543, 0.11283791670945006, -0.02686617064323777, 0.0052239776071164225,
    -0.0008548325975389692, 0.00012055294904839707, -1.492473690741966e-05, 1.6447424703317362e-06,
    -1.6208483801871705e-07, 1.3720064546777686e-08, -7.795898827002142e-10,
)  # fmt: skip
# (x + 2) exp(x**2) erfc(x) of 0.5 <= x <= 27.5, as a polynomial in (x - 2) / (x + 2).
_ERFCX = (
    1.021582705242023, -0.6871606844138105, 0.279472092556058, -0.03644223150689849, -0.02151066188975806,
    0.006479185068815619, 0.0030906120679029567, -0.0008372960907978631, -0.0006630736433626084,
    3.437185637804146e-05, 0.00014447195299236262, 3.414508474429722e-05, -2.1702104698689063e-05,
    -1.6099063995221126e-05, -1.111373788121565e-06, 3.564604685323669e-06, 1.999781290991675e-06,
    1.7680011824463733e-07, -6.462910288530604e-07, -5.358309043027313e-07, 1.691893209352447e-07,
    2.1126306211908017e-07, -7.970919333391613e-08,
)  # fmt: skip


def _erf_small(x: Any) -> Any:
    return fused(x, horner(x * x, *_ERF), x)


def _erfc_large(x: Any) -> Any:
    """erfc of 0.5 <= x <= 27.3. The square is taken with all its bits."""
    square = x * x
    lost = fused(x, x, -square)
    shifted, r = _reduce(-square)
    power = _exponential(-square, _exp_less_one(r) + 1.0, shifted, -708.0, 1.0)
    u = 1.0 / (x + 2.0)
    return fused(power, -lost, power) * (u * horner(fused(u, -4.0, 1.0), *_ERFCX))


def erf(x: Any) -> Any:
    """Odd polynomial below 1, 1 - erfc(abs(x)) above; 1 from 6 on."""
    magnitude = s.abs(x)
    t = s.select(magnitude < 1.0, 1.0, s.select(magnitude > 6.0, 6.0, magnitude))
    large = s.copysign(1.0 - _erfc_large(t), x)
    return s.select(magnitude < 1.0, _erf_small(x), s.select(s.isnan(x), x, large))


def erfc(x: Any) -> Any:
    """1 - erf(x) below 0.85, exp(-x**2) p((x - 2) / (x + 2)) / (x + 2) above; 0 from 27.3 on."""
    magnitude = s.abs(x)
    tail = _erfc_large(s.select(magnitude < 0.85, 0.85, s.select(magnitude > 27.3, 27.3, magnitude)))
    outside = s.select(x < 0, 2.0 - tail, tail)
    return s.select(magnitude < 0.85, 1.0 - _erf_small(x), s.select(s.isnan(x), x, outside))


def hypot(a: Any, b: Any) -> Any:
    """sqrt(a**2 + b**2), both scaled by the power of two that brings the larger one near 1."""
    a, b = s.abs(a), s.abs(b)
    exponent = s.bitcast(s.select(a > b, a, b), np.uint64) & (0x7FF << 52)
    exponent = s.select(exponent < (1 << 52), 1 << 52, s.select(exponent > (0x7FD << 52), 0x7FD << 52, exponent))
    up = s.bitcast((0x7FE << 52) - exponent, np.float64)
    x, y = a * up, b * up
    length = s.sqrt(fused(x, x, y * y)) * s.bitcast(exponent, np.float64)
    return s.select((a == math.inf) | (b == math.inf), s.constant(math.inf, a), length)


# (log((1 + t) / (1 - t)) / t - 2) / z - 2/3, divided by z = t**2: what follows 2/3 in the series of the logarithm.
_LOG_AFTER = (
    0.3999999999999998, 0.28571428571445123, 0.2222222221753417, 0.1818181887055698, 0.15384556856474535,
    0.1333631791765222, 0.11674809361206977, 0.11989082692646853,
)  # fmt: skip


def _log2_pair(x: Any) -> tuple[Any, Any]:
    """log2 of x > 0 as the sum of two numbers, within 2**-62 or so of it: 2 t + t**3 (2/3 + ...), t = f / (2 + f)."""
    e, f = _log_parts(x)
    below = 2.0 + f
    inverse = 1.0 / below
    t = f * inverse
    t_low = (fused(-t, below, f) - t * (f - (below - 2.0))) * inverse
    z = t * t
    z_low = fused(t, t, -z) + 2.0 * t * t_low
    cube = t * z
    cube_low = fused(t, z, -cube) + fused(t, z_low, t_low * z)
    rest = fused(z, horner(z, *_LOG_AFTER), 3.700743415417188e-17)  # 2/3 is not a float64
    factor = rest + 0.6666666666666666
    factor_low = (0.6666666666666666 - factor) + rest
    term = cube * factor
    term_low = fused(cube, factor, -term) + fused(cube, factor_low, cube_low * factor)
    natural = fused(t, 2.0, term)
    natural_low = (fused(t, 2.0, -natural) + term) + fused(t_low, 2.0, term_low)
    high = natural * 1.4426950408889634
    low = fused(natural, 1.4426950408889634, -high)
    low = low + fused(natural, 2.0355273740931033e-17, natural_low * 1.4426950408889634)
    total = e + high
    return total, ((e - total) + high) + low


def pow(a: Any, b: Any) -> Any:
    """2**(b log2(abs(a))), with twice the digits until the exponent is split into its whole part and the rest."""
    x = s.abs(a)
    high, low = _log2_pair(x)
    high = s.select(x < math.inf, s.select(x == 0, s.constant(-math.inf, x), high), x)
    power = b * high
    low = fused(b, high, -power) + b * low
    # Half of the result is what is scaled, so that it overflows only where the result does.
    clamped = s.select(power > 1024.4, 1024.4, s.select(power < -1076.0, -1076.0, power))
    low = s.select(s.abs(power) < 2000.0, low, 0.0)
    shifted = clamped + _ROUND
    r = ((clamped - (shifted - _ROUND)) + low) * math.log(2.0)
    tiny = power < -1020.0
    moved = s.bitcast(_exp_less_one(r) + 1.0, np.int64) + (s.cast(tiny, np.int64) * (65 << 52) - (1 << 52))
    value = _scale(s.bitcast(moved, np.float64), shifted) * s.select(tiny, s.constant(2.0**-64, x), 2.0)
    return signed_power(a, b, s.select(s.isnan(power), power, value))


def signed_power(a: Any, b: Any, power: Any) -> Any:
    """abs(a)**b with the sign and the exceptions that C gives pow."""
    whole = (b == s.trunc(b)) | (s.abs(b) == math.inf)
    odd = whole & (0.5 * b != s.trunc(0.5 * b)) & (s.abs(b) < math.inf)
    power = s.select(odd, s.copysign(power, a), power)
    power = s.select((a < 0) & (a > -math.inf) & (b == b) & ~whole, s.constant(math.nan, a), power)
    one = (b == 0) | (a == 1) | ((a == -1) & (s.abs(b) == math.inf))
    return s.select(one, s.constant(1.0, a), power)


POLYNOMIALS: dict[tuple[s.Function, str], Expansion] = {
    (getattr(s, function.__name__), "float64"): function
    for function in (exp, exp2, expm1, log, log2, log10, log1p, tanh, erf, erfc, hypot, pow)
}
