"""Gradients of views of a part of a tensor."""

from rushlight.autograd.memory import zeros_for
from rushlight.autograd.rules.batched import shift
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.ops import prims
from rushlight.ops.join import cat_op, stack_op
from rushlight.ops.shape import unsqueeze
from rushlight.ops.slicing import slice_backward, slice_op


def _select(g, input_meta, index, dim):
    size = input_meta.shape[dim]
    return slice_backward.apply((unsqueeze(g, dim), index + size if index < 0 else index), (dim, size, 1))


def _joined(join, gs, metas, dim):
    """The gradients of all parts in one tensor; zeros for the parts that none came for."""
    return join.apply(tuple([zeros_for(m) if g is None else g for g, m in zip(gs, metas)]), (dim,))


def _unbind(gs, input_meta, dim):
    part = input_meta.replace(shape=(*input_meta.shape[:dim], *input_meta.shape[dim + 1 :]))
    return _joined(stack_op, gs, [part] * len(gs), dim)


def _split(gs, input_meta, sizes, dim):
    parts = [input_meta.replace(shape=(*input_meta.shape[:dim], size, *input_meta.shape[dim + 1 :])) for size in sizes]
    return _joined(cat_op, gs, parts, dim)


vjp(prims.select, input=_select)
vjp(
    prims.slice,
    input=lambda g, start, input_meta, dim, step: slice_backward.apply((g, start), (dim, input_meta.shape[dim], step)),
)
vjp(
    prims.slice_backward,
    linear="grad",
    grad=lambda g, start, grad_meta, dim, step: slice_op.apply((g, start), (dim, grad_meta.shape[dim], step)),
)
vjp(prims.unbind, input=_unbind)
vjp(prims.split, input=_split)

for _op in (prims.select, prims.slice, prims.slice_backward, prims.unbind, prims.split):
    batch(_op, shift("dim"))
