"""Gradients of writing at a vector of indices along a dimension."""

from rushlight.autograd.rules.registry import vjp
from rushlight.ops import prims
from rushlight.ops.gather import index_select_op
from rushlight.ops.index_along import index_fill_op
from rushlight.ops.reduction import sum
from rushlight.ops.view import reshaped


def _source(g, index, source_meta, dim):
    return reshaped(index_select_op.apply((g, index), (dim,)), source_meta.shape)


def _without(g, index, dim):
    return index_fill_op.apply((g, index, 0), (dim,))


vjp(
    prims.index_fill, linear="input value", input=_without, value=lambda g, index, dim: sum(g - _without(g, index, dim))
)
vjp(prims.index_copy, linear="input source", input=_without, source=_source)
vjp(prims.index_add, linear="input source", input=lambda g: g, source=_source)
