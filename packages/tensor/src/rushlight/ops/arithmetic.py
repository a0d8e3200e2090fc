"""Arithmetic: add, sub, mul, div and their like."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.declare import elementwise
from rushlight.core.front import extend_tensor, function
from rushlight.core.op import INPLACE, prims
from rushlight.core.tensor import Tensor

Number = bool | int | float | complex


@elementwise(numpy=np.add, operator="add", method=False, public=False)
def add(input, other):
    """Sum of two tensors, element by element: `input + other`."""
    return input + other


@elementwise(numpy=np.subtract, operator="sub", method=False, public=False, supports="number")
def sub(input, other):
    """Difference of two tensors, element by element: `input - other`."""
    return input - other


@elementwise(numpy=np.multiply, operator="mul", aliases=("multiply",))
def mul(input, other):
    """Product of two tensors, element by element, with broadcasting: `input * other`.

    Shapes: `(*a)`, `(*b)` -> the broadcast of both. Raises RuntimeError when they do not broadcast.

    Example:
        >>> import rushlight
        >>> rushlight.mul(rushlight.tensor([1, 2]), 3)
        tensor([3, 6])
    """
    return input * other


@elementwise(numpy=np.true_divide, promote="float", operator="truediv", method=False, public=False)
def true_divide(input, other):
    """Quotient of two tensors, element by element; integers divide to floating point."""
    return input / other


@elementwise(numpy=np.negative, operator="neg", aliases=("negative",), supports="number")
def neg(input):
    """Each element with its sign flipped: `-input`. Raises RuntimeError for bool tensors."""
    return -input


def _scaled(name: str, other: Any, alpha: Number) -> Any:
    """`alpha * other`, for the functions with an `alpha`."""
    if alpha is not True and type(alpha) is int and alpha == 1:
        return other
    floating = other.dtype.is_inexact if isinstance(other, Tensor) else isinstance(other, (float, complex))
    if isinstance(alpha, (float, complex)) and not floating:
        raise RuntimeError(f"{name}: alpha must be an integer when other has no fractions, got {alpha!r}")
    return other * alpha


@function(name="add")
def _add(input: Tensor | Number, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """Sum of two tensors, element by element: `input + alpha * other`.

    Shapes: `(*a)`, `(*b)` -> the broadcast of both. Raises RuntimeError when they do not broadcast.

    Example:
        >>> import rushlight
        >>> rushlight.add(rushlight.tensor([1, 2]), 3, alpha=2)
        tensor([7, 8])
    """
    return add(input, _scaled("add", other, alpha))


@function(name="sub", aliases=("subtract",))
def _sub(input: Tensor | Number, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """Difference of two tensors, element by element: `input - alpha * other`.

    Shapes: `(*a)`, `(*b)` -> the broadcast of both. Raises RuntimeError when they do not broadcast, or for bool tensors.
    """
    return sub(input, _scaled("sub", other, alpha))


def _add_(self: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """In-place form of `add`."""
    return INPLACE[prims.add].apply((self, _scaled("add_", other, alpha)))


def _sub_(self: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """In-place form of `sub`."""
    return INPLACE[prims.sub].apply((self, _scaled("sub_", other, alpha)))


extend_tensor("add_", _add_)
extend_tensor("sub_", _sub_)
extend_tensor("subtract_", _sub_)
