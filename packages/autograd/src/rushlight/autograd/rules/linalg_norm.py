"""Gradients of norms."""

import math

from rushlight.autograd.rules.reduction import spread
from rushlight.autograd.rules.registry import vjp
from rushlight.ops.linalg_norm import vector_norm_op


def _vector_norm(g, input, ans, dim, keepdim, ord):
    meta = input._meta
    if ord == 0:
        return None
    if ord == 2:
        zero = ans == 0  # no 0 / 0, not even where it is thrown away: its derivative would be one as well
        return input * spread((g / ans.masked_fill(zero, 1)).masked_fill(zero, 0), meta, dim, keepdim)
    g, ans = (spread(x, meta, dim, keepdim) for x in (g, ans))
    if ord == 1:
        return input.sgn() * g
    if math.isinf(ord):
        hits = input.abs() == ans
        shares = hits.sum(dim, keepdim=True)
        return input.sgn() * (g / shares).masked_fill(~hits, 0)
    if ord < 2:
        size = input.abs()
        scale = (size ** (ord - 1)).masked_fill(size == 0, 0)
        return input.sgn() * scale * g * _power(ans, 1 - ord)
    return input * input.abs() ** (ord - 2) * g * _power(ans, 1 - ord)


def _power(norm, exponent):
    """A negative power of a norm; 0 where the norm is 0."""
    zero = norm == 0
    return (norm.masked_fill(zero, 1) ** exponent).masked_fill(zero, 0)


vjp(vector_norm_op, input=_vector_norm)
