"""Comparisons, logic and integer arithmetic: nothing to differentiate."""

from rushlight.autograd.rules.registry import nondifferentiable
from rushlight.ops import prims

nondifferentiable(prims.eq, prims.ne, prims.lt, prims.le, prims.gt, prims.ge)
nondifferentiable(prims.isnan, prims.isinf, prims.isfinite, prims.isposinf, prims.isneginf, prims.isreal)
nondifferentiable(prims.logical_and, prims.logical_or, prims.logical_xor, prims.logical_not)
nondifferentiable(prims.bitwise_and, prims.bitwise_or, prims.bitwise_xor, prims.bitwise_not)
nondifferentiable(prims.bitwise_left_shift, prims.bitwise_right_shift, prims.gcd, prims.lcm)
