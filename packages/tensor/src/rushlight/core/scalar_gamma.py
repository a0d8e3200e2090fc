"""Scalar definitions of error, gamma and zeta functions that need a loop, for compiled code.

Each works in double precision. Formulas: NIST Digital Library of Mathematical Functions, chapters 5, 7, 8 and 25.
"""

from __future__ import annotations

import math

from rushlight.core.scalar import opaque


@opaque
def digamma(x):
    """The derivative of log(gamma(x)): reflection, recurrence up to 10, then the asymptotic series (DLMF 5.5, 5.11)."""
    if x == 0.0:
        return math.copysign(math.inf, -x)
    result = 0.0
    if x < 0.0:
        fraction = -(-x % 1.0)  # exact; the remainder of a tiny negative number would be 1
        if fraction == 0.0:
            return math.nan
        if fraction < -0.5:
            fraction += 1.0
        result = -math.pi / math.tan(math.pi * fraction)
        x = 1.0 - x
    while x < 10.0:
        result -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * (691 / 32760 - y / 12))))))
    return result + math.log(x) - 0.5 / x - series


@opaque
def zeta(s, q):
    """Hurwitz's zeta function, the sum of (q + k)**-s over k >= 0, by Euler's and Maclaurin's formula (DLMF
    25.11.5).
    """
    if s == 1.0:
        return math.inf
    if s < 1.0 or q != q:
        return math.nan
    if q <= 0.0:
        if q % 1.0 == 0.0 or q == -math.inf:
            return math.inf
        if s % 1.0 != 0.0 and s != math.inf:
            return math.nan
    if s != s:
        return math.nan
    if s > 1e15:  # only the largest term is left; the formula would multiply infinity and 0
        return q**-s if q > 0.0 else math.inf
    total = 0.0
    for _ in range(12):
        total += q**-s
        q += 1.0
    while q < 10.0:
        total += q**-s
        q += 1.0
    total += q ** (1.0 - s) / (s - 1.0) + 0.5 * q**-s
    # Bernoulli numbers B2k / (2k)! with the rising factorials of s.
    term = s * q ** (-s - 1.0)
    total += term / 12.0
    term *= (s + 1.0) * (s + 2.0) / (q * q)
    total -= term / 720.0
    term *= (s + 3.0) * (s + 4.0) / (q * q)
    total += term / 30240.0
    term *= (s + 5.0) * (s + 6.0) / (q * q)
    total -= term / 1209600.0
    term *= (s + 7.0) * (s + 8.0) / (q * q)
    total += term / 47900160.0
    term *= (s + 9.0) * (s + 10.0) / (q * q)
    total -= term * 691.0 / 1307674368000.0
    return total


@opaque
def erfcx(x):
    """exp(x * x) * erfc(x) without overflow: a continued fraction for large x (DLMF 7.9.2)."""
    if x < 5.0:
        return math.exp(x * x) * math.erfc(x) if x > -26.7 else math.inf
    fraction = 0.0
    for k in range(60, 0, -1):
        fraction = 0.5 * k / (x + fraction)
    return 1.0 / (math.sqrt(math.pi) * (x + fraction))


@opaque
def ndtri(p):
    """The point below which the normal distribution has probability p: Newton's method on the tail's logarithm."""
    if p == 0.0:
        return -math.inf
    if p == 1.0:
        return math.inf
    if not 0.0 < p < 1.0:
        return math.nan
    tail = p if p < 0.5 else 1.0 - p
    t = math.sqrt(-2.0 * math.log(tail))
    x = t - (2.30753 + 0.27061 * t) / (1.0 + 0.99229 * t + 0.04481 * t * t)
    target = math.log(tail)
    for _ in range(
        5
    ):  # x > 0: solve log(Q(x)) = log(tail), which is nearly a parabola, so that tiny tails converge as fast
        upper = 0.5 * math.erfc(x * math.sqrt(0.5))
        ratio = upper * math.exp(0.5 * x * x) * math.sqrt(2.0 * math.pi)
        x += (math.log(upper) - target) * ratio
    return -x if p < 0.5 else x


@opaque
def igamma(a, x):
    """The regularised lower incomplete gamma function (DLMF 8.7.1, 8.9.2)."""
    return _incomplete(a, x, False)


@opaque
def igammac(a, x):
    """The regularised upper incomplete gamma function (DLMF 8.7.1, 8.9.2)."""
    return _incomplete(a, x, True)


def _incomplete(a, x, upper):
    """Of the two, whose sum is 1, the one whose series or fraction converges; the other is what is left of 1."""
    if x < 0.0 or a < 0.0 or a != a or x != x:
        return math.nan
    if a == 0.0:
        lower = 1.0 if x > 0.0 else math.nan
    elif x == 0.0:
        lower = 0.0
    elif x == math.inf:
        lower = math.nan if a == math.inf else 1.0
    elif a == math.inf:
        lower = 0.0
    elif x > a + 1.0:
        rest = _upper_fraction(a, x)
        return rest if upper else 1.0 - rest
    else:
        lower = _lower_series(a, x)
    return 1.0 - lower if upper else lower


@opaque
def _lower_series(a, x):
    """The lower incomplete gamma function as a power series."""
    term = 1.0 / a
    total = term
    n = a
    for _ in range(100000):
        n += 1.0
        term *= x / n
        total += term
        if term < total * 1e-17:
            break
    return total * math.exp(a * math.log(x) - x - math.lgamma(a))


@opaque
def _upper_fraction(a, x):
    """The upper incomplete gamma function as a continued fraction, by Lentz's method."""
    b = x + 1.0 - a
    c = 1e300
    d = 1.0 / b
    h = d
    for i in range(1, 100000):
        step = -i * (i - a)
        b += 2.0
        d = step * d + b
        d = 1e-300 if abs(d) < 1e-300 else d
        c = b + step / c
        c = 1e-300 if abs(c) < 1e-300 else c
        d = 1.0 / d
        h *= d * c
        if abs(d * c - 1.0) < 1e-16:
            break
    return h * math.exp(a * math.log(x) - x - math.lgamma(a))
