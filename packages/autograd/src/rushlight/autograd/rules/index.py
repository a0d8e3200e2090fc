"""Gradients of reading by index tensors: the gradient goes back to the places it was read from."""

from rushlight.autograd.memory import zeros_for
from rushlight.autograd.rules.registry import nondifferentiable, vjp
from rushlight.ops import prims
from rushlight.ops.index_along import index_add_op
from rushlight.ops.put import index_put_op, masked_scatter_op, put_op
from rushlight.ops.scatter import scatter_add_op
from rushlight.ops.view import expand, reshaped


def _index(g, operands, metas):
    zeros = zeros_for(metas[0])
    return [index_put_op.apply((zeros, g, *operands[1:]), (True,)), *[None] * (len(metas) - 1)]


def _masked_select(g, mask, input_meta):
    wide = reshaped(mask, (*mask.shape, *(1,) * (input_meta.ndim - mask.ndim)))
    return masked_scatter_op.apply((zeros_for(input_meta), expand(wide, input_meta.shape), g), ())


vjp(prims.index, linear="input", all=_index)
vjp(prims.masked_select, linear="input", input=_masked_select)
vjp(
    prims.index_select,
    linear="input",
    input=lambda g, index, input_meta, dim: index_add_op.apply((zeros_for(input_meta), index, g), (dim,)),
)
vjp(
    prims.gather,
    linear="input",
    input=lambda g, index, input_meta, dim: scatter_add_op.apply((zeros_for(input_meta), index, g), (dim,)),
)
vjp(
    prims.take,
    linear="input",
    input=lambda g, index, input_meta: put_op.apply((zeros_for(input_meta), index, g), (True,)),
)
nondifferentiable(prims.nonzero)
