"""Gradients of rounding: zeros, except of the fraction."""

from rushlight.autograd.rules.registry import vjp
from rushlight.ops import prims

vjp(prims.floor, input=None)
vjp(prims.ceil, input=None)
vjp(prims.trunc, input=None)
vjp(prims.round, input=None)
vjp(prims.round_scaled, input=None, scale=None)
vjp(prims.round_coarse, input=None, scale=None)
vjp(prims.frac, input=lambda g: g)
