"""Magnitude and sign: abs, sign, sgn, signbit, copysign, nextafter, heaviside."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.core.declare import elementwise
from rushlight.core.front import extend_tensor


@elementwise(numpy=np.abs, name="abs", promote="real", aliases=("absolute",))
def abs(input):
    """Magnitude of each element; of a complex number its modulus, which is real.

    Example:
        >>> import rushlight
        >>> rushlight.abs(rushlight.tensor([-1, 2]))
        tensor([1, 2])
    """
    return s.abs(input)


extend_tensor("__abs__", abs)


def _sign(x: Any) -> Any:
    if x.dtype.kind == "f":
        one, zero = x.dtype.type(1), x.dtype.type(0)
        return np.where(x > 0, one, np.where(x < 0, -one, zero))
    return x if x.dtype.kind == "b" else np.subtract(x > 0, x < 0, dtype=x.dtype)


@elementwise(numpy=_sign, supports="real")
def sign(input):
    """-1, 0 or 1 by the sign of each element; 0 for NaN. Raises RuntimeError for complex tensors: use `sgn`."""
    return input if s.is_bool(input) else s.sign(input)


@elementwise()
def sgn(input):
    """The direction of each element: `input / abs(input)`, 0 at 0. For real tensors the same as `sign`."""
    if s.is_bool(input):
        return input
    if not s.is_complex(input):
        return s.sign(input)
    size = s.abs(input)
    zero = size == 0
    return s.select(
        zero, s.constant(0, input), input / s.cast(s.select(zero, s.constant(1, size), size), s.dtype_of(input))
    )


@elementwise(promote="bool", supports="real", inplace=False)
def signbit(input):
    """Is the sign bit set? True for negative numbers and for -0.0."""
    return s.signbit(input)


@elementwise(numpy=np.copysign, promote="float", supports="float")
def copysign(input, other):
    """The magnitude of `input` with the sign of `other`.

    Example:
        >>> import rushlight
        >>> rushlight.copysign(rushlight.tensor([1.0, 2.0]), -0.0)
        tensor([-1., -2.])
    """
    return s.copysign(input, other)


@elementwise(numpy=np.nextafter, tensors=("input", "other"), supports="float")
def nextafter(input, other):
    """The next number after each element on the way to `other`; itself where they are equal."""
    return s.nextafter(input, other)


@elementwise(tensors=("input", "values"), supports="real")
def heaviside(input, values):
    """The step function: 0 below zero, 1 above, `values` at zero, NaN for NaN."""
    if s.is_bool(input):
        return input | values
    step = s.cast(input > 0, s.dtype_of(input))
    return s.select(input == 0, values, step)
