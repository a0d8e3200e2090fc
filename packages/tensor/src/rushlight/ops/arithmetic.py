"""Arithmetic: add, sub, mul, div, remainders, and the fused forms addcmul, addcdiv, lerp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.core.declare import elementwise
from rushlight.core.front import check_tensors, extend_tensor, function
from rushlight.core.op import INPLACE, prims
from rushlight.core.out import POINTWISE
from rushlight.core.tensor import Tensor
from rushlight.kernels import remainders

Number = bool | int | float | complex


@elementwise(numpy=np.add, tensors=None, operator="add", method=False, public=False)
def add(input, other):
    """Sum of two tensors, element by element: `input + other`."""
    return input + other


@elementwise(numpy=np.subtract, tensors=None, operator="sub", method=False, public=False, supports="no_bool")
def sub(input, other):
    """Difference of two tensors, element by element: `input - other`."""
    return input - other


@elementwise(numpy=np.multiply, tensors=None, operator="mul", aliases=("multiply",))
def mul(input, other):
    """Product of two tensors, element by element, with broadcasting: `input * other`.

    Shapes: `(*a)`, `(*b)` -> the broadcast of both. Raises RuntimeError when they do not broadcast.

    Example:
        >>> import rushlight
        >>> rushlight.mul(rushlight.tensor([1, 2]), 3)
        tensor([3, 6])
    """
    return input * other


@elementwise(numpy=np.true_divide, tensors=None, promote="float", operator="truediv", method=False)
def true_divide(input, other):
    """Quotient of two tensors, element by element; integers divide to floating point: `input / other`."""
    return input / other


def _refuse_zero(dividend: Any, divisor: Any) -> None:
    """Integers have no infinity to return, so dividing one by zero is an error."""
    if not (divisor.all() if isinstance(divisor, np.ndarray) else divisor):
        raise RuntimeError(
            "ZeroDivisionError: an integer tensor was divided by zero; convert to floating point, which gives inf"
        )


def _checked(divide: Callable) -> Callable:
    """The division of arrays, refusing zeros among integer divisors; compiled loops call the same check as `guard`."""

    def checked(a: Any, b: Any) -> Any:
        if b.dtype.kind in "iu":
            _refuse_zero(a, b)
        return divide(a, b)

    checked.guard = _refuse_zero
    return checked


def _small(definition: Callable) -> tuple[float, Callable, Callable]:
    return remainders.SMALL, definition, remainders.size


@elementwise(
    numpy=_checked(np.floor_divide), tensors=None, operator="floordiv", supports="real_number",
    bounded=_small(remainders.small_floor_divide),
)  # fmt: skip
def floor_divide(input, other):
    """The largest integer not above the quotient: `floor(input / other)`, computed without rounding the quotient first.

    Raises RuntimeError for a division of integers by zero.

    Example:
        >>> import rushlight
        >>> rushlight.floor_divide(rushlight.tensor([7, -7]), 2)
        tensor([ 3, -4])
    """
    return input // other


@elementwise(numpy=_checked(s.truncate_divide), tensors=None, method=False, public=False, supports="real_number")
def trunc_divide(input, other):
    """The quotient rounded towards zero: `trunc(input / other)`."""
    return s.truncate_divide(input, other)


@elementwise(
    numpy=_checked(np.remainder), tensors=(), operator="mod", supports="real_number",
    bounded=_small(remainders.small_remainder),
)  # fmt: skip
def remainder(input, other):
    """What a floor division leaves, with the sign of the divisor: `input - other * floor(input / other)`.

    Raises RuntimeError for a division of integers by zero.

    Example:
        >>> import rushlight
        >>> rushlight.remainder(rushlight.tensor([-3, 3]), 2)
        tensor([1, 1])
    """
    return input % other


@elementwise(numpy=_checked(np.fmod), supports="real_number", bounded=_small(remainders.small_fmod))
def fmod(input, other):
    """What a division rounded towards zero leaves, with the sign of `input`: `input - other * trunc(input / other)`.

    Raises RuntimeError for a division of integers by zero.
    """
    return s.fmod(input, other)


@elementwise(numpy=np.negative, operator="neg", aliases=("negative",), supports="number")
def neg(input):
    """Each element with its sign flipped: `-input`. Raises RuntimeError for bool tensors."""
    return -input


@elementwise(method=False, public=False, supports="number")
def add_scaled(input, other, alpha):
    """A multiple added: `input + alpha * other`, without memory for the product."""
    return input + other * alpha


def _scaled(name: str, other: Any, alpha: Number) -> Any:
    """`alpha * other`, for the functions with an `alpha`."""
    if alpha is not True and type(alpha) is int and alpha == 1:
        return other
    _check_alpha(name, other, alpha)
    return other * (bool(alpha) if _is_bool(other) else alpha)


def _is_bool(x: Any) -> bool:
    return x.dtype.category == 0 if hasattr(x, "_meta") else isinstance(x, bool)


def _check_alpha(name: str, other: Any, alpha: Number) -> None:
    if isinstance(alpha, bool) and not _is_bool(other):
        raise RuntimeError(f"{name}: alpha may be a bool only beside bool tensors, got {alpha}")
    floating = other.dtype.is_inexact if hasattr(other, "_meta") else isinstance(other, (float, complex))
    if isinstance(alpha, (float, complex)) and not floating:
        raise RuntimeError(f"{name}: alpha must be an integer when other has no fractions, got {alpha!r}")


def _in_one(name: str, input: Any, other: Any, alpha: Number) -> bool:
    """Can `add_scaled` do it: are the operands tensors of numbers, and is alpha another number than 1?"""
    if type(alpha) not in (int, float) or alpha == 1 or not (hasattr(input, "_meta") and hasattr(other, "_meta")):
        return False
    _check_alpha(name, other, alpha)
    return input._meta.dtype.category > 0 and other._meta.dtype.category > 0


@function(name="add")
def _add(
    input: Tensor | Number, other: Tensor | Number, *, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """Sum of two tensors, element by element: `input + alpha * other`.

    Shapes: `(*a)`, `(*b)` -> the broadcast of both. Raises RuntimeError when they do not broadcast.

    Example:
        >>> import rushlight
        >>> rushlight.add(rushlight.tensor([1, 2]), 3, alpha=2)
        tensor([7, 8])
    """
    if _in_one("add", input, other, alpha):
        try:
            return add_scaled(input, other, alpha, out=out)
        except RuntimeError:
            pass  # the plain sum has the same cause for an error, and names the function that was called
    return add(input, _scaled("add", other, alpha), out=out)


@function(name="sub", aliases=("subtract",))
def _sub(
    input: Tensor | Number, other: Tensor | Number, *, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """Difference of two tensors, element by element: `input - alpha * other`.

    Shapes: `(*a)`, `(*b)` -> the broadcast of both. Raises RuntimeError when they do not broadcast, or for bool
    tensors.
    """
    if _in_one("sub", input, other, alpha):
        try:
            return add_scaled(input, other, -alpha, out=out)
        except RuntimeError:
            pass  # as in `add`
    return sub(input, _scaled("sub", other, alpha), out=out)


_ADD_IN_PLACE, _SUB_IN_PLACE = INPLACE[prims.add], INPLACE[prims.sub]


def _add_(self: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """In-place form of `add`."""
    if alpha.__class__ is int and alpha == 1:
        return _ADD_IN_PLACE.apply((self, other))
    if _in_one("add_", self, other, alpha):
        try:
            return INPLACE[add_scaled.op].apply((self, other, alpha))
        except RuntimeError:
            pass  # as in `add`
    return _ADD_IN_PLACE.apply((self, _scaled("add_", other, alpha)))


def _sub_(self: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """In-place form of `sub`."""
    if alpha.__class__ is int and alpha == 1:
        return _SUB_IN_PLACE.apply((self, other))
    if _in_one("sub_", self, other, alpha):
        try:
            return INPLACE[add_scaled.op].apply((self, other, -alpha))
        except RuntimeError:
            pass  # as in `add`
    return _SUB_IN_PLACE.apply((self, _scaled("sub_", other, alpha)))


extend_tensor("add_", _add_)
extend_tensor("sub_", _sub_)
extend_tensor("subtract_", _sub_)


_ROUNDED = {None: true_divide, "floor": floor_divide, "trunc": trunc_divide}


def _division(rounding_mode: str | None) -> Any:
    try:
        return _ROUNDED[rounding_mode]
    except KeyError:
        raise RuntimeError(f"div: rounding_mode must be None, 'trunc' or 'floor', got {rounding_mode!r}") from None


@function(aliases=("divide",))
def div(
    input: Tensor | Number, other: Tensor | Number, *, rounding_mode: str | None = None, out: Tensor | None = None
) -> Tensor:
    """Quotient of two tensors, element by element; rounded down for `"floor"`, towards zero for `"trunc"`.

    Without rounding, integers divide to floating point. Raises RuntimeError for another `rounding_mode`, and for
    integers divided by zero with rounding.

    Example:
        >>> import rushlight
        >>> rushlight.div(rushlight.tensor([7, -7]), 2, rounding_mode="trunc")
        tensor([ 3, -3])
    """
    return _division(rounding_mode)(input, other, out=out)


def _div_(self: Tensor, other: Tensor | Number, *, rounding_mode: str | None = None) -> Tensor:
    """In-place form of `div`."""
    return INPLACE[_division(rounding_mode).op].apply((self, other))


extend_tensor("div_", _div_)
extend_tensor("divide_", _div_)
extend_tensor("true_divide", true_divide)
extend_tensor("true_divide_", lambda self, other: _div_(self, other))
extend_tensor("__rdiv__", lambda self, other: self.reciprocal() * other)
extend_tensor("__div__", true_divide)
extend_tensor("__idiv__", lambda self, other: _div_(self, other))


@function(method=False)
def rsub(input: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """Subtraction the other way round: `other - alpha * input`."""
    check_tensors(sub.op, (input,), ("input",))
    return sub(other, _scaled("rsub", input, alpha))


@function(out=False)
def positive(input: Tensor) -> Tensor:
    """The tensor itself: `+input`. Raises RuntimeError for bool tensors."""
    if input.dtype.category == 0:
        raise RuntimeError("positive: not defined for bool; convert with .to(dtype)")
    return input


extend_tensor("__pos__", positive)


def is_one(x: Any) -> bool:
    """Is an argument of a numpy function the number 1, as factors often are, so that there is nothing to multiply?

    Of a stand-in for any number it is not known: to multiply gives the same.
    """
    return x.ndim == 0 and isinstance(x, (np.generic, np.ndarray)) and bool(x == 1)


def _addcmul(x: Any, a: Any, b: Any, value: Any) -> Any:
    product = a * b
    return x + (product if is_one(value) else value * product)


@elementwise(numpy=_addcmul, name="addcmul", method=False, public=False, supports="number")
def addcmul_op(input, tensor1, tensor2, value):
    """A product added with a weight: `input + value * tensor1 * tensor2`."""
    return input + value * (tensor1 * tensor2)


@function(out=POINTWISE)
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """A product added with a weight: `input + value * tensor1 * tensor2`, rounded once.

    Shapes: the three tensors broadcast. Raises RuntimeError when they do not.
    """
    return addcmul_op(input, tensor1, tensor2, value)


@elementwise(name="addcdiv", method=False, public=False, supports="inexact")
def addcdiv_op(input, tensor1, tensor2, value):
    """A quotient added with a weight: `input + value * tensor1 / tensor2`."""
    return input + value * (tensor1 / tensor2)


@function(out=POINTWISE)
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """A quotient added with a weight: `input + value * tensor1 / tensor2`, rounded once.

    Shapes: the three tensors broadcast. Raises RuntimeError when they do not, and for integer tensors.
    """
    return addcdiv_op(input, tensor1, tensor2, value)


def _addcmul_(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """In-place form of `addcmul`."""
    return INPLACE[addcmul_op.op].apply((self, tensor1, tensor2, value))


def _addcdiv_(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """In-place form of `addcdiv`."""
    return INPLACE[addcdiv_op.op].apply((self, tensor1, tensor2, value))


extend_tensor("addcmul_", _addcmul_)
extend_tensor("addcdiv_", _addcdiv_)


def _lerp(x: Any, end: Any, weight: Any) -> Any:
    step = end - x
    if weight.ndim:
        return np.where(np.abs(weight) < 0.5, x + weight * step, end - step * (1.0 - weight))
    return x + weight * step if abs(weight) < 0.5 else end - step * (1.0 - weight)


@elementwise(numpy=_lerp, supports="inexact")
def lerp(input, end, weight):
    """The point between two tensors: `input + weight * (end - input)`, exact at both ends.

    Shapes: the tensors broadcast; `weight` may be a number.

    Example:
        >>> import rushlight
        >>> rushlight.lerp(rushlight.zeros(2), rushlight.ones(2), 0.25)
        tensor([0.2500, 0.2500])
    """
    step = end - input
    return s.select(s.abs(weight) < 0.5, input + weight * step, end - step * (1.0 - weight))
