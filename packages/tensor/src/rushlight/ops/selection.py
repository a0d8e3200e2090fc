"""Choosing between elements: where, clamp, maximum, minimum, nan_to_num."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core import scalar as s
from rushlight.core.declare import elementwise
from rushlight.core.front import export, extend_tensor, function
from rushlight.core.op import INPLACE
from rushlight.core.tensor import Tensor
from rushlight.ops.allocation import check_number
from rushlight.ops.arithmetic import Number
from rushlight.ops.create import full


@elementwise(numpy=np.where, tensors=("condition",), name="where", promote="where", method=False, public=False)
def where_op(condition, input, other):
    """`input` where the condition holds, else `other`."""
    return s.select(condition, input, other)


@function(method=False)
def where(condition: Tensor, input: Tensor | Number | None = None, other: Tensor | Number | None = None) -> Any:
    """`input` where the condition holds, else `other`; without them the indices where it holds.

    Shapes: all three broadcast. Raises RuntimeError for a condition that is neither bool nor uint8.

    Example:
        >>> import rushlight
        >>> x = rushlight.tensor([-1.0, 2.0])
        >>> rushlight.where(x > 0, x, 0.0)
        tensor([0., 2.])
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if condition.dtype is not dtypes.bool and condition.dtype is not dtypes.uint8:
        raise RuntimeError(
            f"where: expected condition to be a boolean tensor, got {condition.dtype.name}; compare it: condition != 0"
        )
    if not hasattr(input, "_meta") and not hasattr(other, "_meta"):
        number = type(input) if type(input) is type(other) else type(input + other)
        input = full((), input, dtype=dtypes.number_dtype(number), device=condition.device)
    elif type(other) is int and not input.dtype.is_inexact:
        check_number(other, input.dtype.numpy)
    elif type(input) is int and not other.dtype.is_inexact:
        check_number(input, other.dtype.numpy)
    return where_op(condition, input, other)


def _where_method(self: Tensor, condition: Tensor, other: Tensor | Number) -> Tensor:
    """This tensor where the condition holds, else `other`."""
    return where(condition, self, other)


extend_tensor("where", _where_method)


@elementwise(numpy=np.maximum, tensors=("input", "other"), supports="real")
def maximum(input, other):
    """The larger one of each pair; NaN if one is NaN.

    Example:
        >>> import rushlight
        >>> rushlight.maximum(rushlight.tensor([1, 4]), rushlight.tensor([3, 2]))
        tensor([3, 4])
    """
    return s.maximum(input, other)


@elementwise(numpy=np.minimum, tensors=("input", "other"), supports="real")
def minimum(input, other):
    """The smaller one of each pair; NaN if one is NaN."""
    return s.minimum(input, other)


@elementwise(numpy=np.fmax, tensors=("input", "other"), supports="real", inplace=False)
def fmax(input, other):
    """The larger one of each pair; a NaN gives way to a number."""
    return s.fmax(input, other)


@elementwise(numpy=np.fmin, tensors=("input", "other"), supports="real", inplace=False)
def fmin(input, other):
    """The smaller one of each pair; a NaN gives way to a number."""
    return s.fmin(input, other)


@elementwise(numpy=np.maximum, name="clamp_min", method=False, public=False, supports="real")
def clamp_min_op(input, min):
    """Each element, but at least `min`."""
    return s.maximum(input, min)


@elementwise(numpy=np.minimum, name="clamp_max", method=False, public=False, supports="real")
def clamp_max_op(input, max):
    """Each element, but at most `max`."""
    return s.minimum(input, max)


def _clamp(x: Any, low: Any, high: Any) -> Any:
    return np.minimum(np.maximum(x, low), high)


@elementwise(numpy=_clamp, name="clamp", method=False, public=False, supports="real")
def clamp_op(input, min, max):
    """Each element, but at least `min` and at most `max`."""
    return s.minimum(s.maximum(input, min), max)


def bounds(
    name: str, input: Tensor, min: Tensor | Number | None, max: Tensor | Number | None
) -> tuple[Tensor | Number | None, Tensor | Number | None]:
    """The bounds of a tensor of integers as its dtype holds them: those outside its range on their own side do nothing.

    Raises RuntimeError where no number of the dtype is within the bounds.
    """
    if input.dtype.is_inexact or input.dtype is dtypes.bool:
        return min, max
    info = dtypes.iinfo(input.dtype)
    if type(min) is int and not 0 <= min <= 127 and not hasattr(max, "_meta"):
        if min > info.max:
            raise RuntimeError(f"{name}: min {min} is greater than all numbers of {input.dtype.name}; convert input")
        min = builtins.max(min, info.min)
    if type(max) is int and not 0 <= max <= 127 and not hasattr(min, "_meta"):
        if max < info.min:
            raise RuntimeError(f"{name}: max {max} is less than all numbers of {input.dtype.name}; convert input")
        max = builtins.min(max, info.max)
    return min, max


def _bounded(input: Tensor, min: Tensor | Number | None, max: Tensor | Number | None) -> tuple[Any, tuple]:
    """The op for the bounds that are given, and these as the input takes them."""
    if max is None:
        if min is None:
            raise RuntimeError("clamp: at least one of 'min' or 'max' must not be None")
        return clamp_min_op, (bounds("clamp", input, min, None)[0],)
    min, max = bounds("clamp", input, min, max)
    return (clamp_max_op, (max,)) if min is None else (clamp_op, (min, max))


@function(aliases=("clip",))
def clamp(input: Tensor, min: Tensor | Number | None = None, max: Tensor | Number | None = None) -> Tensor:
    """Each element, but at least `min` and at most `max`; `max` where `min > max`. NaN stays.

    Shapes: tensor bounds broadcast with the input. Raises RuntimeError when both bounds are None.

    Example:
        >>> import rushlight
        >>> rushlight.clamp(rushlight.tensor([-2.0, 0.5, 2.0]), -1, 1)
        tensor([-1.0000,  0.5000,  1.0000])
    """
    op, given = _bounded(input, min, max)
    return op(input, *given)


@function()
def clamp_min(input: Tensor, min: Tensor | Number) -> Tensor:
    """Each element, but at least `min`."""
    return clamp_min_op(input, bounds("clamp_min", input, min, None)[0])


@function()
def clamp_max(input: Tensor, max: Tensor | Number) -> Tensor:
    """Each element, but at most `max`."""
    return clamp_max_op(input, bounds("clamp_max", input, None, max)[1])


def _clamp_(self: Tensor, min: Tensor | Number | None = None, max: Tensor | Number | None = None) -> Tensor:
    """In-place form of `clamp`."""
    op, given = _bounded(self, min, max)
    return INPLACE[op.op].apply((self, *given))


def _clamp_min_(self: Tensor, min: Tensor | Number) -> Tensor:
    """In-place form of `clamp_min`."""
    return INPLACE[clamp_min_op.op].apply((self, bounds("clamp_min_", self, min, None)[0]))


def _clamp_max_(self: Tensor, max: Tensor | Number) -> Tensor:
    """In-place form of `clamp_max`."""
    return INPLACE[clamp_max_op.op].apply((self, bounds("clamp_max_", self, None, max)[1]))


for _name, _inplace in (
    ("clamp_", _clamp_),
    ("clip_", _clamp_),
    ("clamp_min_", _clamp_min_),
    ("clamp_max_", _clamp_max_),
):
    extend_tensor(_name, _inplace)
    export(_name, _inplace)


def _nan_to_num(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    if np.iscomplexobj(x):
        return nan_to_num_op.op.scalar(x, nan, posinf, neginf)
    return np.where(x == np.inf, posinf, np.where(x == -np.inf, neginf, np.where(np.isnan(x), nan, x)))


@elementwise(numpy=_nan_to_num, method=False, public=False, name="nan_to_num", supports="inexact")
def nan_to_num_op(input, nan, posinf, neginf):
    """NaN and the infinities replaced."""
    if s.is_complex(input):
        parts = [
            _replaced(s.real(input), s.real(nan), s.real(posinf), s.real(neginf)),
            _replaced(s.imag(input), s.real(nan), s.real(posinf), s.real(neginf)),
        ]
        return s.complex(*parts)
    return _replaced(input, nan, posinf, neginf)


def _replaced(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    bounded = s.select(x == float("inf"), posinf, s.select(x == float("-inf"), neginf, x))
    return s.select(s.isnan(x), nan, bounded)


@function(inplace=True)
def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """NaN replaced by `nan` (0), the infinities by `posinf` and `neginf` (by default the largest finite numbers).

    Example:
        >>> import rushlight
        >>> rushlight.nan_to_num(rushlight.tensor([float("nan"), float("-inf"), 1.0]), neginf=-9.0)
        tensor([ 0., -9.,  1.])
    """
    if not input.dtype.is_inexact:
        return input.clone()
    largest = dtypes.largest(input.dtype)
    return nan_to_num_op(
        input,
        0.0 if nan is None else float(nan),
        largest if posinf is None else float(posinf),
        -largest if neginf is None else float(neginf),
    )


export("nan_to_num_", Tensor.nan_to_num_)
