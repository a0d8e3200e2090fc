"""Logic and integers: logical_*, bitwise_*, shifts, gcd, lcm."""

from __future__ import annotations

import numpy as np

from rushlight.core import scalar as s
from rushlight.core.declare import elementwise
from rushlight.core.front import export
from rushlight.core.tensor import Tensor


@elementwise(numpy=np.logical_and, tensors=("input", "other"), promote="bool")
def logical_and(input, other):
    """Are both elements nonzero?"""
    return s.logical_and(input, other)


@elementwise(numpy=np.logical_or, tensors=("input", "other"), promote="bool")
def logical_or(input, other):
    """Is one of both elements nonzero?"""
    return s.logical_or(input, other)


@elementwise(numpy=np.logical_xor, tensors=("input", "other"), promote="bool")
def logical_xor(input, other):
    """Is exactly one of both elements nonzero?"""
    return s.logical_xor(input, other)


@elementwise(numpy=np.logical_not, promote="bool")
def logical_not(input):
    """Is each element zero?

    Example:
        >>> import rushlight
        >>> rushlight.logical_not(rushlight.tensor([0, 3]))
        tensor([ True, False])
    """
    return s.logical_not(input)


@elementwise(numpy=np.bitwise_and, tensors=(), operator="and", supports="integral")
def bitwise_and(input, other):
    """Bits set in both: `input & other`; for bools logical and. Raises RuntimeError for floating point."""
    return input & other


@elementwise(numpy=np.bitwise_or, tensors=(), operator="or", supports="integral")
def bitwise_or(input, other):
    """Bits set in one of both: `input | other`; for bools logical or. Raises RuntimeError for floating point."""
    return input | other


@elementwise(numpy=np.bitwise_xor, tensors=(), operator="xor", supports="integral")
def bitwise_xor(input, other):
    """Bits set in exactly one: `input ^ other`; for bools exclusive or. Raises RuntimeError for floating point."""
    return input ^ other


@elementwise(numpy=np.invert, operator="invert", supports="integral")
def bitwise_not(input):
    """Every bit flipped: `~input`; for bools the negation. Raises RuntimeError for floating point."""
    return ~input


@elementwise(numpy=np.left_shift, tensors=(), operator="lshift", supports="integer")
def bitwise_left_shift(input, other):
    """Bits moved up by `other` places: `input << other`; 0 when all bits have left."""
    return s.left_shift(input, other)


@elementwise(numpy=np.right_shift, tensors=(), operator="rshift", supports="integer")
def bitwise_right_shift(input, other):
    """Bits moved down by `other` places, the sign kept: `input >> other`."""
    return s.right_shift(input, other)


@elementwise(numpy=np.gcd, tensors=("input", "other"), supports="integer")
def gcd(input, other):
    """Greatest common divisor of each pair, never negative.

    Example:
        >>> import rushlight
        >>> rushlight.gcd(rushlight.tensor([12, -18]), rushlight.tensor(8))
        tensor([4, 2])
    """
    return s.gcd(input, other)


@elementwise(numpy=np.lcm, tensors=("input", "other"), supports="integer")
def lcm(input, other):
    """Least common multiple of each pair, never negative; 0 if one of them is 0."""
    divisor = s.gcd(input, other)
    return s.abs(input // s.select(divisor == 0, s.constant(1, input), divisor) * other)


export("gcd_", Tensor.gcd_)
export("lcm_", Tensor.lcm_)
