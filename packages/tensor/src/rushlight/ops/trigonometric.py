"""Circular and hyperbolic functions, their inverses, and degrees."""

from __future__ import annotations

import math

import numpy as np

from rushlight.core import scalar as s
from rushlight.core.declare import elementwise
from rushlight.kernels import periodic


@elementwise(numpy=np.sin, promote="float", bounded=(periodic.LIMIT, periodic.sin, periodic.magnitude))
def sin(input):
    """Sine of each element, an angle in radians."""
    return s.sin(input)


@elementwise(numpy=np.cos, promote="float", bounded=(periodic.LIMIT, periodic.cos, periodic.magnitude))
def cos(input):
    """Cosine of each element, an angle in radians."""
    return s.cos(input)


@elementwise(
    numpy=np.tan, promote="float", domain=(-1.5, 1.5), bounded=(periodic.LIMIT, periodic.tan, periodic.magnitude)
)
def tan(input):
    """Tangent of each element, an angle in radians."""
    return s.tan(input)


@elementwise(numpy=np.arcsin, promote="float", domain=(-1.0, 1.0), aliases=("arcsin",))
def asin(input):
    """Inverse sine of each element, in [-pi/2, pi/2]; NaN outside [-1, 1]."""
    return s.asin(input)


@elementwise(numpy=np.arccos, promote="float", domain=(-1.0, 1.0), aliases=("arccos",))
def acos(input):
    """Inverse cosine of each element, in [0, pi]; NaN outside [-1, 1]."""
    return s.acos(input)


@elementwise(numpy=np.arctan, promote="float", aliases=("arctan",))
def atan(input):
    """Inverse tangent of each element, in [-pi/2, pi/2]."""
    return s.atan(input)


@elementwise(numpy=np.sinh, promote="float")
def sinh(input):
    """Hyperbolic sine of each element."""
    return s.sinh(input)


@elementwise(numpy=np.cosh, promote="float")
def cosh(input):
    """Hyperbolic cosine of each element."""
    return s.cosh(input)


@elementwise(numpy=np.tanh, promote="float")
def tanh(input):
    """Hyperbolic tangent of each element.

    Example:
        >>> import rushlight
        >>> rushlight.tanh(rushlight.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7616])
    """
    return s.tanh(input)


@elementwise(numpy=np.arcsinh, promote="float", aliases=("arcsinh",))
def asinh(input):
    """Inverse hyperbolic sine of each element."""
    return s.asinh(input)


@elementwise(numpy=np.arccosh, promote="float", domain=(1.0, 100.0), aliases=("arccosh",))
def acosh(input):
    """Inverse hyperbolic cosine of each element; NaN below 1."""
    return s.acosh(input)


@elementwise(numpy=np.arctanh, promote="float", domain=(-1.0, 1.0), aliases=("arctanh",))
def atanh(input):
    """Inverse hyperbolic tangent of each element; NaN outside [-1, 1]."""
    return s.atanh(input)


@elementwise(numpy=np.arctan2, tensors=("input", "other"), promote="float", supports="float", aliases=("arctan2",))
def atan2(input, other):
    """Angle of the point (other, input) in the plane, in [-pi, pi], the right quadrant included.

    Example:
        >>> import rushlight
        >>> rushlight.atan2(rushlight.tensor([1.0]), rushlight.tensor([-1.0]))
        tensor([2.3562])
    """
    return s.atan2(input, other)


@elementwise(promote="float")
def sinc(input):
    """Normalised sine cardinal of each element: `sin(pi * input) / (pi * input)`, 1 at 0."""
    angle = input * math.pi
    zero = input == 0
    return s.select(zero, s.constant(1.0, input), s.sin(angle) / s.select(zero, s.constant(1.0, input), angle))


@elementwise(promote="float", supports="float")
def deg2rad(input):
    """Degrees to radians: `input * pi / 180`."""
    return input * (math.pi / 180.0)


@elementwise(promote="float", supports="float")
def rad2deg(input):
    """Radians to degrees: `input * 180 / pi`."""
    return input * (180.0 / math.pi)
