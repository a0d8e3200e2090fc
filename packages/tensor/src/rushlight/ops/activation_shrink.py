"""Activation functions that cut: threshold, softshrink and hardshrink."""

from __future__ import annotations

from rushlight.core import scalar as s
from rushlight.core.declare import elementwise
from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops.activation import F, check_inexact, export_inplace, run
from rushlight.ops.allocation import check_number
from rushlight.ops.arithmetic import Number


@elementwise(method=False, public=False, supports="real_number", name="threshold")
def threshold_op(input, threshold, value):
    """`input` above the threshold, else `value`."""
    return s.select(input <= threshold, value, input)


def _threshold(input: Tensor, threshold: Number, value: Number, inplace: bool) -> Tensor:
    if not input.dtype.is_inexact:
        threshold, value = int(threshold), int(value)
        for number in (threshold, value):
            check_number(number, input.dtype.numpy)
    return run(threshold_op, inplace, input, threshold, value)


@function(inplace=True, method=False)
def threshold(input: Tensor, threshold: Number, value: Number) -> Tensor:
    """Each element that is above `threshold`, else `value`.

    Example:
        >>> import rushlight
        >>> rushlight.threshold(rushlight.tensor([0.5, 2.0]), 1.0, 9.0)
        tensor([9., 2.])
    """
    return _threshold(input, threshold, value, False)


@function(name="threshold", namespace=F, method=False, out=False)
def _threshold_functional(input: Tensor, threshold: Number, value: Number, inplace: bool = False) -> Tensor:
    """Each element that is above `threshold`, else `value`; `inplace` overwrites the input."""
    return _threshold(input, threshold, value, inplace)


export_inplace("threshold_", _threshold_functional, F, "")


@elementwise(method=False, public=False, supports="float", name="softshrink")
def softshrink_op(input, lambd):
    """Each element moved towards zero by `lambd`, to zero if it is nearer."""
    return s.select(input > lambd, input - lambd, s.select(input < -lambd, input + lambd, input * 0))


@function(namespace=F, method=False)
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Each element moved towards zero by `lambd`, to zero if it is nearer.

    Raises RuntimeError for a negative `lambd`.
    """
    check_inexact("softshrink", input)
    if not lambd >= 0:
        raise RuntimeError(f"softshrink: lambda must be greater or equal to 0, got {lambd}")
    return softshrink_op(input, lambd)


@elementwise(method=False, public=False, supports="float", name="hardshrink")
def hardshrink_op(input, lambd):
    """Each element farther than `lambd` from zero, else 0."""
    return s.select(s.abs(input) <= lambd, s.constant(0, input), input)


@function()
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Each element that is farther than `lambd` from zero, else 0."""
    check_inexact("hardshrink", input)
    return hardshrink_op(input, lambd)
