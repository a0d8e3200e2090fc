"""Gradients of joining: each tensor gets its part."""

from rushlight.autograd.rules.registry import vjp
from rushlight.ops import prims
from rushlight.ops.join import is_placeholder
from rushlight.ops.slicing import split_op, unbind_op


def _cat(g, metas, dim):
    skipped = [is_placeholder(m.shape) and g.ndim != 1 for m in metas]
    sizes = tuple([0 if skip else m.shape[dim] for m, skip in zip(metas, skipped)])
    parts = split_op.apply((g,), (sizes, dim))
    return [None if skip else part for part, skip in zip(parts, skipped)]


vjp(prims.cat, linear="tensors", all=_cat)
vjp(prims.stack, linear="tensors", all=lambda g, dim: list(unbind_op.apply((g,), (dim,))))
