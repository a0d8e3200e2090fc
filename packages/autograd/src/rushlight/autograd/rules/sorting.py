"""Positions and counts: nothing to differentiate. The values come by gather, which has a gradient."""

from rushlight.autograd.batches import whole
from rushlight.autograd.rules.batched import in_rank, shift
from rushlight.autograd.rules.registry import batch, nondifferentiable
from rushlight.ops import prims
from rushlight.ops.create import filled
from rushlight.ops.view import reshaped

nondifferentiable(
    prims.argsort, prims.topk, prims.kthvalue, prims.median_position, prims.nanmedian_position, prims.mode
)
nondifferentiable(prims.unique, prims.unique_consecutive, prims.isin)
nondifferentiable(prims.bincount, prims.histc, prims.histogram, prims.searchsorted)


def _batched_isin(operands, batched, metas, invert):
    elements, among = operands
    if not batched[1]:
        return prims.isin.apply((elements, among), (invert,))
    flat = in_rank(among.flatten(1), metas[0].ndim + 1)
    found = (elements.unsqueeze(-1) == flat).any(-1)
    return ~found if invert else found


def _batched_search(operands, batched, metas, right, out_int32, samples):
    """Each sample has boundaries of its own, unless all share one row of them."""
    boundaries, input, sorter = operands
    params = (right, out_int32)
    if not batched[0] and metas[0].ndim == 1 and not batched[2]:
        return prims.searchsorted.apply(operands, params)
    if metas[1].weak:
        input = filled((), input, metas[0].dtype, metas[0].device)
    values = input if batched[1] else whole(input, samples)
    rows = boundaries if batched[0] else whole(boundaries, samples)
    order = sorter if sorter is None or batched[2] else whole(sorter, samples)
    shape = values._meta.shape
    if metas[0].ndim == 1:
        values = values.reshape(samples, -1)
    return reshaped(prims.searchsorted.apply((rows, values, order), params), shape)


for _op in (prims.argsort, prims.topk, prims.kthvalue, prims.mode, prims.median_position, prims.nanmedian_position):
    batch(_op, shift("dim"))
batch(prims.isin, _batched_isin)
batch(prims.searchsorted, _batched_search)
