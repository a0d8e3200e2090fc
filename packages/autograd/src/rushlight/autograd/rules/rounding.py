"""Gradients of rounding: zeros, except of the fraction."""

from rushlight.autograd.memory import zeros_for
from rushlight.autograd.rules.batched import same
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.ops import prims


def zeros(g):
    """The gradient of a function that is constant between its steps: zeros, which still say that the result depends
    on the operand.
    """
    return zeros_for(g._meta)


vjp(prims.floor, input=zeros)
vjp(prims.ceil, input=zeros)
vjp(prims.trunc, input=zeros)
vjp(prims.round, input=zeros)
vjp(prims.round_scaled, input=zeros)
vjp(prims.round_coarse, input=zeros)
vjp(prims.frac, input=lambda g: g)

batch(prims.frexp, same)
