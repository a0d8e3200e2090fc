"""Gradients of running reductions: linear recurrences in the other direction, so zeros and infinities need no
special care.
"""

import math

from rushlight.autograd.rules.batched import Case, Run, one_by_one, shift
from rushlight.autograd.rules.registry import batch, conj, nondifferentiable, vjp
from rushlight.ops import prims
from rushlight.ops.exponential import exp
from rushlight.ops.scan import affine_scan, cumsum_op, delay
from rushlight.ops.selection import where_op


def _cumsum(g, input_meta, dim, reverse):
    return cumsum_op(g, dim=dim, dtype=g._meta.dtype, reverse=not reverse).to(input_meta.dtype)


def _cumprod(g, input, ans, dim, reverse):
    """The product of the elements before, times the sum of what comes after: `s[k] = g[k] + input[k+1] * s[k+1]`."""
    values = conj(input.to(g._meta.dtype))
    others = delay(conj(ans), 1, dim=dim, reverse=reverse)
    factor = delay(values, 0, dim=dim, reverse=False) if reverse else values
    return (others * affine_scan(factor, g, dim=dim, reverse=not reverse)).to(input._meta.dtype)


def _logcumsumexp(g, input, ans, dim):
    """`exp(input - ans)` times `s[k] = g[k] + exp(ans[k] - ans[k+1]) * s[k+1]`: no exponent is above 0."""
    nothing = ans.real == -math.inf
    total = where_op(nothing, 0, ans)
    decay = where_op(
        delay(nothing, True, dim=dim, reverse=False), 0, exp(delay(total, 0, dim=dim, reverse=False) - total)
    )
    later = affine_scan(conj(decay), g, dim=dim, reverse=True)
    return where_op(nothing, 0, conj(exp(input - total)) * later)


def _affine_factor(g, factor, ans, dim, reverse):
    """The adjoint scan of the gradient meets the result one place before."""
    adjoint = affine_scan(conj(factor), g, dim=dim, reverse=not reverse)
    if reverse:
        return delay(adjoint, 0, dim=dim, reverse=False) * conj(ans)
    return adjoint * conj(delay(ans, 0, dim=dim, reverse=False))


vjp(prims.cumsum, linear="input", input=_cumsum)
vjp(prims.cumprod, input=_cumprod)
vjp(prims.logcumsumexp, input=_logcumsumexp)
vjp(
    prims.affine_scan,
    factor=_affine_factor,
    term=lambda g, factor, dim, reverse: affine_scan(conj(factor), g, dim=dim, reverse=not reverse),
)
vjp(prims.delay, linear="input fill", input=lambda g, dim, reverse: delay(g, 0, dim=dim, reverse=not reverse))
nondifferentiable(prims.cummax, prims.cummin)


def _batched_delay(case: Case) -> Run:
    return one_by_one(case) if case.batched[1] else shift("dim")(case)


for _op in (prims.cumsum, prims.cumprod, prims.cummax, prims.cummin, prims.logcumsumexp, prims.affine_scan):
    batch(_op, shift("dim"))
batch(prims.delay, _batched_delay)
