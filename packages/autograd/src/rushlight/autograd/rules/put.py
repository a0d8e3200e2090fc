"""Gradients of writing by index tensors and masks: none flows to what is overwritten."""

from rushlight.autograd.batches import whole
from rushlight.autograd.memory import zeros_for
from rushlight.autograd.rules.batched import in_rank
from rushlight.autograd.rules.index import per_sample
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.ops import prims
from rushlight.ops.gather import take_op
from rushlight.ops.index import index_op, indexed_shape, place_of
from rushlight.ops.put import index_put_op, masked_fill_op, put_op
from rushlight.ops.reduction import sum
from rushlight.ops.scatter import scatter_add_op, scatter_op
from rushlight.ops.selection import where_op
from rushlight.ops.view import expand, reshaped


def _index_put(g, operands, metas, accumulate):
    indices = operands[2:]
    kept = g if accumulate else index_put_op.apply((g, 0, *indices), (False,))
    values = None if metas[1].weak else index_op.apply((g, *indices))
    return [kept, values, *[None] * len(indices)]


def _masked_source(g, mask, source_meta):
    """Each place of the mask takes the next element, and gives its gradient back to that one."""
    flat = reshaped(expand(mask, g.shape), (g.numel(),))
    if not source_meta.numel or not flat.numel():
        return zeros_for(source_meta)
    places = (flat.cumsum(0) - 1).clamp(0)
    given = where_op(flat, reshaped(g, (g.numel(),)), 0)
    zeros = zeros_for(source_meta.replace(shape=(source_meta.numel,)))
    return reshaped(scatter_add_op.apply((zeros, places, given), (0,)), source_meta.shape)


def _put(g, index, accumulate, input_meta):
    if accumulate:
        return g
    return put_op.apply((g, index, zeros_for(input_meta.replace(shape=index.shape))), (False,))


vjp(prims.index_put, linear="input values", all=_index_put)
vjp(
    prims.masked_fill,
    linear="input value",
    input=lambda g, mask: masked_fill_op.apply((g, mask, 0)),
    value=lambda g, mask: sum(where_op(mask, g, 0)),
)
vjp(
    prims.masked_scatter,
    linear="input source",
    input=lambda g, mask: masked_fill_op.apply((g, mask, 0)),
    source=_masked_source,
)
vjp(
    prims.put,
    linear="input source",
    input=_put,
    source=lambda g, index, source_meta: reshaped(take_op.apply((g, index)), source_meta.shape),
)


def _batched_index_put(operands, batched, metas, accumulate, samples):
    """`input[samples, indices] = values`, with the values as they lie then: what the indices say behind the batch."""
    input, values, *indices = operands
    place = place_of(metas[2:])
    full, ndim = per_sample(indices, batched[2:], samples)
    if metas[1].ndim or batched[1]:
        shape = indexed_shape("index_put", metas[0].shape, metas[2:])
        values = in_rank(values if batched[1] else whole(values, samples), len(shape)).expand(samples, *shape)
        if place:
            values = values.movedim(tuple(range(place + 1, place + ndim + 1)), tuple(range(1, ndim + 1)))
    return index_put_op.apply((input if batched[0] else whole(input, samples), values, *full), (accumulate,))


def _batched_masked_fill(operands, batched, metas, samples):
    input, mask, value = operands
    input = input if batched[0] else whole(input, samples)
    mask = in_rank(mask, metas[0].ndim) if batched[1] else mask
    if batched[2]:
        return where_op(mask, in_rank(value, metas[0].ndim).to(input.dtype), input)
    return masked_fill_op.apply((input, mask, value))


def _batched_put(input, index, source, accumulate):
    flat = input.reshape(input.shape[0], -1)
    places, values = [x.reshape(x.shape[0], -1) for x in (index, source)]
    places = where_op(places < 0, places + flat.shape[1], places)
    write = scatter_add_op if accumulate else scatter_op
    return reshaped(write.apply((flat, places, values), (1,)), tuple(input.shape))


batch(prims.index_put, _batched_index_put)
batch(prims.masked_fill, _batched_masked_fill)
batch(prims.put, _batched_put)
