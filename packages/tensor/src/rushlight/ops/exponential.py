"""Exponentials and logarithms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.core.declare import elementwise

_LN2 = math.log(2.0)


@elementwise(numpy=np.exp, promote="float", domain=(-10.0, 10.0))
def exp(input):
    """Exponential of each element: `e ** input`.

    Example:
        >>> import rushlight
        >>> rushlight.exp(rushlight.tensor([0.0, 1.0]))
        tensor([1.0000, 2.7183])
    """
    return s.exp(input)


@elementwise(promote="float", domain=(-10.0, 10.0))
def exp2(input):
    """Two to the power of each element: `2 ** input`."""
    if s.is_complex(input):  # part by part: infinity times a complex factor would be NaN
        return s.exp(s.complex(s.real(input) * _LN2, s.imag(input) * _LN2))
    return s.exp2(input)


@elementwise(numpy=np.expm1, promote="float", domain=(-10.0, 10.0))
def expm1(input):
    """Exponential minus one, without cancellation near zero: `e ** input - 1`."""
    return s.expm1(input)


@elementwise(numpy=np.log, promote="float", domain=(0.0, 100.0))
def log(input):
    """Natural logarithm of each element; NaN for negative real numbers, -inf at 0.

    Example:
        >>> import rushlight
        >>> rushlight.log(rushlight.tensor([1.0, 10.0]))
        tensor([0.0000, 2.3026])
    """
    return s.log(input)


@elementwise(numpy=np.log2, promote="float", domain=(0.0, 100.0))
def log2(input):
    """Logarithm to base 2 of each element."""
    return s.log2(input)


@elementwise(numpy=np.log10, promote="float", domain=(0.0, 100.0))
def log10(input):
    """Logarithm to base 10 of each element."""
    return s.log10(input)


@elementwise(numpy=np.log1p, promote="float", domain=(-1.0, 100.0))
def log1p(input):
    """Logarithm of one plus each element, without cancellation near zero: `log(1 + input)`."""
    return s.log1p(input)


def _logaddexp(a: Any, b: Any) -> Any:
    return logaddexp.op.scalar(a, b) if a.dtype.kind == "c" else np.logaddexp(a, b)


@elementwise(numpy=_logaddexp, tensors=("input", "other"), promote="float")
def logaddexp(input, other):
    """Logarithm of a sum of exponentials: `log(exp(input) + exp(other))`, without overflow."""
    if s.is_complex(input):
        first = s.real(input) >= s.real(other)
        top, low = s.select(first, input, other), s.select(first, other, input)
        return s.select(s.real(low) == -math.inf, top, top + s.log1p(s.exp(low - top)))
    top = s.maximum(input, other)
    same = input == other  # the difference of equal infinities is NaN
    gap = s.select(same, s.constant(0.0, input), -s.abs(input - other))
    return top + s.log1p(s.exp(gap))


@elementwise(numpy=np.logaddexp2, tensors=("input", "other"), promote="float", supports="float")
def logaddexp2(input, other):
    """Logarithm to base 2 of a sum of powers of two: `log2(2**input + 2**other)`, without overflow."""
    top = s.maximum(input, other)
    gap = s.select(input == other, s.constant(0.0, input), -s.abs(input - other))
    return top + s.log1p(s.exp2(gap)) * (1.0 / _LN2)
