"""Powers and roots: pow, square, sqrt, rsqrt, reciprocal, hypot, ldexp, frexp."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core import scalar as s
from rushlight.core.declare import elementwise, structured
from rushlight.core.front import OPERAND_TYPES, check_tensors, export, extend_tensor, function, store
from rushlight.core.layout import preserve_format, strides_for
from rushlight.core.meta import Meta, meta
from rushlight.core.op import INPLACE, ErrorSample, Sample, kernel, prims
from rushlight.core.out import POINTWISE
from rushlight.core.tensor import Tensor
from rushlight.ops.arithmetic import Number
from rushlight.return_types import named


@elementwise(numpy=np.sqrt, promote="float", domain=(0.0, 100.0))
def sqrt(input):
    """Square root of each element; NaN for negative real numbers.

    Example:
        >>> import rushlight
        >>> rushlight.sqrt(rushlight.tensor([4.0, 9.0]))
        tensor([2., 3.])
    """
    return s.sqrt(input)


@elementwise(promote="float", domain=(0.0, 100.0))
def rsqrt(input):
    """Reciprocal of the square root of each element: `1 / sqrt(input)`."""
    return 1.0 / s.sqrt(input)


@elementwise(numpy=np.reciprocal, promote="float")
def reciprocal(input):
    """Reciprocal of each element: `1 / input`."""
    return 1.0 / input


@elementwise(numpy=np.square, name="square", method=False, public=False, supports="number")
def square_op(input):
    """Square of each element: `input * input`."""
    return input * input


@function(inplace=True)
def square(input: Tensor) -> Tensor:
    """Square of each element: `input ** 2`; bools give int64."""
    return square_op(input.to(dtypes.int64) if input.dtype is dtypes.bool else input)


export("square_", Tensor.square_)


@elementwise(numpy=np.hypot, tensors=("input", "other"), supports="float")
def hypot(input, other):
    """Length of the hypotenuse: `sqrt(input**2 + other**2)`, without overflow on the way."""
    return s.hypot(input, other)


def _pow(a: Any, b: Any) -> Any:
    kind = a.dtype if a.dtype == b.dtype else np.result_type(a.dtype, b.dtype)
    if kind.kind not in "iu":
        return np.power(a, b)
    if kind.kind == "i" and np.less(b, 0).any():
        # The reciprocal rounded towards zero: only 1 and -1 have one that is not 0.
        flipped = np.where(
            np.equal(a, 1), 1, np.where(np.equal(a, -1), np.where(np.equal(np.bitwise_and(b, 1), 0), 1, -1), 0)
        )
        return np.where(np.less(b, 0), flipped, np.power(a, np.maximum(b, 0)))
    return np.power(a, b)


@elementwise(numpy=_pow, tensors=(), name="pow", method=False, public=False, supports="number")
def pow_op(input, exponent):
    """Power, element by element: `input ** exponent`."""
    return input**exponent


def _times_itself_twice(x: Tensor) -> Tensor:
    return square_op(x) * x


# Exponents that have a cheaper and more accurate form.
_BY_EXPONENT = {2: square_op, 3: _times_itself_twice, 0.5: sqrt, -0.5: rsqrt, -1: reciprocal}


def _check_exponent(name: str, input: Any, exponent: Any) -> None:
    if type(exponent) is int and exponent < 0 and hasattr(input, "_meta") and input.dtype.category == 1:
        raise RuntimeError(
            f"{name}: Integers to negative integer powers are not allowed, got exponent {exponent}; "
            "convert the tensor to floating point"
        )


@function(out=POINTWISE)
def pow(input: Tensor | Number, exponent: Tensor | Number) -> Tensor:
    """Power, element by element: `input ** exponent`. One of the two may be a number.

    Shapes: the two broadcast. Integer powers of integers stay integers and wrap around. Raises RuntimeError for an
    integer tensor with a negative integer number as exponent.

    Example:
        >>> import rushlight
        >>> rushlight.pow(rushlight.tensor([1, 2, 3]), 2)
        tensor([1, 4, 9])
    """
    kind, m = type(exponent), getattr(input, "_meta", None)
    if m is not None and (kind is int or kind is float):
        if m.dtype.category >= 2:
            special = _BY_EXPONENT.get(exponent)
            if special is not None:
                return special(input)
        else:
            _check_exponent("pow", input, exponent)
            if m.dtype is dtypes.bool and kind is int:
                input = input.to(dtypes.int64)
    return pow_op(input, exponent)


def _pow_(self: Tensor, exponent: Tensor | Number) -> Tensor:
    """In-place form of `pow`."""
    _check_exponent("pow_", self, exponent)
    return INPLACE[prims.pow].apply((self, exponent))


def _power(self: Tensor, exponent: Any) -> Tensor:
    if not isinstance(exponent, OPERAND_TYPES) and not hasattr(exponent, "_meta"):
        return NotImplemented
    return pow(self, exponent)


def _reversed_power(self: Tensor, base: Any) -> Tensor:
    if not isinstance(base, OPERAND_TYPES) and not hasattr(base, "_meta"):
        return NotImplemented
    return pow_op(base, self)


extend_tensor("pow_", _pow_)
extend_tensor("__pow__", _power)
extend_tensor("__rpow__", _reversed_power)
extend_tensor("__ipow__", _pow_)


@function(out=POINTWISE)
def float_power(input: Tensor | Number, exponent: Tensor | Number) -> Tensor:
    """Power in double precision, whatever the operands: `input.double() ** exponent`."""

    def is_complex(x: Any) -> bool:
        if x is None:
            raise TypeError("float_power: expected tensors or numbers, got NoneType")
        return x.dtype.is_complex if hasattr(x, "_meta") else isinstance(x, complex)

    wide = dtypes.complex128 if is_complex(input) or is_complex(exponent) else dtypes.float64
    return pow_op(*[x.to(wide) if hasattr(x, "_meta") else wide.numpy.type(x).item() for x in (input, exponent)])


def _float_power_(self: Tensor, exponent: Tensor | Number) -> Tensor:
    """In-place form of `float_power`; RuntimeError unless the tensor has double precision."""
    result = float_power(self, exponent)
    if self.dtype is not result.dtype:
        raise RuntimeError(
            f"float_power_: the tensor has dtype {self.dtype.name}, the result {result.dtype.name}; "
            "use float_power() without underscore"
        )
    return store("float_power_", self, result)


extend_tensor("float_power_", _float_power_)


@function(inplace=True)
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """The number with the given significand and binary exponent: `input * 2 ** other`."""
    check_tensors(pow_op.op, (input, other), ("input", "exponent"))
    result = input * pow_op(2.0, other)
    return result if other.dtype.is_inexact or not input.dtype.is_inexact else result.to(input.dtype)


export("ldexp_", Tensor.ldexp_)


def _infer_frexp(input: Meta) -> tuple[Meta, Meta]:
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"frexp: only floating-point tensors have a significand, got {input.dtype.name}")
    strides = strides_for("frexp", input, preserve_format)
    return tuple([meta(kind, input.shape, strides, input.device) for kind in (input.dtype, dtypes.int32)])


frexp_op = structured(
    "frexp",
    _infer_frexp,
    errors=lambda: [ErrorSample((np.arange(3),), (), RuntimeError, "floating-point")],
    doc="Significand in [0.5, 1) and binary exponent.",
    samples=lambda: [Sample((np.array([0.75, -3.0, 0.0, 1e-3], np.float32),))],
    reference=np.frexp,
)


@kernel(frexp_op, "cpu")
def _frexp(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    wide = x if x.dtype.kind == "f" and x.dtype.itemsize > 2 else x.astype(np.float32)
    significand, exponent = np.frexp(wide)
    return significand.astype(x.dtype, copy=False), exponent


@function()
def frexp(input: Tensor) -> Any:
    """Significand and exponent of each element: `input = mantissa * 2 ** exponent`, `0.5 <= abs(mantissa) < 1`.

    Returns a named tuple (mantissa, exponent). Raises RuntimeError for tensors that are not floating-point.
    """
    return named("frexp", frexp_op(input))
