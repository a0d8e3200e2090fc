"""Rounding to integers and to decimals."""

from __future__ import annotations

import numpy as np

from rushlight.core import scalar as s
from rushlight.core.declare import elementwise
from rushlight.core.front import export, function
from rushlight.core.tensor import Tensor


@elementwise(numpy=np.floor, supports="real_number")
def floor(input):
    """The largest integer not above each element, as a number of the same dtype.

    Example:
        >>> import rushlight
        >>> rushlight.floor(rushlight.tensor([-1.5, 1.5]))
        tensor([-2.,  1.])
    """
    return s.floor(input) if s.is_floating(input) else input


@elementwise(numpy=np.ceil, supports="real_number")
def ceil(input):
    """The smallest integer not below each element, as a number of the same dtype."""
    return s.ceil(input) if s.is_floating(input) else input


@elementwise(numpy=np.trunc, supports="real_number", aliases=("fix",))
def trunc(input):
    """Each element without its fraction: rounded towards zero."""
    return s.trunc(input) if s.is_floating(input) else input


@elementwise(supports="float")
def frac(input):
    """The fraction of each element, with its sign: `input - trunc(input)`."""
    return input - s.trunc(input)


@elementwise(numpy=np.rint, name="round", method=False, public=False, supports="float")
def round_op(input):
    """The nearest integer, ties to even."""
    return s.rint(input)


@elementwise(method=False, public=False, supports="float")
def round_scaled(input, scale):
    """Rounded to a multiple of `1 / scale`, ties to even."""
    return s.rint(input * scale) / scale


@elementwise(method=False, public=False, supports="float")
def round_coarse(input, scale):
    """Rounded to a multiple of `scale`, ties to even."""
    return s.rint(input / scale) * scale


@function(inplace=True)
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """Each element rounded to `decimals` decimal places (to tens, hundreds... when negative), ties to even.

    Example:
        >>> import rushlight
        >>> rushlight.round(rushlight.tensor([0.5, 1.5, -2.7]))
        tensor([ 0.,  2., -3.])
    """
    if input.dtype.category == 1 and decimals >= 0:
        return input.clone()
    if decimals == 0:
        return round_op(input)
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"round: decimals={decimals} needs a floating-point tensor, got {input.dtype.name}")
    return round_scaled(input, 10.0**decimals) if decimals > 0 else round_coarse(input, 10.0**-decimals)


export("round_", Tensor.round_)
