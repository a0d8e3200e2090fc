"""Views, joins and copies: shapes change, elements do not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.meta import contiguous_strides
from rushlight.onnx.builder import Builder, Ref, is_open, same_size
from rushlight.onnx.table import Refused, refuse, row


@row("alias", "detach")
def same(o: Builder, x: Ref) -> Ref:
    return x


@row("view")
def view(o: Builder, x: Ref, *, shape: tuple) -> Ref:
    return o.reshape(x, shape)


@row("permute")
def permute(o: Builder, x: Ref, *, dims: tuple[int, ...]) -> Ref:
    return o.transpose(x, dims)


@row("expand")
def expand(o: Builder, x: Ref, *, shape: tuple) -> Ref:
    lead = len(shape) - x.ndim
    if not lead and all(map(same_size, x.shape, shape)):
        return x
    # Expand broadcasts both ways, so a size that stays may be 1.
    wanted = [1 if d >= lead and same_size(x.shape[d - lead], size) else size for d, size in enumerate(shape)]
    return o.Expand(x, o.sizes(wanted))


@row("select")
def select(o: Builder, x: Ref, index: int | Ref, *, dim: int) -> Ref:
    return o.Gather(x, o.number(index, dtypes.int64) if not isinstance(index, Ref) else index, axis=dim)


@row("slice")
def slice_(o: Builder, x: Ref, start: Any, *, dim: int, length: Any, step: int) -> Ref:
    return o.slice(x, dim, start, start + length * step, step)


@row("split")
def split(o: Builder, x: Ref, *, sizes: tuple, dim: int) -> tuple[Ref, ...]:
    if len(sizes) == 1:
        return (o.Identity(x),)
    found = o.Split(x, o.sizes(sizes), outputs=len(sizes), axis=dim)
    return found if isinstance(found, tuple) else (found,)


@row("unbind")
def unbind(o: Builder, x: Ref, *, dim: int) -> tuple[Ref, ...]:
    return tuple([o.Gather(x, o.number(i, dtypes.int64), axis=dim) for i in range(x.shape[dim])])


@row("diagonal")
def diagonal(o: Builder, x: Ref, *, offset: int, dim1: int, dim2: int) -> Ref:
    rows, columns = x.shape[dim1], x.shape[dim2]
    length = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    rest = [d for d in range(x.ndim) if d not in (dim1, dim2)]
    lead = [x.shape[d] for d in rest]
    flat = o.reshape(o.transpose(x, [*rest, dim1, dim2]), [*lead, rows * columns])
    first = offset if offset >= 0 else -offset * columns
    return o.Gather(flat, np.arange(length) * (columns + 1) + first, axis=len(rest))


@row("unfold")
def unfold(o: Builder, x: Ref, *, dim: int, size: int, step: int) -> Ref:
    if not x.ndim:
        return o.reshape(x, (1,)) if size else o.slice(o.reshape(x, (1,)), 0, 0, 0)
    count = (x.shape[dim] - size) // step + 1
    if is_open(count):
        places: Any = o.Add(o.Mul(o.range(count, 1), step), np.arange(size))
    else:
        places = np.arange(count)[:, None] * step + np.arange(size)
    windows = o.Gather(x, places, axis=dim)  # the window's elements come right after their dimension
    return o.transpose(windows, [d for d in range(x.ndim + 1) if d != dim + 1] + [dim + 1])


@row("as_strided")
def as_strided(o: Builder, x: Ref, *, size: tuple, stride: tuple, storage_offset: int, own_offset: int) -> Ref:
    strides = x.meta.strides
    order = sorted(range(x.ndim), key=lambda d: (-strides[d], d))
    shape = [x.shape[d] for d in order]
    if tuple(strides[d] for d in order) != contiguous_strides(tuple(shape)):
        raise Refused("as_strided of a tensor with gaps: ONNX tensors have no strides")
    flat = o.reshape(o.transpose(x, order), (-1,))
    places = np.full(size, storage_offset - own_offset, np.int64)
    for d, (n, s) in enumerate(zip(size, stride)):
        places = places + (np.arange(n) * s).reshape([-1 if i == d else 1 for i in range(len(size))])
    if places.size and (places.min() < 0 or places.max() >= math.prod(shape)):
        raise Refused("as_strided that reads outside of its operand: ONNX tensors share no memory")
    return o.Gather(flat, places, axis=0)


@row("cat")
def cat(o: Builder, *tensors: Ref, dim: int) -> Ref:
    kind = tensors[0].dtype
    for x in tensors[1:]:
        kind = dtypes.promote_types(kind, x.dtype)
    real = [x for x in tensors if x.ndim > 1 or x.shape != (0,)] or list(tensors[:1])
    return o.Concat(*[o.cast(x, kind) for x in real], axis=dim)


@row("stack")
def stack(o: Builder, *tensors: Ref, dim: int) -> Ref:
    kind = tensors[0].dtype
    for x in tensors[1:]:
        kind = dtypes.promote_types(kind, x.dtype)
    return o.Concat(*[o.unsqueeze(o.cast(x, kind), dim) for x in tensors], axis=dim)


@row("convert")
def convert(o: Builder, x: Ref, *, dtype: Any, device: Any, layout: Any) -> Ref:
    return o.cast(x, dtype) if dtype is not x.dtype else o.Identity(x)


@row("flip")
def flip(o: Builder, x: Ref, *, dims: tuple[int, ...]) -> Ref:
    if not dims:
        return o.Identity(x)
    ones = (-1,) * len(dims)
    return o.Slice(x, ones, o.sizes([-1 - x.shape[d] for d in dims]), tuple(dims), ones)


@row("pad")
def pad(o: Builder, x: Ref, value: Any, *, before: tuple, after: tuple) -> Ref:
    cut = [d for d in range(len(before)) if before[d] < 0 or after[d] < 0]
    if cut:
        starts = [max(-before[d], 0) for d in cut]
        ends = [x.shape[d] - max(-after[d], 0) for d in cut]
        x = o.Slice(x, o.sizes(starts), o.sizes(ends), tuple(cut))
    amounts = [max(b, 0) for b in before] + [max(a, 0) for a in after]
    if not any(amounts):
        return x if cut else o.Identity(x)
    wide = _padded_type(o, x)
    fill = o.cast(value, wide.dtype) if isinstance(value, Ref) else o.number(value, wide.dtype)
    return o.cast(o.Pad(wide, o.sizes(amounts), fill), x.dtype)


def _padded_type(o: Builder, x: Ref) -> Ref:
    """The value in a type of which runtimes pad tensors."""
    return o.cast(x, dtypes.int32) if x.dtype in (dtypes.bool, dtypes.int8, dtypes.int16) else x


@row("pad_mode")
def pad_mode(o: Builder, x: Ref, *, before: tuple, after: tuple, mode: str) -> Ref:
    if mode == "circular":
        raise Refused("openvino and versions of ONNX before 19 do not pad so")
    amounts = [max(n, 0) for n in (*before, *after)]
    made = _padded_type(o, x)
    if any(amounts):
        made = o.Pad(made, o.sizes(amounts), mode="edge" if mode == "replicate" else mode)
    for d, (b, a) in enumerate(zip(before, after)):
        if min(b, a) < 0:  # what is cut off is still mirrored
            made = o.slice(made, d, max(-b, 0), x.shape[d] + max(b, 0) + a if a < 0 else np.iinfo(np.int64).max)
    return o.cast(made, x.dtype)


@row("slice_backward")
def slice_backward(o: Builder, grad: Ref, start: int, *, dim: int, size: Any, step: int) -> Ref:
    if step != 1:
        shape = [size if d == dim else n for d, n in enumerate(grad.shape)]
        places = np.arange(grad.shape[dim]) * step + start
        index = places.reshape([-1 if d == dim else 1 for d in range(grad.ndim)])
        zeros = o.Expand(o.number(0, grad.dtype), o.sizes(shape))
        return o.ScatterElements(zeros, o.Expand(o.constant(index), o.sizes(grad.shape)), grad, axis=dim)
    before = [start if d == dim else 0 for d in range(grad.ndim)]
    after = [size - start - n if d == dim else 0 for d, n in enumerate(grad.shape)]
    return o.Pad(grad, o.sizes([*before, *after]), o.number(0, grad.dtype))


@row("diagonal_backward")
def diagonal_backward(o: Builder, grad: Ref, *, shape: tuple, offset: int, dim1: int, dim2: int) -> Ref:
    rows, columns = shape[dim1], shape[dim2]
    rest = [d for d in range(len(shape)) if d not in (dim1, dim2)]
    lead = [shape[d] for d in rest]
    length = grad.shape[-1]
    first = offset if offset >= 0 else -offset * columns
    places = np.arange(length) * (columns + 1) + first
    zeros = o.Expand(o.number(0, grad.dtype), o.sizes([*lead, rows * columns]))
    flat = o.ScatterElements(zeros, o.Expand(o.constant(places), o.sizes(grad.shape)), grad, axis=len(rest))
    matrices = o.reshape(flat, [*lead, rows, columns])
    at = {d: i for i, d in enumerate([*rest, dim1, dim2])}
    return o.transpose(matrices, [at[d] for d in range(len(shape))])


refuse("ONNX cannot read an element's bits as another type", "view_dtype")
