"""Scalar definitions of Bessel and Airy functions, for compiled code.

Each works in double precision. Formulas: NIST Digital Library of Mathematical Functions, chapters 9 and 10.
"""

from __future__ import annotations

import math

from rushlight.core.scalar import opaque


@opaque
def scaled_i(order, x):
    """exp(-abs(x)) I_order(abs(x)) for order 0 and 1: power series, asymptotic series beyond 30 (DLMF 10.25.2,
    10.40.1).
    """
    x = abs(x)
    if x == math.inf:
        return 0.0
    if x > 30.0:
        term, total, k = 1.0, 1.0, 1.0
        while k < 60.0 and abs(term) > 1e-17:
            term *= -(4.0 * order * order - (2.0 * k - 1.0) ** 2) / (8.0 * x * k)
            total += term
            k += 1.0
        return total / math.sqrt(2.0 * math.pi * x)
    quarter = 0.25 * x * x
    term = 1.0 if order == 0.0 else 0.5 * x
    total, k = term, 1.0
    while k < 200.0 and term > total * 1e-17:
        term *= quarter / (k * (k + order))
        total += term
        k += 1.0
    return total * math.exp(-x)


@opaque
def i0e(x):
    """The exponentially scaled modified Bessel function of the first kind and order 0."""
    return scaled_i(0.0, x)


@opaque
def i1e(x):
    """The exponentially scaled modified Bessel function of the first kind and order 1."""
    return math.copysign(scaled_i(1.0, x), x)


@opaque
def i0(x):
    """The modified Bessel function of the first kind and order 0."""
    size = abs(x)
    if size < 700.0:
        return scaled_i(0.0, x) * math.exp(size)
    if size == math.inf:
        return math.nan  # as scipy and PyTorch say
    return math.inf if size > 714.0 else math.exp(size + math.log(scaled_i(0.0, x)))


@opaque
def i1(x):
    """The modified Bessel function of the first kind and order 1."""
    size = abs(x)
    if size == math.inf:
        return math.nan  # as scipy and PyTorch say
    if size < 700.0:
        return math.copysign(scaled_i(1.0, x) * math.exp(size), x)
    return math.copysign(math.inf if size > 714.0 else math.exp(size + math.log(scaled_i(1.0, x))), x)


@opaque
def scaled_k(order, x):
    """exp(x) K_order(x): the integral of exp(-x (cosh t - 1)) cosh(order t) by the trapezoidal rule, which converges
    exponentially here (DLMF 10.32.9)."""
    if x != x or x < 0.0:
        return math.nan
    if x == 0.0:
        return math.inf
    if x == math.inf:
        return 0.0
    step = 0.125 if x < 25.0 else 0.125 * math.sqrt(25.0 / x)
    total, t, term = 0.5, 0.0, 1.0
    while term > total * 1e-18 or t < 1.0 / (1.0 + x):
        t += step
        rise = math.sinh(0.5 * t)
        power = order * t - 2.0 * x * rise * rise  # cosh(order t) may overflow before the other factor brings it down
        term = 0.5 * (math.exp(power) + math.exp(power - 2.0 * order * t)) if power > -745.0 else 0.0
        total += term
    return total * step


@opaque
def k0e(x):
    """The exponentially scaled modified Bessel function of the second kind and order 0."""
    return scaled_k(0.0, x)


@opaque
def k1e(x):
    """The exponentially scaled modified Bessel function of the second kind and order 1."""
    return 1.0 / x if 0.0 < x < 1e-150 else scaled_k(1.0, x)


@opaque
def modified_k0(x):
    """The modified Bessel function of the second kind and order 0."""
    return scaled_k(0.0, x) * math.exp(-x)


@opaque
def modified_k1(x):
    """The modified Bessel function of the second kind and order 1."""
    return 1.0 / x if 0.0 < x < 1e-150 else scaled_k(1.0, x) * math.exp(-x)


@opaque
def _hankel(order, x, second):
    """J (or Y for `second`) of order 0 or 1 for large x: asymptotic series (DLMF 10.17.3, 10.17.4)."""
    p, q, term, k = 1.0, 0.0, 1.0, 1.0
    while k < 60.0:
        before = abs(term)
        term *= (4.0 * order * order - (2.0 * k - 1.0) ** 2) / (8.0 * x * k)
        if abs(term) > before or abs(term) < 1e-18:
            break
        m = k % 4.0
        if m == 1.0:
            q += term
        elif m == 2.0:
            p -= term
        elif m == 3.0:
            q -= term
        else:
            p += term
        k += 1.0
    # cos(x - pi/4) and sin(x - pi/4) from cos(x) and sin(x): the difference itself would round x.
    c, s = math.cos(x), math.sin(x)
    cosine, sine = (c + s) * math.sqrt(0.5), (s - c) * math.sqrt(0.5)
    if order == 1.0:
        cosine, sine = sine, -cosine
    wave = p * sine + q * cosine if second == 1.0 else p * cosine - q * sine
    return wave * math.sqrt(2.0 / (math.pi * x))


@opaque
def _miller(x, wanted):
    """J0, J1, or the sums of Neumann's series for Y0 and Y1 (wanted = 0, 1, 2, 3), by backward recurrence (DLMF
    3.6, 10.23).
    """
    top = 2.0 * math.floor(0.5 * x + 20.0)
    above, here = 0.0, 1e-290
    norm, sum_even, sum_odd, first = 0.0, 0.0, 0.0, 0.0
    n = top
    while n > 0.0:
        half = math.floor(0.5 * n)
        sign = 1.0 if half % 2.0 == 0.0 else -1.0
        if n % 2.0 == 0.0:
            norm += 2.0 * here
            sum_even += sign * here / half
        elif n > 1.0:
            sum_odd += sign * here * n / (half * (half + 1.0))
        else:
            first = here
        above, here = here, 2.0 * n / x * here - above
        n -= 1.0
    norm += here
    if wanted == 0.0:
        return here / norm
    if wanted == 1.0:
        return first / norm
    return sum_even / norm if wanted == 2.0 else sum_odd / norm


@opaque
def j0(x):
    """The Bessel function of the first kind and order 0."""
    x = abs(x)
    if not x < math.inf:
        return math.nan  # at infinity not the limit 0, but what scipy and PyTorch say
    if x < 1e-5:
        return 1.0 - 0.25 * x * x
    return _hankel(0.0, x, 0.0) if x > 25.0 else _miller(x, 0.0)


@opaque
def j1(x):
    """The Bessel function of the first kind and order 1."""
    size = abs(x)
    if not size < math.inf:
        return math.nan
    if size < 1e-5:
        return 0.5 * x
    return math.copysign(1.0, x) * (_hankel(1.0, size, 0.0) if size > 25.0 else _miller(size, 1.0))


@opaque
def y0(x):
    """The Bessel function of the second kind and order 0 (DLMF 10.23.16)."""
    if x <= 0.0 or x != x:
        return -math.inf if x == 0.0 else math.nan
    if x > 25.0:
        return math.nan if x == math.inf else _hankel(0.0, x, 1.0)
    lead = math.log(0.5 * x) + 0.5772156649015329
    if x < 1e-5:
        return 2.0 / math.pi * lead
    return 2.0 / math.pi * (lead * _miller(x, 0.0) - 2.0 * _miller(x, 2.0))


@opaque
def y1(x):
    """The Bessel function of the second kind and order 1 (DLMF 10.23.17)."""
    if x <= 0.0 or x != x:
        return -math.inf if x == 0.0 else math.nan
    if x > 25.0:
        return math.nan if x == math.inf else _hankel(1.0, x, 1.0)
    if x < 1e-5:
        return -2.0 / (math.pi * x)
    lead = math.log(0.5 * x) + 0.5772156649015329 - 1.0
    return 2.0 / math.pi * (lead * _miller(x, 1.0) - _miller(x, 0.0) / x - _miller(x, 3.0))


@opaque
def airy_ai(x):
    """Airy's function: Maclaurin series near 0, beyond by K of order 1/3 and the oscillating asymptotic series
    (DLMF 9.4, 9.6, 9.7).
    """
    if x != x:
        return math.nan
    if abs(x) == math.inf:
        return 0.0
    if x > 2.0:
        z = 2.0 / 3.0 * x * math.sqrt(x)
        return math.sqrt(x / 3.0) / math.pi * scaled_k(1.0 / 3.0, z) * math.exp(-z)
    if x > -7.0:
        cube = x * x * x
        f, g, total_f, total_g, k = 1.0, x, 1.0, x, 0.0
        while k < 300.0 and (abs(f) > 1e-20 or abs(g) > 1e-20):
            f *= cube / ((k + 2.0) * (k + 3.0))
            g *= cube / ((k + 3.0) * (k + 4.0))
            total_f += f
            total_g += g
            k += 3.0
        return 0.3550280538878172 * total_f - 0.2588194037928068 * total_g
    z = 2.0 / 3.0 * -x * math.sqrt(-x)
    p, q, term, k = 1.0, 0.0, 1.0, 1.0
    while k < 60.0:
        before = abs(term)
        term *= (6.0 * k - 5.0) * (6.0 * k - 3.0) * (6.0 * k - 1.0) / (216.0 * k * (2.0 * k - 1.0)) / z
        if term > before or term < 1e-18:
            break
        m = k % 4.0
        if m == 1.0:
            q += term
        elif m == 2.0:
            p -= term
        elif m == 3.0:
            q -= term
        else:
            p += term
        k += 1.0
    angle = z - 0.25 * math.pi
    return (math.cos(angle) * p + math.sin(angle) * q) / (math.sqrt(math.pi) * math.sqrt(math.sqrt(-x)))
