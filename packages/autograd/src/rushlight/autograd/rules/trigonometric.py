"""Gradients of circular and hyperbolic functions."""

import math

from rushlight.autograd.rules.registry import conj, vjp
from rushlight.ops import prims
from rushlight.ops.power import rsqrt
from rushlight.ops.selection import where_op
from rushlight.ops.trigonometric import cos, cosh, sin, sinh


def _acosh(g, input):
    # rsqrt(z * z - 1) would take the wrong branch for complex numbers in the left half plane.
    if input._meta.dtype.is_complex:
        return g * conj(rsqrt(input - 1) * rsqrt(input + 1))
    return g * rsqrt(input * input - 1)


def _sinc(g, input):
    """`(cos(pi x) - sinc(x)) / x`, 0 at 0."""
    angle = input * math.pi
    square = angle * input
    zero = square == 0
    slope = (angle * cos(angle) - sin(angle)) / where_op(zero, 1, square)
    return where_op(zero, 0, g * conj(slope))


def _square_of_radius(y, x):
    """1 at the origin, for gradients of 0 there."""
    square = y * y + x * x
    return where_op(square == 0, 1, square)


vjp(prims.sin, input=lambda g, input: g * conj(cos(input)))
vjp(prims.cos, input=lambda g, input: g * -conj(sin(input)))
vjp(prims.tan, input=lambda g, ans: g * conj(ans * ans + 1))
vjp(prims.asin, input=lambda g, input: g * conj(rsqrt(1 - input * input)))
vjp(prims.acos, input=lambda g, input: g * -conj(rsqrt(1 - input * input)))
vjp(prims.atan, input=lambda g, input: g / conj(input * input + 1))
vjp(prims.sinh, input=lambda g, input: g * conj(cosh(input)))
vjp(prims.cosh, input=lambda g, input: g * conj(sinh(input)))
vjp(prims.tanh, input=lambda g, ans: g * conj(1 - ans * ans))
vjp(prims.asinh, input=lambda g, input: g * conj(rsqrt(input * input + 1)))
vjp(prims.acosh, input=_acosh)
vjp(prims.atanh, input=lambda g, input: g / conj(1 - input * input))
vjp(
    prims.atan2,
    input=lambda g, input, other: g * (other / _square_of_radius(input, other)),
    other=lambda g, input, other: g * -(input / _square_of_radius(input, other)),
)
vjp(prims.sinc, input=_sinc)
vjp(prims.deg2rad, input=lambda g: g * (math.pi / 180))
vjp(prims.rad2deg, input=lambda g: g * (180 / math.pi))
