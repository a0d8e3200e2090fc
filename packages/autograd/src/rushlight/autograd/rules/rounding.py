"""Gradients of rounding: zeros, except of the fraction."""

from rushlight.autograd.rules.registry import vjp
from rushlight.ops import prims
from rushlight.ops.create import filled


def zeros(g):
    """The gradient of a function that is constant between its steps: zeros, which still say that the result depends
    on the operand.
    """
    m = g._meta
    return filled(m.shape, 0, m.dtype, m.device)


vjp(prims.floor, input=zeros)
vjp(prims.ceil, input=zeros)
vjp(prims.trunc, input=zeros)
vjp(prims.round, input=zeros)
vjp(prims.round_scaled, input=zeros)
vjp(prims.round_coarse, input=zeros)
vjp(prims.frac, input=lambda g: g)
