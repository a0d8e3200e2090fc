"""Gradients of arithmetic."""

from rushlight.autograd.rules.registry import conj, vjp
from rushlight.ops import prims

vjp(prims.add, input=lambda g: g, other=lambda g: g)
vjp(prims.sub, input=lambda g: g, other=lambda g: -g)
vjp(prims.mul, input=lambda g, other: g * conj(other), other=lambda g, input: g * conj(input))
vjp(prims.true_divide, input=lambda g, other: g / conj(other), other=lambda g, other, ans: -g * conj(ans / other))
vjp(prims.neg, input=lambda g: -g)
