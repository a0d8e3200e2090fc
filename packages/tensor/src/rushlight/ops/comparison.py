"""Comparisons and tests of single elements."""

from __future__ import annotations

import numpy as np

from rushlight.core import dtypes
from rushlight.core import scalar as s
from rushlight.core.declare import elementwise
from rushlight.core.front import check_tensors, function
from rushlight.core.tensor import Tensor


@elementwise(numpy=np.equal, promote="bool", operator="eq")
def eq(input, other):
    """Is each element equal to the other one? `input == other`.

    Example:
        >>> import rushlight
        >>> rushlight.eq(rushlight.tensor([1, 2]), 2)
        tensor([False,  True])
    """
    return input == other


@elementwise(numpy=np.not_equal, promote="bool", operator="ne", aliases=("not_equal",))
def ne(input, other):
    """Does each element differ from the other one? `input != other`."""
    return input != other


@elementwise(numpy=np.less, promote="bool", operator="lt", aliases=("less",), supports="real")
def lt(input, other):
    """Is each element below the other one? `input < other`."""
    return input < other


@elementwise(numpy=np.less_equal, promote="bool", operator="le", aliases=("less_equal",), supports="real")
def le(input, other):
    """Is each element at most the other one? `input <= other`."""
    return input <= other


@elementwise(numpy=np.greater, promote="bool", operator="gt", aliases=("greater",), supports="real")
def gt(input, other):
    """Is each element above the other one? `input > other`."""
    return input > other


@elementwise(numpy=np.greater_equal, promote="bool", operator="ge", aliases=("greater_equal",), supports="real")
def ge(input, other):
    """Is each element at least the other one? `input >= other`."""
    return input >= other


@elementwise(numpy=np.isnan, promote="bool", inplace=False)
def isnan(input):
    """Is each element NaN? Of a complex number: one of its parts.

    Example:
        >>> import rushlight
        >>> rushlight.isnan(rushlight.tensor([1.0, rushlight.nan]))
        tensor([False,  True])
    """
    return s.isnan(input)


@elementwise(numpy=np.isinf, promote="bool", inplace=False)
def isinf(input):
    """Is each element infinite? Of a complex number: one of its parts."""
    return s.isinf(input)


@elementwise(numpy=np.isfinite, promote="bool", inplace=False)
def isfinite(input):
    """Is each element neither infinite nor NaN?"""
    return s.isfinite(input)


@elementwise(promote="bool", supports="real", inplace=False)
def isposinf(input):
    """Is each element positive infinity?"""
    return input == float("inf") if s.is_floating(input) else input != input


@elementwise(promote="bool", supports="real", inplace=False)
def isneginf(input):
    """Is each element negative infinity?"""
    return input == float("-inf") if s.is_floating(input) else input != input


@elementwise(promote="bool", inplace=False)
def isreal(input):
    """Has each element no imaginary part?"""
    return s.imag(input) == 0 if s.is_complex(input) else s.logical_or(input == 0, input != 0) | (input != input)


@function(out=False)
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Is each element near the other one? `abs(input - other) <= atol + rtol * abs(other)`.

    Infinities are near only themselves. NaN is near NaN if `equal_nan`. Raises RuntimeError for tensors of different
    dtypes or negative tolerances.

    Example:
        >>> import rushlight
        >>> rushlight.isclose(rushlight.tensor([1.0, 2.0]), rushlight.tensor([1.0, 2.1]))
        tensor([ True, False])
    """
    check_tensors(eq.op, (input, other), ("input", "other"))
    if input.dtype is not other.dtype:
        raise RuntimeError(
            f"isclose: input has dtype {input.dtype.name} and other {other.dtype.name}; convert one with .to(dtype)"
        )
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"isclose: rtol and atol must not be negative, got {rtol} and {atol}")
    close = input == other
    if equal_nan and input.dtype.is_inexact:
        close = close | (isnan(input) & isnan(other))
    if rtol == 0 and atol == 0:
        return close
    if not input.dtype.is_inexact:
        input, other = input.to(dtypes.float64), other.to(dtypes.float64)
    difference = (input - other).abs()
    return close | (isfinite(difference) & (difference <= atol + (rtol * other).abs()))


@function(out=False)
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Are all elements near each other, as `isclose` says?

    Example:
        >>> import rushlight
        >>> rushlight.allclose(rushlight.tensor([1.0]), rushlight.tensor([1.0 + 1e-7]))
        True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@function(out=False)
def equal(input: Tensor, other: Tensor) -> bool:
    """Have two tensors the same shape and equal elements?

    Raises RuntimeError for tensors on different devices.
    """
    if input._meta is other._meta:
        return bool(eq(input, other).all())
    if input.device != other.device:
        raise RuntimeError(f"equal: expected all tensors on one device, got {input.device} and {other.device}")
    return input.shape == other.shape and bool(eq(input, other).all())
