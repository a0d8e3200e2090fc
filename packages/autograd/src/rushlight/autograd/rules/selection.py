"""Gradients of choosing between elements. At ties maximum and minimum share, clamp passes."""

from rushlight.autograd.rules.registry import vjp
from rushlight.ops import prims
from rushlight.ops.comparison import isfinite, isnan
from rushlight.ops.selection import where_op


def _winner(lost):
    """The gradient of one side of maximum or minimum: nothing where it lost, half of it in a tie."""

    def input(g, input, other):
        return where_op(lost(input, other), 0, where_op(input == other, g / 2, g))

    def other(g, input, other):
        return where_op(lost(other, input), 0, where_op(input == other, g / 2, g))

    return {"input": input, "other": other}


def _clamp_input(g, input, min, max):
    return where_op((input >= min) & (input <= max), g, 0)


def _clamp_min(g, input, min, max):
    below = input < min
    return where_op(below & (min < max) if hasattr(min, "_meta") or hasattr(max, "_meta") else below, g, 0)


def _clamp_max(g, input, min, max):
    above = input > max
    return where_op(above | (max < min) if hasattr(min, "_meta") or hasattr(max, "_meta") else above, g, 0)


vjp(
    prims.where,
    linear="input other",
    input=lambda g, condition: where_op(condition, g, 0),
    other=lambda g, condition: where_op(condition, 0, g),
)
vjp(prims.maximum, **_winner(lambda a, b: a < b))
vjp(prims.minimum, **_winner(lambda a, b: a > b))
vjp(
    prims.fmax,
    input=lambda g, input, other: where_op((input >= other) | isnan(other), g, 0),
    other=lambda g, input, other: where_op((input >= other) | isnan(other), 0, g),
)
vjp(
    prims.fmin,
    input=lambda g, input, other: where_op((input <= other) | isnan(other), g, 0),
    other=lambda g, input, other: where_op((input <= other) | isnan(other), 0, g),
)
vjp(prims.clamp, input=_clamp_input, min=_clamp_min, max=_clamp_max)
vjp(
    prims.clamp_min,
    input=lambda g, input, min: where_op(input >= min, g, 0),
    min=lambda g, input, min: where_op(input < min, g, 0),
)
vjp(
    prims.clamp_max,
    input=lambda g, input, max: where_op(input <= max, g, 0),
    max=lambda g, input, max: where_op(input > max, g, 0),
)
vjp(prims.nan_to_num, input=lambda g, input: where_op(isfinite(input), g, 0))
