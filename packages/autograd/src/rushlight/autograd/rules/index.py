"""Gradients of reading by index tensors: the gradient goes back to the places it was read from."""

from rushlight.autograd.batches import whole
from rushlight.autograd.memory import zeros_for
from rushlight.autograd.rules.batched import in_rank, shift
from rushlight.autograd.rules.registry import batch, nondifferentiable, vjp
from rushlight.ops import prims
from rushlight.ops.create import arange
from rushlight.ops.gather import gather_op, index_select_op
from rushlight.ops.index import place_of
from rushlight.ops.index_along import index_add_op
from rushlight.ops.put import index_put_op, masked_scatter_op, put_op
from rushlight.ops.scatter import scatter_add_op
from rushlight.ops.selection import where_op
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


def per_sample(indices, batched, samples):
    """The indices with one of the sample in front, and how many dimensions they have for one sample."""
    ndim = max([x.ndim - b for x, b in zip(indices, batched) if x is not None])
    first = next(x for x in indices if x is not None)
    samples = arange(samples, device=first.device).reshape(samples, *(1,) * ndim)
    return (samples, *[in_rank(x, ndim) if b else x for x, b in zip(indices, batched)]), ndim


def _batched_index(operands, batched, metas, samples):
    """`input[samples, indices]` has what the indices say behind the batch; it goes to its place."""
    input, *indices = operands
    place = place_of(metas[1:])
    if not any(batched[1:]):
        found = prims.index.apply((input, None, *indices))
        ndim = max([m.ndim for m in metas[1:] if m is not None])
        in_front = place_of((None, *metas[1:])) == 0  # of the batch, as indices that are apart go first
        return found.movedim(ndim, 0) if in_front else found
    full, ndim = per_sample(indices, batched[1:], samples)
    found = prims.index.apply((input if batched[0] else whole(input, samples), *full))
    return found.movedim(tuple(range(1, ndim + 1)), tuple(range(place + 1, place + ndim + 1))) if place else found


def _batched_select(operands, batched, metas, dim, samples):
    input, index = operands
    if not metas[0].ndim:
        return (input if batched[0] else whole(input, samples)).clone()  # the only index is 0
    if not batched[1]:
        return index_select_op.apply((input, index), (dim + 1,))
    wide = input if batched[0] else whole(input, samples)
    index = index if index.ndim > 1 else index.unsqueeze(1)
    return gather_op.apply((wide, along(index, wide, dim)), (dim + 1,))


def along(index, like, dim):
    """Indices along a dimension, one row per sample, as `gather` and `scatter` take them: repeated for the others."""
    shape = list(like.shape)
    shape[dim + 1] = index.shape[1]
    return index.long().reshape(*[n if d in (0, dim + 1) else 1 for d, n in enumerate(shape)]).expand(shape)


def _batched_take(input, index):
    flat, places = input.flatten(1) if input.ndim > 1 else input.unsqueeze(1), index.reshape(index.shape[0], -1)
    places = where_op(places < 0, places + flat.shape[1], places)
    return reshaped(gather_op.apply((flat, places), (1,)), tuple(index.shape))


batch(prims.index, _batched_index)
batch(prims.index_select, _batched_select)
batch(prims.gather, shift("dim"))
batch(prims.take, _batched_take)
