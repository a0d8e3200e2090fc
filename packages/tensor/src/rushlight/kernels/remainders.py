"""Remainders and rounded quotients of floats: by the exact `fmod`, and with one division where quotients are small.

`fmod` takes away multiples of b until less than b is left, in steps whose number depends on the quotient. Up to a
quotient of half the reciprocal of the machine epsilon one step is enough, and exact: the quotient, rounded and cut
off, is right or too large by one, and `a - quotient * b` is a multiple of the last digit of b that is smaller than b.
"""

from __future__ import annotations

import math
from typing import Any

from rushlight.core import scalar as s

SMALL = 0.5


def size(a: Any, b: Any) -> Any:
    """The quotient's magnitude in units of what `small_fmod` takes: at most `SMALL` for it; 0 where a is infinite or b
    zero, which it takes, too."""
    quotient = s.abs(a / b) * float(s.finfo(a).eps)
    return s.select((b == 0) | (s.abs(a) == math.inf) | s.isnan(quotient), s.constant(0.0, a), quotient)


def small_fmod(a: Any, b: Any) -> Any:
    """`fmod` for small quotients."""
    rest = s.fma(-s.trunc(a / b), b, a)
    rest = s.select((rest != 0) & ((rest < 0) != (a < 0)), rest + s.copysign(b, a), rest)
    rest = s.select((s.abs(b) == math.inf) & (s.abs(a) < math.inf), a, rest)
    return s.copysign(rest, a)


def small_remainder(a: Any, b: Any) -> Any:
    """`remainder` for small quotients."""
    return remainder(small_fmod(a, b), b)


def small_floor_divide(a: Any, b: Any) -> Any:
    """`floor_divide` for small quotients."""
    return floor_quotient(a, b, small_fmod(a, b))


def remainder(rest: Any, b: Any) -> Any:
    """What has the sign of b, from the `fmod`."""
    moved = s.select((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
    return s.select(moved == 0, s.copysign(moved, b), moved)


def floor_quotient(a: Any, b: Any, rest: Any) -> Any:
    """a / b rounded down, from the `fmod`.

    That is exact, so a - rest is a multiple of b and the quotient is an integer up to one rounding; floor(a / b) alone
    would be one too large where a / b rounds up to an integer.
    """
    quotient = (a - rest) / b
    quotient = s.select((rest != 0) & ((rest < 0) != (b < 0)), quotient - 1, quotient)
    nearest = s.floor(quotient)
    nearest = s.select(quotient - nearest > 0.5, nearest + 1, nearest)
    nearest = s.select(quotient == 0, s.copysign(s.constant(0.0, a), a / b), nearest)
    return s.select(b == 0, a / b, nearest)
