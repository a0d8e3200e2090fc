"""Gradients of table look-ups."""

from rushlight.autograd.rules.batched import Case, Run, through
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.ops import prims
from rushlight.ops.create import filled
from rushlight.ops.embedding import embedding_backward, embedding_op
from rushlight.ops.gather import index_select
from rushlight.ops.index_along import index_add
from rushlight.ops.put import masked_fill
from rushlight.ops.scatter import scatter_add
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


def _table(weight, indices, padding_idx, scale_grad_by_freq):
    """Rows of a table that each sample has."""
    flat = reshape(indices, -1)
    rows = weight.gather(0, unsqueeze(flat.long(), 1).expand(-1, weight.shape[1]))
    return reshape(rows, (*indices.shape, weight.shape[1]))


def _table_gradient(grad, indices, rows, padding_idx, scale_grad_by_freq):
    flat = unsqueeze(reshape(indices, -1).long(), 1)
    parts = reshape(grad, (flat.shape[0], -1))
    if padding_idx >= 0:
        parts = masked_fill(parts, flat == padding_idx, 0)
    if scale_grad_by_freq:
        parts = parts / (flat == flat.mT).sum(1, keepdim=True)
    zeros = filled((rows, parts.shape[1]), 0, grad.dtype, grad.device)
    return scatter_add(zeros, 0, flat.expand(-1, parts.shape[1]), parts)


def _batched_rows(case: Case) -> Run:
    weight, indices = case.batched
    if not weight:
        return lambda table, places: embedding_op.apply((table, places), case.params)
    if indices:
        return through(_table)(case)
    shape = (case.samples, *case.metas[1].shape, case.metas[0].shape[1])
    return lambda tables, places: reshape(index_select(tables, 1, reshape(places, -1)), shape)


def _batched_gradient(case: Case) -> Run:
    if case.batched[1]:
        return through(_table_gradient)(case)

    def run(grads, places):
        """The samples side by side, as further columns of one table."""
        columns = grads.movedim(0, -2)
        found = embedding_backward.apply((columns.flatten(-2), places), case.params)
        return found.unflatten(1, columns.shape[-2:]).movedim(1, 0)

    return run


batch(prims.embedding, _batched_rows)
batch(prims.embedding_backward, _batched_gradient)
