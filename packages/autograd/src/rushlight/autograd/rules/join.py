"""Gradients of joining: each tensor gets its part."""

from rushlight.autograd.batches import whole
from rushlight.autograd.rules.registry import batch, vjp
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


def _batched_cat(operands, batched, metas, dim, samples):
    ndim = max([m.ndim for m in metas])
    kept = [
        x if b else whole(x, samples)
        for x, b, m in zip(operands, batched, metas)
        if not (is_placeholder(m.shape) and ndim > 1)
    ]
    return prims.cat.apply(tuple(kept), (dim + 1,))


batch(prims.cat, _batched_cat)
batch(
    prims.stack,
    lambda operands, batched, dim, samples: prims.stack.apply(
        tuple([x if b else whole(x, samples) for x, b in zip(operands, batched)]), (dim + 1,)
    ),
)
