"""Gradients of reductions."""

from rushlight.autograd.rules.registry import vjp
from rushlight.ops import prims
from rushlight.ops.reduction import reduced_shape
from rushlight.ops.view import expand


def spread(g, input_meta, dim, keepdim):
    """The gradient of a reduction's result, repeated along the dimensions that the reduction folded away."""
    if not keepdim and g._meta.ndim != input_meta.ndim:
        g = g.reshape(reduced_shape(input_meta.shape, dim, True))
    return expand(g, input_meta.shape)


vjp(prims.sum, input=spread)
