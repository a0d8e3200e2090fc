"""Gradients of reductions."""

from rushlight.autograd.rules.registry import batch, conj, nondifferentiable, vjp
from rushlight.ops import prims
from rushlight.ops.exponential import exp
from rushlight.ops.reduction import reduced_shape, sum
from rushlight.ops.scan import cumprod_op, delay
from rushlight.ops.selection import where_op
from rushlight.ops.view import expand_op


def kept(x, shape, dim, keepdim):
    """A reduction's result (or its gradient) with size 1 along the dimensions that were folded away."""
    return x if keepdim or x._meta.ndim == len(shape) else x.reshape(reduced_shape(shape, dim, True))


def spread(g, input_meta, dim, keepdim):
    """The gradient of a reduction's result, repeated along the dimensions that the reduction folded away."""
    if g._meta.ndim:
        g = kept(g, input_meta.shape, dim, keepdim)
    return expand_op.apply((g,), (input_meta.shape,))


def _mean(g, input_meta, dim, keepdim):
    count = 1
    for d in dim:
        count *= input_meta.shape[d]
    return spread(g / count, input_meta, dim, keepdim)


def _extreme(g, input, ans, dim, keepdim):
    """Equal extreme elements share the gradient."""
    shape = input._meta.shape
    winners = input == kept(ans, shape, dim, keepdim)
    count = sum(winners, dim, True) if dim else winners.to(g._meta.dtype)
    return where_op(winners, kept(g, shape, dim, keepdim) / count, 0)


def _logsumexp(g, input, ans, dim, keepdim):
    shape = input._meta.shape
    total = kept(ans, shape, dim, keepdim)
    total = where_op(total.real == -float("inf"), 0, total)  # over nothing but -inf: no element has weight
    return kept(g, shape, dim, keepdim) * conj(exp(input - total))


def _prod(g, input, dim, keepdim):
    """The product of all other elements: of those before times those after, which holds for zeros too."""
    if not input._meta.ndim:
        return g
    shape = input._meta.shape
    if len(dim) > 1:
        return _prod(g.reshape(()), input.reshape(-1), (0,), False).reshape(shape)
    along, values = dim[0], conj(input)
    before = delay(cumprod_op(values, dim=along, dtype=g._meta.dtype, reverse=False), 1, dim=along, reverse=False)
    after = delay(cumprod_op(values, dim=along, dtype=g._meta.dtype, reverse=True), 1, dim=along, reverse=True)
    return kept(g, shape, dim, keepdim) * (before * after)


vjp(prims.sum, linear="input", input=spread)
vjp(prims.mean, linear="input", input=_mean)
vjp(prims.prod, input=_prod)
vjp(prims.amax, input=_extreme)
vjp(prims.amin, input=_extreme)
vjp(prims.median, input=_extreme)
vjp(prims.nanmedian, input=_extreme)
vjp(prims.logsumexp, input=_logsumexp)
nondifferentiable(prims.any, prims.all, prims.argmax, prims.argmin, prims.xor_words)


def _batched_position(op, input, dim, keepdim, samples):
    """The position among all elements is that along one dimension, when a sample is laid out flat."""
    if len(dim) == 1:
        return op.apply((input,), ((dim[0] + 1,), keepdim))
    shape = (samples, *(1,) * (input.ndim - 1)) if keepdim else (samples,)
    return op.apply((input.reshape(samples, -1),), ((1,), False)).reshape(shape)


batch(prims.argmax, _batched_position)
batch(prims.argmin, _batched_position)
