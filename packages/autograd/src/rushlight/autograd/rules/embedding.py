"""Gradients of table look-ups."""

from rushlight.autograd.rules.registry import vjp
from rushlight.ops import prims
from rushlight.ops.create import filled
from rushlight.ops.embedding import embedding_backward, embedding_op
from rushlight.ops.gather import index_select
from rushlight.ops.index_along import index_add
from rushlight.ops.put import masked_fill
from rushlight.ops.shape import unsqueeze
from rushlight.ops.view import reshape


def _backward(g, indices, rows, padding_idx, scale_grad_by_freq):
    taken = embedding_op.apply((g, indices), (padding_idx, False))
    if scale_grad_by_freq:
        flat = reshape(indices, -1)
        ones = filled((flat.numel(),), 1, g.dtype, g.device)
        count = index_add(filled((rows,), 0, g.dtype, g.device), 0, flat, ones)
        taken = taken / unsqueeze(index_select(count, 0, flat).reshape(indices.shape), -1)
    return masked_fill(taken, unsqueeze(indices == padding_idx, -1), 0) if padding_idx >= 0 else taken


vjp(
    prims.embedding,
    linear="weight",
    weight=lambda g, indices, weight_meta, padding_idx, scale_grad_by_freq: embedding_backward.apply(
        (g, indices), (weight_meta.shape[0], padding_idx, scale_grad_by_freq)
    ),
)
vjp(prims.embedding_backward, linear="grad", grad=_backward)
