"""Functions as polynomials and bit patterns, so that LLVM vectorises the loops they are in: float32, and the table with
those of float64 (`polynomials64`) and of complex numbers (`complex_functions`).

A call into libm is scalar: 3..20 ns an element. These are 0.3..1.0 ns (AVX-512 and AVX2, cache-resident), within the
errors that `tests/kernels/test_polynomials.py` measures (about 1 ulp; tanh 2.4, erfc 3.8), and exact at nan,
infinities, signed zeros and subnormals. There is no fast-math in it: every select below is meant.

The coefficients are minimax fits (reweighted least squares on Chebyshev points, relative error weighted as it enters
the result).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.kernels import complex_functions, periodic, polynomials64
from rushlight.kernels.expand import Expansion
from rushlight.kernels.horner import fused, horner, log_edges
from rushlight.kernels.inverse import INVERSES

# Adding 1.5 * 2**23 rounds to an integer and leaves it in the low bits: no conversion instruction, defined for nan too.
_ROUND = 12582912.0
_ROUND_BITS = 0x4B400000
_LN2_HIGH = 0.693145751953125  # 16 bits: its product with an exponent is exact
_LN2_LOW = 1.428606765330187e-06


def _power_of_two(n: Any) -> Any:
    """2.0**n of an int32 in [-126, 127]."""
    return s.bitcast((n + 127) << 23, np.float32)


def _reduce(x: Any) -> tuple[Any, Any]:
    """x = n * log(2) + r with abs(r) <= log(2) / 2: (a number with n in its low bits, r)."""
    shifted = fused(x, 1.0 / math.log(2.0), _ROUND)
    n = shifted - _ROUND
    return shifted, fused(n, -_LN2_LOW, fused(n, -_LN2_HIGH, x))


def _integer(shifted: Any) -> Any:
    """The n in the low bits, as int32."""
    return s.bitcast(shifted, np.int32) - _ROUND_BITS


def _scale(value: Any, shifted: Any) -> Any:
    """value * 2.0**n, n in the low bits of `shifted`, for normal results: n is added to the exponent. The bits above n
    leave the word when they are shifted.
    """
    return s.bitcast(s.bitcast(value, np.int32) + (s.bitcast(shifted, np.int32) << 23), np.float32)


_EXP = (0.4999999403953552, 0.1666652113199234, 0.04166838899254799, 0.00836874544620514, 0.001381453825160861)


def _exp_of(r: Any) -> Any:
    return fused(r * r, horner(r, *_EXP), r) + 1.0


def _exponential(x: Any, value: Any, shifted: Any, small: float, largest: float) -> Any:
    """The result of exp and exp2: below `small`, where it may be subnormal, it is scaled down last, and rounded once
    then.
    """
    tiny = x < small
    lifted = s.bitcast(s.bitcast(value, np.int32) + s.cast(tiny, np.int32) * (64 << 23), np.float32)
    result = _scale(lifted, shifted) * s.select(tiny, s.constant(2.0**-64, x), 1.0)
    return s.select(x <= largest, result, x + math.inf)  # infinity, and NaN stays


def exp(x: Any) -> Any:
    """e**x: 2**n * (1 + r + r**2 p(r))."""
    shifted, r = _reduce(s.select(x < -104.0, -104.0, x))
    return _exponential(x, _exp_of(r), shifted, -87.0, 88.72283172607422)


def exp_term(x: Any) -> Any:
    """e**x of x <= 0 where a number near 1 is added to it: at least 1.2e-38, which such a sum does not show.

    Positive numbers give 1; NaN stays. What infinities mean, who adds knows from the largest x. Two thirds of the
    instructions of `exp`.
    """
    inside = s.select(x < -87.3, -87.3, x)
    inside = s.select(inside > 0.0, 0.0, inside)
    shifted = fused(inside, 1.0 / math.log(2.0), _ROUND + 127.0)  # the exponent's bits of 2.0**n, in the low bits
    n = shifted - (_ROUND + 127.0)
    r = fused(n, -_LN2_LOW, fused(n, -_LN2_HIGH, inside))
    return _exp_of(r) * s.bitcast(s.bitcast(shifted, np.int32) << 23, np.float32)


def exp2(x: Any) -> Any:
    """2**x."""
    clamped = s.select(x < -151.0, -151.0, x)
    shifted = clamped + _ROUND
    r = (clamped - (shifted - _ROUND)) * math.log(2.0)
    return _exponential(x, _exp_of(r), shifted, -125.5, 127.99999237060547)


def expm1(x: Any) -> Any:
    """e**x - 1: 2**n (e**r - 1) + (2**n - 1), the first part without cancellation."""
    clamped = s.select(x > 89.0, 89.0, s.select(x < -25.0, -25.0, x))
    shifted, r = _reduce(clamped)
    part = fused(r * r, horner(r, *_EXP), r)
    scale = _power_of_two(_integer(shifted) - 1)  # halved, so that n = 128 is in range
    return s.select(s.abs(x) < 1e-7, x, 2.0 * fused(scale, part, scale - 0.5))


_LOG = (
    0.3333321511745453, -0.24999797344207764, 0.20010413229465485, -0.1668049544095993, 0.14005738496780396,
    -0.12184136360883713, 0.139851376414299, -0.12892284989356995,
)  # fmt: skip


def _log_parts(x: Any) -> tuple[Any, Any]:
    """x = 2**e * (1 + f) with 1 + f in [2/3, 4/3): (e as float, f). Subnormals are scaled up first."""
    small = x < 1.1754943508222875e-38
    scaled = s.select(small, x * 8388608.0, x)
    bits = s.bitcast(scaled, np.int32)
    exponent = (bits - 0x3F2AAAAB) >> 23
    mantissa = s.bitcast(bits - (exponent << 23), np.float32)
    return s.cast(exponent, np.float32) - s.select(small, s.constant(23.0, x), 0.0), mantissa - 1.0


def log(x: Any) -> Any:
    """Natural logarithm: e log(2) + f - f**2 / 2 + f**3 p(f)."""
    e, f = _log_parts(x)
    square = f * f
    tail = fused(square * f, horner(f, *_LOG), fused(square, -0.5, e * _LN2_LOW))
    return log_edges(x, fused(e, _LN2_HIGH, f + tail))


def _log_base(x: Any, scale_high: float, scale_low: float, exponent_high: float, exponent_low: float) -> Any:
    # The scale is split so that f * scale keeps the bits that one rounded product would lose.
    e, f = _log_parts(x)
    square = f * f
    tail = fused(square * f, horner(f, *_LOG), square * -0.5)
    value = fused(f, scale_low, fused(tail, scale_high + scale_low, e * exponent_low))
    return log_edges(x, fused(e, exponent_high, fused(f, scale_high, value)))


def log2(x: Any) -> Any:
    """Logarithm to base 2."""
    return _log_base(x, 1.4426950216293335, 1.9259629911266175e-08, 1.0, 0.0)


def log10(x: Any) -> Any:
    """Logarithm to base 10."""
    return _log_base(x, 0.4342944920063019, -1.010305034e-08, 0.301025390625, 4.605038981195214e-06)


def log1p(x: Any) -> Any:
    """log(1 + x): the logarithm of the rounded sum u, plus what the rounding lost, (x - (u - 1)) / u."""
    u = 1.0 + x
    e, f = _log_parts(u)
    lost = (x - (u - 1.0)) / u
    square = f * f
    tail = fused(square * f, horner(f, *_LOG), fused(square, -0.5, fused(e, _LN2_LOW, lost)))
    value = fused(e, _LN2_HIGH, f + tail)
    value = s.select(x < math.inf, value, x)
    value = s.select(
        x > -1.0, value, s.select(x == -1.0, s.constant(-math.inf, x), s.select(x < -1.0, s.constant(math.nan, x), x))
    )
    return s.select(s.abs(x) < 1e-7, x, value)  # also keeps -0.0


def tanh(x: Any) -> Any:
    """t / (t + 2) with t = exp(2 abs(x)) - 1 = 2**n (e**r - 1) + (2**n - 1)."""
    magnitude = s.abs(x)
    shifted, r = _reduce(s.select(magnitude > 10.0, 20.0, 2.0 * magnitude))
    scale = _scale(s.constant(1.0, x), shifted)
    t = fused(scale, fused(r * r, horner(r, *_EXP), r), scale - 1.0)
    return s.copysign(t / (t + 2.0), x)


_ERFC_LARGE = (
    1.0215827226638794, -0.6871606707572937, 0.27947118878364563, -0.03644152358174324, -0.021495837718248367,
    0.006470364984124899, 0.003007725579664111, -0.0008021522080525756, -0.00047863618237897754,
)  # fmt: skip
_ERF_SMALL = (
    0.12837915122509003, -0.3761247992515564, 0.11281682550907135, -0.026761719956994057, 0.0049859401769936085,
    -0.000595373916439712,
)  # fmt: skip
_ERF_LARGE = (
    -1.1285200119018555, -0.6356993317604065, -0.10528688132762909, 0.022906050086021423, -0.0032199821434915066,
    0.000214595886063762,
)  # fmt: skip


def erf(x: Any) -> Any:
    """Odd polynomial below 0.93, 1 - exp(t q(t)) with t = abs(x) above; 1 from 4 on."""
    magnitude = s.abs(x)
    square = x * x
    small = fused(x, horner(square, *_ERF_SMALL), x)
    t = s.select(magnitude > 4.0, 4.0, magnitude)
    shifted, r = _reduce(t * horner(t, *_ERF_LARGE))
    complement = _scale(_exp_of(r), shifted)
    return s.select(magnitude < 0.93, small, s.select(s.isnan(x), x, s.copysign(1.0 - complement, x)))


def erfc(x: Any) -> Any:
    """1 - erf(x) below 0.5, exp(-x**2) p((x - 2) / (x + 2)) / (x + 2) above; 0 from 10.1 on. The square is taken with
    all its bits.
    """
    magnitude = s.abs(x)
    small = fused(-x, horner(x * x, *_ERF_SMALL), -x)
    t = s.select(magnitude < 0.5, 0.5, s.select(magnitude > 10.1, 10.1, magnitude))
    square = t * t
    lost = fused(t, t, -square)
    shifted, r = _reduce(-square)
    scaled = horner((t - 2.0) / (t + 2.0), *_ERFC_LARGE) / (t + 2.0)
    tail = _exponential(-square, _exp_of(r - lost) * scaled, shifted, -80.0, 1.0)
    outside = s.select(x < 0, 2.0 - tail, tail)
    return s.select(magnitude < 0.5, 1.0 + small, s.select(s.isnan(x), x, outside))


# With w = 1 / (x + 4), exp(x**2 / 2) (1 - Phi(x)) of x >= 0 is w (2 + (1 - 4 w) p(1 - 8 w)). Minimax in the larger of
# 2e-8 in Phi and 3e-6 of its tail.
_TAIL = (
    -2.4894254207611084, 1.2736401557922363, -0.49944907426834106, 0.1262684017419815, -0.005129799246788025,
    -0.009397684596478939, 0.0019437393639236689, 0.0004931165603920817,
)  # fmt: skip


def gaussian(x: Any) -> Any:
    """exp(-x**2 / 2); 0 where that would be subnormal."""
    half = x * x * -0.5
    shifted, r = _reduce(half)
    return s.select(half < -87.0, 0.0, _scale(_exp_of(r), shifted))


def normal_cdf(x: Any) -> Any:
    """One side is exp(-x**2 / 2) times a polynomial in 1 / (abs(x) + 4), the other 1 less that.

    With `erf`, the gradient of gelu takes three polynomials and two exponentials; density and distribution share one.
    """
    w = 1.0 / (s.abs(x) + 4.0)
    tail = s.gaussian(x) * (w * fused(fused(w, -4.0, 1.0), horner(fused(w, -8.0, 1.0), *_TAIL), 2.0))
    return s.select(x < 0.0, tail, 1.0 - tail)


def hypot(a: Any, b: Any) -> Any:
    """sqrt(a**2 + b**2) in float64, which holds the squares."""
    x, y = s.cast(a, np.float64), s.cast(b, np.float64)
    length = s.cast(s.sqrt(fused(x, x, y * y)), np.float32)
    return s.select((s.abs(a) == math.inf) | (s.abs(b) == math.inf), s.constant(math.inf, a), length)


def pow(a: Any, b: Any) -> Any:
    """2**(b log2(abs(a))) in float64, with the sign and the exceptions that C gives pow."""
    x, y = s.cast(a, np.float64), s.cast(b, np.float64)
    power = s.cast(polynomials64.exp2(y * polynomials64.log2(s.abs(x))), np.float32)
    return polynomials64.signed_power(a, b, power)


def fmod(a: Any, b: Any) -> Any:
    """In float64, exact for every quotient: taking away multiples of b, of 51 more bits of the quotient each time.

    A quotient of float32 numbers is below 2**277. The product of b, of 24 bits, and 53 bits of the quotient, taken away
    with one rounding, leaves a number that float64 holds; the last step leaves one of at most abs(b) / 2.
    """
    x, y = s.cast(a, np.float64), s.cast(b, np.float64)
    inverse = 1.0 / y
    rest = x
    for _ in range(6):
        rest = fused(-s.rint(rest * inverse), y, rest)
    rest = s.select((rest != 0) & ((rest < 0) != (x < 0)), rest + s.copysign(y, x), rest)
    rest = s.select(s.abs(y) == math.inf, s.select(s.abs(x) < math.inf, x, s.constant(math.nan, x)), rest)
    return s.copysign(s.cast(rest, np.float32), a)


# Stirling's series: B_2k / (2k (2k - 1)) for k = 1 to 7 (DLMF 5.11.1).
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


def lgamma(x: Any) -> Any:
    """In float64: Stirling's series from 8 on, below it at abs(x) + 8 less the logarithm of the eight factors between.

    A negative x is reflected, log(pi / abs(x sin(pi x))) - lgamma(-x); both logarithms there are taken as one.
    """
    wide = s.cast(x, np.float64)
    z = s.abs(wide)
    low = z < 8.0
    factors = z
    for k in range(1, 8):
        factors = factors * (z + float(k))
    factors = s.select(low, factors, 1.0)
    w = s.select(low, z + 8.0, z)
    inverse = 1.0 / w
    series = fused(w - 0.5, polynomials64.log(w), 0.5 * math.log(2.0 * math.pi) - w)
    series = fused(inverse, horner(inverse * inverse, *_STIRLING), series)
    negative = wide < 0
    sine = s.abs(periodic.sin((wide - s.rint(wide)) * math.pi))
    rest = polynomials64.log(s.select(negative, math.pi * factors, 1.0) / s.select(negative, z * sine, factors))
    value = s.cast(rest + s.select(negative, -series, series), np.float32)
    value = s.select((x == 1) | (x == 2), s.constant(0.0, x), value)
    return s.select(s.abs(x) == math.inf, s.constant(math.inf, x), value)


POLYNOMIALS: dict[tuple[s.Function, str], Expansion] = {
    (getattr(s, function.__name__), "float32"): function
    for function in (
        exp, exp2, expm1, log, log2, log10, log1p, tanh, erf, erfc, gaussian, normal_cdf, hypot, pow, fmod, lgamma,
    )  # fmt: skip
} | polynomials64.POLYNOMIALS | INVERSES
POLYNOMIALS |= {(function, "c"): definition for function, definition in complex_functions.LIBRARY.items()}
