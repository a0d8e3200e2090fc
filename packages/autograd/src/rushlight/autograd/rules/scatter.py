"""Gradients of scatter and its like: the places written to take their gradient from the index."""

from rushlight.autograd.memory import zeros_for
from rushlight.autograd.rules.batched import Case, Run, one_by_one, shift
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.ops import prims
from rushlight.ops.gather import gather_op
from rushlight.ops.scatter import scatter_add_op, scatter_op


def _source(g, index, src_meta, dim):
    """The gradient at the places that src went to, with zeros for what the index does not cover of it."""
    if src_meta.weak:
        return None
    taken = gather_op.apply((g, index), (dim,))
    for d, size in enumerate(src_meta.shape):
        if d < taken.ndim and taken.shape[d] != size:
            taken = prims.slice_backward.apply((taken, 0), (d, size, 1))
    return taken


def _scatter_reduce(g, input, index, src, ans, dim, reduce, include_self):
    """For `sum`, `mean`, `prod`, `amax` and `amin`; equal extremes share the gradient."""
    zeros = zeros_for(input._meta)
    if reduce == "sum":
        kept, given = g, gather_op.apply((g, index), (dim,))
    elif reduce == "mean":
        count = scatter_add_op.apply((zeros + (1 if include_self else 0), index, src.detach() * 0 + 1), (dim,))
        share = g / count.masked_fill(count == 0, 1)
        kept, given = share, gather_op.apply((share, index), (dim,))
    elif reduce == "prod":
        kept, given = _product(g, input, index, src, ans, dim, include_self)
    else:
        own = (input == ans).to(g.dtype)
        theirs = (src_part(src, index) == gather_op.apply((ans, index), (dim,))).to(g.dtype)
        base = own if include_self else scatter_op.apply((own, index, 0), (dim,))
        count = scatter_add_op.apply((base, index, theirs), (dim,))
        share = g / count.masked_fill(count == 0, 1)
        kept, given = share * own, gather_op.apply((share, index), (dim,)) * theirs
    if not include_self:
        kept = scatter_op.apply((kept, index, 0), (dim,))
    return kept, _padded(given, src._meta)


def src_part(src, index):
    """The part of src that the index covers."""
    for d, size in enumerate(index.shape):
        if d < src.ndim:
            src = src.narrow(d, 0, size)
    return src


def _padded(given, src_meta):
    for d, size in enumerate(src_meta.shape):
        if given.shape[d] != size:
            given = prims.slice_backward.apply((given, 0), (d, size, 1))
    return given


def _product(g, input, index, src, ans, dim, include_self):
    """Division by the own factor, but for single zeros among the factors: those take the product of the others."""
    part = src_part(src, index)
    kept = g * ans / input.masked_fill(input == 0, 1)
    if include_self:
        others = prims.scatter_reduce.apply((input * 0 + 1, index, src), (dim, "prod", True))
        kept = kept.where(input != 0, g * others)
    zero = part == 0
    start = input if include_self else input * 0 + 1
    zeros = scatter_add_op.apply(
        (((input == 0) if include_self else (input != input)).to(g.dtype), index, zero.to(g.dtype)), (dim,)
    )
    rest = prims.scatter_reduce.apply(
        (start.masked_fill(start == 0, 1), index, part.masked_fill(zero, 1)), (dim, "prod", True)
    )
    single = (gather_op.apply((zeros, index), (dim,)) == 1).to(g.dtype)
    of_zero = gather_op.apply((g * rest, index), (dim,)) * single
    given = (gather_op.apply((g * ans, index), (dim,)) / part.masked_fill(zero, 1)).where(~zero, of_zero)
    return kept, given


vjp(prims.scatter, linear="input src", input=lambda g, index, dim: scatter_op.apply((g, index, 0), (dim,)), src=_source)
vjp(prims.scatter_add, linear="input src", input=lambda g: g, src=_source)
vjp(
    prims.scatter_reduce,
    input=lambda g, input, index, src, ans, dim, reduce, include_self: _scatter_reduce(
        g, input, index, src, ans, dim, reduce, include_self
    )[0],
    src=lambda g, input, index, src, ans, dim, reduce, include_self: _scatter_reduce(
        g, input, index, src, ans, dim, reduce, include_self
    )[1],
)


def _batched(case: Case) -> Run:
    own_number = case.batched[2] and not case.metas[2].ndim and case.metas[1].ndim
    return one_by_one(case) if own_number else shift("dim")(case)


for _op in (prims.scatter, prims.scatter_add, prims.scatter_reduce):
    batch(_op, _batched)
