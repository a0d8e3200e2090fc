"""Gradients of powers and roots."""

import cmath
import math

from rushlight.autograd.rules.registry import conj, vjp
from rushlight.autograd.rules.rounding import zeros
from rushlight.ops import prims
from rushlight.ops.exponential import exp2
from rushlight.ops.power import pow, pow_op
from rushlight.ops.selection import where_op


def _is_tensor(x):
    return hasattr(x, "_meta")


def _pow_input(g, input, exponent):
    """`exponent * input ** (exponent - 1)`; 0 for exponent 0, also where `input` is 0."""
    if not _is_tensor(exponent):
        return zeros(g) if exponent == 0 else g * conj(exponent * pow(input, exponent - 1))
    return where_op(exponent == 0, 0, g * conj(exponent * pow_op(input, exponent - 1)))


def _pow_exponent(g, input, exponent, ans):
    """`ans * log(input)`; 0 where `input` is 0 and the exponent is not negative, the limit there."""
    if not _is_tensor(input):
        if input == 0:
            return where_op(exponent.real >= 0, 0, g * -math.inf)
        if ans._meta.dtype.is_complex:
            return g * conj(ans * cmath.log(input))
        return g * (ans * (math.log(input) if input > 0 else math.nan))
    real_exponent = exponent.real
    settled = (input == 0) & (real_exponent >= 0)
    return where_op(settled, 0, g * conj(ans * where_op(settled, 1, input).log()))


vjp(prims.square, input=lambda g, input: g * conj(input * 2))
vjp(prims.sqrt, input=lambda g, ans: g / conj(ans * 2))
vjp(prims.rsqrt, input=lambda g, ans: g * conj(ans * ans * ans) * -0.5)
vjp(prims.reciprocal, input=lambda g, ans: -g * conj(ans * ans))
vjp(prims.hypot, input=lambda g, input, ans: g * (input / ans), other=lambda g, other, ans: g * (other / ans))
vjp(prims.pow, input=_pow_input, exponent=_pow_exponent)
vjp(prims.frexp, input=lambda g0, ans1, input_meta: g0 / exp2(ans1.to(input_meta.dtype)))
