"""Gradients of writing at a vector of indices along a dimension."""

from collections.abc import Callable

from rushlight.autograd.batches import whole
from rushlight.autograd.rules.batched import Case, Run, in_rank, one_by_one, spreading
from rushlight.autograd.rules.index import along
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.core.tensor import Tensor
from rushlight.ops import prims
from rushlight.ops.gather import index_select_op
from rushlight.ops.index_along import index_fill_op
from rushlight.ops.reduction import sum
from rushlight.ops.scatter import scatter_add_op, scatter_op
from rushlight.ops.selection import where_op
from rushlight.ops.view import reshaped


def _source(g, index, source_meta, dim):
    return reshaped(index_select_op.apply((g, index), (dim,)), source_meta.shape)


def _without(g, index, dim):
    return index_fill_op.apply((g, index, 0), (dim,))


vjp(
    prims.index_fill, linear="input value", input=_without, value=lambda g, index, dim: sum(g - _without(g, index, dim))
)
vjp(prims.index_copy, linear="input source", input=_without, source=_source)
vjp(prims.index_add, linear="input source", input=lambda g: g, source=_source)


def _batched(own: Callable) -> Callable:
    """Indices that all samples share stay a vector; `own` is for those that each has of its own."""

    def rule(case: Case) -> Run:
        plain = case.metas[0].ndim and case.metas[1].ndim
        if not case.batched[1] and not (case.op is prims.index_fill and case.batched[2]) and plain:
            return _shared(case)
        if not plain:
            return one_by_one(case)
        spread, dim = spreading(case), case.params[0]
        return lambda *values: own(*spread(values), dim)

    return rule


def _shared(case: Case) -> Run:
    op, (dim,) = case.op, case.params

    def run(input, index, source):
        input = input if case.batched[0] else whole(input, case.samples)
        source = source if case.batched[2] or op is prims.index_fill else whole(source, case.samples)
        return op.apply((input, index, source), (dim + 1,))

    return run


def _own_fill(input, index, value, dim):
    places = along(where_op(index < 0, index + input.shape[dim + 1], index), input, dim)
    if isinstance(value, Tensor):
        value = in_rank(value.to(input.dtype), places.ndim - 1).expand(places.shape)
    return scatter_op.apply((input, places, value), (dim + 1,))


batch(prims.index_fill, _batched(_own_fill))
batch(
    prims.index_copy,
    _batched(lambda input, index, source, dim: scatter_op.apply((input, along(index, input, dim), source), (dim + 1,))),
)
batch(
    prims.index_add,
    _batched(
        lambda input, index, source, dim: scatter_add_op.apply((input, along(index, input, dim), source), (dim + 1,))
    ),
)
