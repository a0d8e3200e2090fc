"""Gradients of magnitude and sign."""

from rushlight.autograd.rules.registry import conj, nondifferentiable, vjp
from rushlight.autograd.rules.rounding import zeros
from rushlight.ops import prims
from rushlight.ops.magnitude import sgn
from rushlight.ops.selection import where_op


def _sgn(g, input, ans):
    """Only the part of the gradient across the direction counts: moving along it does not turn it. 0 at 0."""
    if not input._meta.dtype.is_complex:
        return zeros(g)
    across = g - ans * (conj(ans) * g).real
    size = input.abs()
    zero = size == 0
    return where_op(zero, 0, across / where_op(zero, 1, size))


def _copysign(g, input, ans):
    zero = input == 0
    return where_op(zero, 0, g * (ans / where_op(zero, 1, input)))


vjp(prims.abs, input=lambda g, input: g * sgn(input))
vjp(prims.sign, input=zeros)
vjp(prims.sgn, input=_sgn)
vjp(prims.copysign, input=_copysign, other=zeros)
vjp(prims.nextafter, input=lambda g, input, other: where_op(input == other, 0, g), other=zeros)
nondifferentiable(prims.signbit, prims.heaviside)
