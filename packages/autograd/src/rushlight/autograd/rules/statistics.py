"""Gradients of variance and standard deviation."""

import math

from rushlight.autograd.rules.reduction import kept
from rushlight.autograd.rules.registry import vjp
from rushlight.ops import prims
from rushlight.ops.reduction import count_along, mean
from rushlight.ops.selection import where_op


def _var(g, input, dim, keepdim, correction):
    shape = input._meta.shape
    freedom = count_along(shape, dim) - correction
    scale = 2 / freedom if freedom else math.inf
    center = mean(input, dim, True) if dim else input
    return kept(g, shape, dim, keepdim) * scale * (input - center)


def _std(g, input, ans, dim, keepdim, correction):
    flat = ans == 0
    return _var(where_op(flat, 0, g / (where_op(flat, 1, ans) * 2)), input, dim, keepdim, correction)


vjp(prims.var, input=_var)
vjp(prims.std, input=_std)
