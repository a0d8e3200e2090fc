"""Gradients of writing by index tensors and masks: none flows to what is overwritten."""

from rushlight.autograd.memory import zeros_for
from rushlight.autograd.rules.registry import vjp
from rushlight.ops import prims
from rushlight.ops.gather import take_op
from rushlight.ops.index import index_op, masked_select
from rushlight.ops.join import cat_op
from rushlight.ops.put import index_put_op, masked_fill_op, put_op
from rushlight.ops.reduction import sum
from rushlight.ops.view import expand, reshaped


def _index_put(g, operands, metas, accumulate):
    indices = operands[2:]
    kept = g if accumulate else index_put_op.apply((g, 0, *indices), (False,))
    values = None if metas[1].weak else index_op.apply((g, *indices))
    return [kept, values, *[None] * len(indices)]


def _masked_source(g, mask, source_meta):
    taken = masked_select(g, expand(mask, g.shape))
    rest = source_meta.numel - taken.numel()
    if rest:
        taken = cat_op.apply((taken, zeros_for(source_meta.replace(shape=(rest,)))), (0,))
    return reshaped(taken, source_meta.shape)


def _put(g, index, accumulate, input_meta):
    if accumulate:
        return g
    return put_op.apply((g, index, zeros_for(input_meta.replace(shape=index.shape))), (False,))


vjp(prims.index_put, linear="input values", all=_index_put)
vjp(
    prims.masked_fill,
    linear="input value",
    input=lambda g, mask: masked_fill_op.apply((g, mask, 0)),
    value=lambda g, mask: sum(masked_select(g, expand(mask, g.shape))),
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
