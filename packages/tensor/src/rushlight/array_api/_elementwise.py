"""Elementwise functions. Those of one argument are rushlight's own; those of several promote as the standard says."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import rushlight as rl
from rushlight.array_api._promotion import promoted
from rushlight.core.tensor import Tensor

abs = rl.abs
acos = rl.acos
acosh = rl.acosh
asin = rl.asin
asinh = rl.asinh
atan = rl.atan
atanh = rl.atanh
bitwise_invert = rl.bitwise_not
ceil = rl.ceil
conj = rl.conj
cos = rl.cos
cosh = rl.cosh
exp = rl.exp
floor = rl.floor
imag = rl.imag
isfinite = rl.isfinite
isinf = rl.isinf
isnan = rl.isnan
log = rl.log
log1p = rl.log1p
log2 = rl.log2
log10 = rl.log10
logical_not = rl.logical_not
negative = rl.negative
positive = rl.positive
real = rl.real
reciprocal = rl.reciprocal
signbit = rl.signbit
sin = rl.sin
sinh = rl.sinh
square = rl.square
sqrt = rl.sqrt
tan = rl.tan
trunc = rl.trunc


def _binary(name: str, function: Callable) -> Callable:
    """A function of two arrays, or an array and a number in either place."""

    def call(x1: Any, x2: Any, /) -> Tensor:
        return function(*promoted(x1, x2))

    call.__name__ = call.__qualname__ = name
    call.__module__ = "rushlight.array_api"
    call.__doc__ = f"`rushlight.{getattr(function, 'name', name)}` with the promotion of the standard."
    return call


# `.op` where the function itself takes no number in the first place: the op does.
add = _binary("add", rl.add)
atan2 = _binary("atan2", rl.atan2.op)
bitwise_and = _binary("bitwise_and", rl.bitwise_and.op)
bitwise_left_shift = _binary("bitwise_left_shift", rl.bitwise_left_shift.op)
bitwise_or = _binary("bitwise_or", rl.bitwise_or.op)
bitwise_right_shift = _binary("bitwise_right_shift", rl.bitwise_right_shift.op)
bitwise_xor = _binary("bitwise_xor", rl.bitwise_xor.op)
copysign = _binary("copysign", rl.copysign.op)
divide = _binary("divide", rl.divide)
equal = _binary("equal", rl.eq.op)
greater = _binary("greater", rl.greater.op)
greater_equal = _binary("greater_equal", rl.greater_equal.op)
hypot = _binary("hypot", rl.hypot.op)
less = _binary("less", rl.less.op)
less_equal = _binary("less_equal", rl.less_equal.op)
logaddexp = _binary("logaddexp", rl.logaddexp.op)
logical_and = _binary("logical_and", rl.logical_and.op)
logical_or = _binary("logical_or", rl.logical_or.op)
logical_xor = _binary("logical_xor", rl.logical_xor.op)
maximum = _binary("maximum", rl.maximum.op)
minimum = _binary("minimum", rl.minimum.op)
multiply = _binary("multiply", rl.multiply.op)
nextafter = _binary("nextafter", rl.nextafter.op)
not_equal = _binary("not_equal", rl.ne.op)
pow = _binary("pow", rl.pow)
remainder = _binary("remainder", rl.remainder.op)
subtract = _binary("subtract", rl.subtract)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Each element brought into [min, max]; bounds are numbers or arrays that broadcast against `x`.

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.clip(xp.asarray([1, 5, 9]), 2, 6)
        tensor([2, 5, 6])
    """
    if min is None and max is None:
        return x.clone()
    return rl.clamp(*promoted(x, min, max))


def floor_divide(x1: Any, x2: Any, /) -> Tensor:
    """The quotients rounded down; where an operand is infinite, what `divide` gives (PyTorch follows Python there).

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.floor_divide(xp.asarray([7.0, xp.inf]), 2)
        tensor([3., inf])
    """
    x1, x2 = promoted(x1, x2)
    result = rl.floor_divide.op(x1, x2)
    if not result.is_floating_point():
        return result
    infinite = _isinf(x1) | _isinf(x2)
    return rl.where(infinite, rl.divide(x1, x2), result)


def _isinf(x: Any) -> Any:
    return rl.isinf(x) if hasattr(x, "_meta") else math.isinf(x)


def round(x: Tensor, /) -> Tensor:
    """The nearest integers, as numbers of the same dtype; of two that are equally near the even one."""
    if x.is_complex():  # PyTorch's refuses
        return rl.complex(rl.round(x.real), rl.round(x.imag))
    return rl.round(x)


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1, for complex numbers the one of modulus 1 in their direction; NaN stays (it is 0 in PyTorch)."""
    result = rl.sgn(x)
    return rl.where(rl.isnan(x), x, result) if x.is_floating_point() else result


def expm1(x: Tensor, /) -> Tensor:
    """`exp(x) - 1` without cancellation near zero."""
    if not x.is_complex():
        return rl.expm1(x)
    # The usual formula multiplies infinity by zero where exp() has a defined result, and keeps -0.
    special = ~rl.isfinite(x) | (x == 0)
    return rl.where(special, rl.exp(x) - 1, rl.expm1(x))


def tanh(x: Tensor, /) -> Tensor:
    """The hyperbolic tangent."""
    result = rl.tanh(x)
    if not x.is_complex():
        return result
    # At infinity the zero of the imaginary part has the sign of x's, not of sin(2 imag(x)) as in C.
    zero = rl.copysign(rl.zeros_like(x.imag), x.imag)
    at_infinity = rl.isinf(x.real) & rl.isfinite(x.imag)
    return rl.where(at_infinity, rl.complex(result.real, zero), result)
