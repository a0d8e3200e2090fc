"""Gradients of losses that are operations of their own."""

from rushlight.autograd.rules.registry import vjp
from rushlight.ops import prims


def _by_input(g, input, target):
    """`(input - target) / (input (1 - input))`, in which the divisor is at least 1e-12: no NaN where a sigmoid has
    rounded to 0 or 1."""
    return g * ((input - target) / (input * (1 - input)).clamp(min=1e-12))


def _by_target(g, input):
    return g * ((-input).log1p().clamp(min=-100) - input.log().clamp(min=-100))


vjp(prims.binary_cross_entropy, input=_by_input, target=_by_target)
