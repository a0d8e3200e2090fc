"""Reductions, running sums, softmax and what is found by order."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core import dtypes
from rushlight.onnx.builder import Builder, Ref, is_open
from rushlight.onnx.table import refuse, row

_SMALL = frozenset((dtypes.bool, dtypes.uint8, dtypes.int8, dtypes.uint16, dtypes.int16))


def reduced(o: Builder, kind: str, x: Ref, dims: Any, keepdim: bool) -> Ref:
    """A reducing operator over dimensions; over none, the value itself."""
    dims = tuple(dims)
    if not dims:
        return o.Identity(x)
    return getattr(o, kind)(x, dims, keepdims=int(keepdim))


def _numbers(o: Builder, x: Ref, wanted: dtypes.dtype) -> Ref:
    """The operand of a sum in the dtype in which it adds up."""
    return o.cast(x, wanted)


@row("sum")
def sum_(o: Builder, x: Ref, *, dim: tuple, keepdim: bool, dtype: Any) -> Ref:
    return _folded(o, "ReduceSum", x, dim, keepdim, dtype)


@row("mean")
def mean(o: Builder, x: Ref, *, dim: tuple, keepdim: bool, dtype: Any) -> Ref:
    if any(not is_open(x.shape[d]) and x.shape[d] == 0 for d in dim):
        return o.Div(_folded(o, "ReduceSum", x, dim, keepdim, dtype), 0.0)  # the mean of nothing is NaN
    return _folded(o, "ReduceMean", x, dim, keepdim, dtype)


@row("prod")
def prod(o: Builder, x: Ref, *, dim: tuple, keepdim: bool, dtype: Any) -> Ref:
    return _folded(o, "ReduceProd", x, dim, keepdim, dtype)


def _folded(o: Builder, kind: str, x: Ref, dim: tuple, keepdim: bool, dtype: dtypes.dtype) -> Ref:
    wide = dtypes.int32 if dtype in _SMALL else dtype
    return o.cast(reduced(o, kind, o.cast(x, wide), dim, keepdim), dtype)


@row("amax")
def amax(o: Builder, x: Ref, *, dim: tuple, keepdim: bool) -> Ref:
    return _extreme(o, "ReduceMax", x, dim, keepdim)


@row("amin")
def amin(o: Builder, x: Ref, *, dim: tuple, keepdim: bool) -> Ref:
    return _extreme(o, "ReduceMin", x, dim, keepdim)


def _extreme(o: Builder, kind: str, x: Ref, dim: tuple, keepdim: bool) -> Ref:
    wide = dtypes.int32 if x.dtype in _SMALL else x.dtype
    return o.cast(reduced(o, kind, o.cast(x, wide), dim, keepdim), x.dtype)


@row("any")
def any_(o: Builder, x: Ref, *, dim: tuple, keepdim: bool, dtype: Any) -> Ref:
    truth = o.cast(o.cast(x, dtypes.bool), dtypes.int32)
    return o.cast(o.cast(reduced(o, "ReduceMax", truth, dim, keepdim), dtypes.bool), dtype)


@row("all")
def all_(o: Builder, x: Ref, *, dim: tuple, keepdim: bool, dtype: Any) -> Ref:
    truth = o.cast(o.cast(x, dtypes.bool), dtypes.int32)
    return o.cast(o.cast(reduced(o, "ReduceMin", truth, dim, keepdim), dtypes.bool), dtype)


@row("logsumexp")
def logsumexp(o: Builder, x: Ref, *, dim: tuple, keepdim: bool) -> Ref:
    kind = x.dtype if x.dtype.is_floating_point else dtypes.float32
    return reduced(o, "ReduceLogSumExp", o.cast(x, kind), dim, keepdim)


@row("vector_norm")
def vector_norm(o: Builder, x: Ref, *, dim: tuple, keepdim: bool, ord: float) -> Ref:
    if ord == 2:
        return o.Sqrt(reduced(o, "ReduceSumSquare", x, dim, keepdim)) if dim else o.Abs(x)
    size = o.Abs(x)
    if ord == 1:
        return reduced(o, "ReduceSum", size, dim, keepdim)
    if ord == math.inf:
        return reduced(o, "ReduceMax", size, dim, keepdim)
    if ord == -math.inf:
        return reduced(o, "ReduceMin", size, dim, keepdim)
    if ord == 0:
        return reduced(o, "ReduceSum", o.cast(o.Greater(size, 0.0), x.dtype), dim, keepdim)
    return o.Pow(reduced(o, "ReduceSum", o.Pow(size, float(ord)), dim, keepdim), 1 / float(ord))


def _variance(o: Builder, x: Ref, dim: tuple, keepdim: bool, correction: float) -> Ref:
    if not dim:
        dim = tuple(range(x.ndim))
    centred = o.Sub(x, reduced(o, "ReduceMean", x, dim, True))
    total = reduced(o, "ReduceSumSquare", centred, dim, keepdim) if dim else o.Mul(centred, centred)
    return o.Div(total, count_less(o, x, dim, correction))


def count_less(o: Builder, x: Ref, dim: tuple, correction: float) -> Ref:
    """How many elements are reduced into one, less a correction, at least 0."""
    extents = [x.shape[d] for d in dim]
    if not any(map(is_open, extents)):
        return o.number(max(math.prod(extents) - correction, 0), x.dtype)
    count = o.cast(o.ReduceProd(o.sizes(extents), keepdims=0), x.dtype)
    return o.Max(o.Sub(count, float(correction)), 0.0)


@row("var")
def var(o: Builder, x: Ref, *, dim: tuple, keepdim: bool, correction: float) -> Ref:
    return _variance(o, x, dim, keepdim, correction)


@row("std")
def std(o: Builder, x: Ref, *, dim: tuple, keepdim: bool, correction: float) -> Ref:
    return o.Sqrt(_variance(o, x, dim, keepdim, correction))


@row("softmax")
def softmax(o: Builder, x: Ref, *, dim: int) -> Ref:
    if not x.ndim:
        return o.number(1, x.dtype)
    return o.Softmax(x, axis=dim)


@row("log_softmax")
def log_softmax(o: Builder, x: Ref, *, dim: int) -> Ref:
    if not x.ndim:
        return o.number(0, x.dtype)
    return o.LogSoftmax(x, axis=dim)


# Running sums


@row("cumsum")
def cumsum(o: Builder, x: Ref, *, dim: int, dtype: Any, reverse: bool) -> Ref:
    if not x.ndim:
        return o.cast(x, dtype) if dtype is not x.dtype else o.Identity(x)
    wide = dtypes.int32 if dtype in _SMALL else dtype
    found = o.CumSum(o.cast(x, wide), o.number(dim, dtypes.int64), reverse=int(reverse) or None)
    return o.cast(found, dtype)


def scan(o: Builder, x: Ref, dim: int, step: Any, start: Any, reverse: bool = False) -> Ref:
    """`y[k] = step(o, y[k - 1], x[k])` along a dimension, from `y[-1] = start`."""
    from rushlight.onnx import loops  # it builds graphs, which only few rows need

    return loops.scan(o, x, dim, step, start, reverse)


@row("cumprod")
def cumprod(o: Builder, x: Ref, *, dim: int, dtype: Any, reverse: bool) -> Ref:
    x = Ref(o.cast(x, dtype).name, dtype, x.meta)
    if not x.ndim:
        return o.Identity(x)
    return scan(o, x, dim, lambda inner, before, now: inner.Mul(before, now), 1, reverse)


@row("logcumsumexp")
def logcumsumexp(o: Builder, x: Ref, *, dim: int) -> Ref:
    if not x.ndim:
        return o.Identity(x)

    def step(inner: Builder, before: Ref, now: Ref) -> Ref:
        return inner.ReduceLogSumExp(inner.Concat(inner.unsqueeze(before, 0), inner.unsqueeze(now, 0), axis=0), (0,),
                                     keepdims=0)

    return scan(o, x, dim, step, -math.inf)


# By order


@row("argmax")
def argmax(o: Builder, x: Ref, *, dim: tuple, keepdim: bool) -> Ref:
    return _position(o, "ArgMax", x, dim, keepdim)


@row("argmin")
def argmin(o: Builder, x: Ref, *, dim: tuple, keepdim: bool) -> Ref:
    return _position(o, "ArgMin", x, dim, keepdim)


def _position(o: Builder, kind: str, x: Ref, dim: tuple, keepdim: bool) -> Ref:
    if not x.ndim:
        return o.number(0, dtypes.int64)
    wide = o.cast(x, dtypes.int32) if x.dtype in _SMALL else x
    if len(dim) == 1:
        return getattr(o, kind)(wide, axis=dim[0], keepdims=int(keepdim))
    found = getattr(o, kind)(o.reshape(wide, (-1,)), axis=0, keepdims=0)
    return o.reshape(found, (1,) * x.ndim) if keepdim else found


def _ordered(o: Builder, x: Ref, count: Any, dim: int, largest: bool) -> tuple[Ref, Ref]:
    wide = o.cast(x, dtypes.int32) if x.dtype in _SMALL else x
    return o.TopK(wide, o.sizes((count,)), axis=dim, largest=int(largest), outputs=2)


@row("argsort")
def argsort(o: Builder, x: Ref, *, dim: int, descending: bool, stable: bool) -> Ref:
    if not x.ndim:
        return o.number(0, dtypes.int64)
    return _ordered(o, x, x.shape[dim], dim, descending)[1]  # of equal elements TopK gives the first one first


@row("topk")
def topk(o: Builder, x: Ref, *, k: Any, dim: int, largest: bool, sorted: bool) -> Ref:
    if not x.ndim:
        return o.number(0, dtypes.int64)
    return _ordered(o, x, k, dim, largest)[1]


@row("kthvalue")
def kthvalue(o: Builder, x: Ref, *, k: int, dim: int) -> Ref:
    if not x.ndim:
        return o.number(0, dtypes.int64)
    return o.slice(_ordered(o, x, k, dim, False)[1], dim, k - 1, k)


@row("median")
def median(o: Builder, x: Ref, *, dim: tuple, keepdim: bool) -> Ref:
    if not x.ndim or not dim:
        return o.Identity(x)
    rest = [d for d in range(x.ndim) if d not in dim]
    flat = o.reshape(o.transpose(x, [*rest, *dim]), [*[x.shape[d] for d in rest], math.prod(x.shape[d] for d in dim)])
    size = math.prod(x.shape[d] for d in dim)
    values, _ = o.TopK(flat, ((size - 1) // 2 + 1,), axis=len(rest), largest=0, outputs=2)
    found = o.slice(values, len(rest), (size - 1) // 2, (size - 1) // 2 + 1)
    found = o.squeeze(found, len(rest))
    if x.dtype.is_floating_point:
        worst = o.ReduceSum(flat, (len(rest),), keepdims=0)  # NaN if there is one
        found = o.Where(o.IsNaN(worst), worst, found)
    if keepdim:
        return o.reshape(found, [1 if d in dim else n for d, n in enumerate(x.shape)])
    return found


@row("median_position")
def median_position(o: Builder, x: Ref, *, dim: int) -> Ref:
    if not x.ndim:
        return o.number(0, dtypes.int64)
    middle = (x.shape[dim] - 1) // 2
    return o.slice(_ordered(o, x, middle + 1, dim, False)[1], dim, middle, middle + 1)


@row("searchsorted")
def searchsorted(o: Builder, boundaries: Ref, x: Any, sorter: Ref | None, *, right: bool, out_int32: bool) -> Ref:
    ndim, kind = boundaries.ndim, boundaries.dtype
    if sorter is not None:
        boundaries = o.GatherElements(boundaries, sorter, axis=-1)
    if not isinstance(x, Ref):
        column = o.number(x, kind)
        rows = boundaries
    else:
        kind = dtypes.promote_types(kind, x.dtype)
        column = o.unsqueeze(o.cast(x, kind), x.ndim)
        rows = o.cast(boundaries, kind)
        if ndim > 1:
            rows = o.unsqueeze(rows, ndim - 1)
    before = o.LessOrEqual(rows, column) if right else o.Less(rows, column)
    count = o.ReduceSum(o.cast(before, dtypes.int64), (-1,), keepdims=0)
    return o.cast(count, dtypes.int32) if out_int32 else count


@row("isin")
def isin(o: Builder, elements: Any, test: Any, *, invert: bool) -> Ref:
    kinds = [x.dtype for x in (elements, test) if isinstance(x, Ref)]
    kind = kinds[0] if len(kinds) == 1 else dtypes.promote_types(*kinds)
    left = o.cast(elements, kind) if isinstance(elements, Ref) else o.number(elements, kind)
    right = o.cast(test, kind) if isinstance(test, Ref) else o.number(test, kind)
    ndim = elements.ndim if isinstance(elements, Ref) else 0
    same = o.Equal(o.unsqueeze(left, ndim), o.reshape(right, (-1,)))
    found = o.ReduceMax(o.cast(same, dtypes.int32), (-1,), keepdims=0)
    return o.Equal(found, 0) if invert else o.cast(found, dtypes.bool)


@row("cummax")
def cummax(o: Builder, x: Ref, *, dim: int) -> Ref:
    return _running(o, x, dim, True)


@row("cummin")
def cummin(o: Builder, x: Ref, *, dim: int) -> Ref:
    return _running(o, x, dim, False)


def _running(o: Builder, x: Ref, dim: int, largest: bool) -> Ref:
    """Positions of the extremes so far, the last one of equals: of the largest number that is reached anew."""
    if not x.ndim:
        return o.number(0, dtypes.int64)
    kind = "Max" if largest else "Min"
    best = scan(o, x, dim, lambda inner, before, now: getattr(inner, kind)(before, now), o.bound(x.dtype, not largest))
    places = o.reshape(o.Range(o.number(0, dtypes.int64), o.squeeze(o.sizes((x.shape[dim],)), 0),
                               o.number(1, dtypes.int64)), [-1 if d == dim else 1 for d in range(x.ndim)])
    reached = o.Equal(x, best)
    if x.dtype.is_floating_point:
        reached = o.Or(reached, o.IsNaN(x))
    marked = o.Where(reached, places, o.number(0, dtypes.int64))
    marked = Ref(marked.name, dtypes.int64, x.meta)
    return scan(o, marked, dim, lambda inner, before, now: inner.Max(before, now), 0)


refuse("ONNX cannot pass over NaN when it sorts", "nanmedian", "nanmedian_position")
refuse("ONNX does not count equal elements", "mode", "histc", "histogram", "bincount")
refuse("it is a checksum of bits", "xor_words")
