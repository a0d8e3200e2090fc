"""Reading and writing at indices and masks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core import scalar as s
from rushlight.onnx import scalars
from rushlight.onnx.builder import Builder, Ref, same_size
from rushlight.onnx.creation import filled
from rushlight.onnx.table import Refused, refuse, row


def _long(o: Builder, index: Ref) -> Ref:
    return o.cast(index, dtypes.int64)


@row("embedding")
def embedding(o: Builder, weight: Ref, indices: Ref, *, padding_idx: int, scale_grad_by_freq: bool) -> Ref:
    return o.Gather(weight, indices, axis=0)


@row("index_select")
def index_select(o: Builder, x: Ref, index: Ref, *, dim: int) -> Ref:
    if not x.ndim:
        return o.Identity(x)
    return o.Gather(x, index if index.ndim else o.reshape(index, (1,)), axis=dim)


@row("gather")
def gather(o: Builder, x: Ref, index: Ref, *, dim: int) -> Ref:
    if any(same_size(extent, 0) for extent in index.shape):  # of any rank
        return filled(o, index.shape, 0, x.dtype)
    index = Ref(_long(o, index).name, dtypes.int64, index.meta)
    if not x.ndim:
        return o.reshape(o.Gather(o.reshape(x, (1,)), index, axis=0), index.shape)
    if not index.ndim:
        return o.Gather(x, index, axis=0)
    for d in range(x.ndim):  # an index may be smaller than the operand; runtimes want it as large
        if d != dim and not same_size(x.shape[d], index.shape[d]):
            x = Ref(o.slice(x, d, 0, index.shape[d]).name, x.dtype, x.meta)
    return o.GatherElements(x, index, axis=dim)


@row("take")
def take(o: Builder, x: Ref, index: Ref) -> Ref:
    return o.Gather(o.reshape(x, (-1,)), index, axis=0)


def _arranged(shape: tuple, indices: tuple) -> tuple[list[int], list[int], int]:
    """Of `x[indices]`: the indexed dimensions, the others, and the dimension of the result where the former begin."""
    at = [d for d, index in enumerate(indices) if index is not None]
    rest = [d for d in range(len(shape)) if d not in at]
    return at, rest, at[0] if at == list(range(at[0], at[-1] + 1)) else 0


def _tuples(o: Builder, indices: list[Ref]) -> tuple[Ref, int]:
    """Index tensors broadcast and put together: (*common, indices); and how many dimensions are common."""
    common = max(index.ndim for index in indices)
    wide = [_long(o, index) for index in indices]
    if len(wide) > 1:
        shape = o.Shape(wide[0])
        total = wide[0]
        for index in wide[1:]:
            total = o.Add(total, index)
        shape = o.Shape(total)
        wide = [o.Expand(index, shape) for index in wide]
    return o.Concat(*[o.unsqueeze(index, common) for index in wide], axis=common), common


@row("index")
def index(o: Builder, x: Ref, *indices: Ref | None) -> Ref:
    at, rest, first = _arranged(x.shape, indices)
    if len(at) == 1:
        return o.Gather(x, indices[at[0]], axis=at[0])
    places, common = _tuples(o, [indices[d] for d in at])
    found = o.GatherND(o.transpose(x, [*at, *rest]), places)  # (*common, *rest)
    order = [*range(common, common + first), *range(common), *range(common + first, common + len(rest))]
    return o.transpose(found, order)


@row("index_put")
def index_put(o: Builder, x: Ref, values: Any, *indices: Ref | None, accumulate: bool) -> Ref:
    if all(index is None for index in indices):
        whole = o.Expand(values if isinstance(values, Ref) else o.number(values, x.dtype), o.sizes(x.shape))
        return o.Add(x, whole) if accumulate else whole
    at, rest, first = _arranged(x.shape, indices)
    places, common = _tuples(o, [indices[d] for d in at])
    values = values if isinstance(values, Ref) else o.number(values, x.dtype)
    lead = np.broadcast_shapes(*[indices[d].shape for d in at])
    extents = [x.shape[d] for d in rest]
    shape = [*extents[:first], *lead, *extents[first:]]  # of what is written, as eager says it
    spread = o.Expand(values, o.sizes(shape))
    order = [*range(first, first + common), *range(first), *range(first + common, len(shape))]
    whole = o.ScatterND(o.transpose(x, [*at, *rest]), places, o.transpose(spread, order),
                        reduction="add" if accumulate else None)
    back = sorted(range(x.ndim), key=[*at, *rest].__getitem__)
    return o.transpose(whole, back)


@row("masked_fill")
def masked_fill(o: Builder, x: Ref, mask: Ref, value: Any) -> Ref:
    fill = o.cast(value, x.dtype) if isinstance(value, Ref) else o.number(value, x.dtype)
    return o.Where(mask, fill, x)


@row("masked_scatter")
def masked_scatter(o: Builder, x: Ref, mask: Ref, source: Ref) -> Ref:
    flat = o.reshape(o.Expand(mask, o.sizes(x.shape)), (-1,))
    counts = o.Sub(o.CumSum(o.cast(flat, dtypes.int64), o.number(0, dtypes.int64)), o.number(1, dtypes.int64))
    taken = o.Gather(o.reshape(source, (-1,)), o.Max(counts, o.number(0, dtypes.int64)), axis=0)
    return o.reshape(o.Where(flat, taken, o.reshape(x, (-1,))), x.shape)


@row("put")
def put(o: Builder, x: Ref, index: Ref, source: Ref, *, accumulate: bool) -> Ref:
    if accumulate and x.dtype is dtypes.bool:
        raise Refused("put that adds bools")
    flat, size = o.reshape(x, (-1,)), o.Size(x)
    places = o.reshape(_long(o, index), (-1,))
    places = o.Where(o.Less(places, 0), o.Add(places, size), places)
    made = o.ScatterElements(flat, places, o.reshape(source, (-1,)), axis=0, reduction="add" if accumulate else None)
    return o.reshape(made, x.shape)


def _front(o: Builder, x: Ref) -> tuple[Ref, tuple]:
    """A 0-dim tensor as a vector of one element."""
    return (x, x.shape) if x.ndim else (o.reshape(x, (1,)), (1,))


def _column(o: Builder, index: Ref, shape: tuple, dim: int) -> Ref:
    """A vector of indices along a dimension, repeated over all others; `shape` is that of the result."""
    vector = o.reshape(_long(o, index), [-1 if d == dim else 1 for d in range(len(shape))])
    return o.Expand(vector, o.sizes(shape))


@row("index_fill")
def index_fill(o: Builder, x: Ref, index: Ref, value: Any, *, dim: int) -> Ref:
    target, extents = _front(o, x)
    count = index.shape[0] if index.ndim else 1
    shape = tuple([count if d == dim else n for d, n in enumerate(extents)])
    fill = o.cast(value, x.dtype) if isinstance(value, Ref) else o.number(value, x.dtype)
    made = o.ScatterElements(target, _column(o, index, shape, dim), o.Expand(fill, o.sizes(shape)), axis=dim)
    return made if x.ndim else o.reshape(made, ())


def _along(o: Builder, x: Ref, index: Ref, source: Ref, dim: int, reduction: str | None) -> Ref:
    target, extents = _front(o, x)
    count = index.shape[0] if index.ndim else 1
    shape = tuple([count if d == dim else n for d, n in enumerate(extents)])
    made = o.ScatterElements(target, _column(o, index, shape, dim), o.reshape(source, shape), axis=dim,
                             reduction=reduction)
    return made if x.ndim else o.reshape(made, ())


@row("index_copy")
def index_copy(o: Builder, x: Ref, index: Ref, source: Ref, *, dim: int) -> Ref:
    return _along(o, x, index, source, dim, None)


@row("index_add")
def index_add(o: Builder, x: Ref, index: Ref, source: Ref, *, dim: int) -> Ref:
    return _along(o, x, index, source, dim, "add")


def _parts(o: Builder, x: Ref, index: Ref, src: Any) -> tuple[Ref, Ref, Ref]:
    """Operand, index and the part of src that the index covers, none of them 0-dim."""
    shape = index.shape or (1,)
    target = _front(o, x)[0]
    places = index if index.ndim else o.reshape(index, (1,))
    if not isinstance(src, Ref):
        return target, places, o.Expand(o.number(src, x.dtype), o.sizes(shape))
    values = src if src.ndim else o.reshape(src, (1,))
    cut = [d for d in range(src.ndim) if not same_size(src.shape[d], shape[d])]
    if cut:
        values = o.Slice(values, (0,) * len(cut), o.sizes([shape[d] for d in cut]), tuple(cut))
    return target, places, values


def _written(o: Builder, x: Ref, index: Ref, src: Any, dim: int, reduction: str | None) -> Ref:
    if not math.prod(index.shape):
        return o.Identity(x)
    made = o.ScatterElements(*_parts(o, x, index, src), axis=dim, reduction=reduction)
    return made if x.ndim else o.reshape(made, ())


@row("scatter")
def scatter(o: Builder, x: Ref, index: Ref, src: Any, *, dim: int) -> Ref:
    return _written(o, x, index, src, dim, None)


@row("scatter_add")
def scatter_add(o: Builder, x: Ref, index: Ref, src: Ref, *, dim: int) -> Ref:
    return _written(o, x, index, src, dim, "add")


_REDUCTIONS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


@row("scatter_reduce")
def scatter_reduce(o: Builder, x: Ref, index: Ref, src: Ref, *, dim: int, reduce: str, include_self: bool) -> Ref:
    if not include_self:
        start: Any = {"prod": 1, "amax": o.bound(x.dtype, False), "amin": o.bound(x.dtype, True)}.get(reduce, 0)
        x = Ref(_written(o, x, index, start, dim, None).name, x.dtype, x.meta)
    made = _written(o, x, index, src, dim, _REDUCTIONS[reduce])
    if reduce != "mean":
        return made
    kind = x.dtype
    counts = Ref(o.Expand(o.number(int(include_self), kind), o.sizes(x.shape)).name, kind, x.meta)
    count = o.Max(_written(o, counts, index, 1, dim, "add"), 1)
    return o.Div(made, count) if kind.is_floating_point else scalars.FUNCTIONS[s.floor_divide](o, made, count)


@row("repeat_indices")
def repeat_indices(o: Builder, repeats: Ref) -> Ref:
    raise Refused("its size depends on data")


refuse("its size depends on data", "nonzero", "masked_select", "unique", "unique_consecutive")
refuse("it writes through strides, which ONNX tensors do not have", "as_strided_scatter", "as_strided_backward")
