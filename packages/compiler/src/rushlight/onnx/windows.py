"""Pooling, windows as columns, and positions in planes."""

from __future__ import annotations

import math

import numpy as np

from rushlight.core import dtypes
from rushlight.onnx.builder import Builder, Ref, is_open
from rushlight.onnx.table import Refused, row
from rushlight.ops.conv import conv_sizes
from rushlight.ops.pool import pooled_sizes

_POOLED = frozenset((dtypes.float16, dtypes.float32, dtypes.float64, dtypes.int8, dtypes.uint8))


@row("max_pool")
def max_pool(o: Builder, x: Ref, *, kernel_size: tuple, stride: tuple, padding: tuple, dilation: tuple,
             ceil_mode: bool) -> tuple[Ref, Ref | None]:
    wide = x.dtype if x.dtype in _POOLED else dtypes.float64 if x.dtype.category == 1 else dtypes.float32
    if any(map(is_open, kernel_size)) and set(dilation) == {1}:
        tiles, within = _tiles(o, o.cast(x, wide), x.shape, kernel_size, stride, padding, ceil_mode)
        return o.cast(o.ReduceMax(tiles, within, keepdims=0), x.dtype), None
    values, places = o.MaxPool(o.cast(x, wide), outputs=2, kernel_shape=list(kernel_size), strides=list(stride),
                               pads=[*padding, *padding], dilations=list(dilation), ceil_mode=int(ceil_mode))
    # ONNX counts through the whole tensor, rushlight through the plane.
    area = o.ReduceProd(o.sizes(x.shape[2:]), keepdims=0)
    return o.cast(values, x.dtype), o.Mod(places, area)


@row("avg_pool")
def avg_pool(o: Builder, x: Ref, *, kernel_size: tuple, stride: tuple, padding: tuple, ceil_mode: bool,
             count_include_pad: bool, divisor: int) -> Ref:
    kind = x.dtype
    x = Ref(o.cast(x, dtypes.float64).name, dtypes.float64, x.meta) if not kind.is_floating_point else x
    if any(map(is_open, kernel_size)) and not divisor:
        tiles, within = _tiles(o, x, x.shape, kernel_size, stride, padding, ceil_mode)
        return o.cast(o.ReduceMean(tiles, within, keepdims=0), kind)
    if divisor or count_include_pad and ceil_mode and any(padding):
        return o.cast(_summed(o, x, kernel_size, stride, padding, ceil_mode, divisor), kind)
    found = o.AveragePool(x, kernel_shape=list(kernel_size), strides=list(stride), pads=[*padding, *padding],
                          ceil_mode=int(ceil_mode), count_include_pad=int(count_include_pad))
    return o.cast(found, kind)


def _tiles(o: Builder, x: Ref, shape: tuple, kernel_size: tuple, stride: tuple, padding: tuple, ceil_mode: bool
           ) -> tuple[Ref, tuple[int, ...]]:
    """Windows of open size that lie side by side, as (N, C, place, within, place, within, ...), and which of these
    dimensions lie within the windows.
    """
    if any(padding) or ceil_mode or any(k.terms != s.terms if is_open(k) and is_open(s) else is_open(k) or k != s
                                        for k, s in zip(kernel_size, stride)):
        raise Refused("the sizes of its windows depend on the inputs, and the windows do not just lie side by side")
    count = len(kernel_size)
    within = o.sizes(kernel_size)
    places = o.Div(o.sizes(shape[2:]), within)
    whole = o.Slice(x, (0,) * count, o.Mul(places, within), tuple(range(2, count + 2)))
    pairs = o.reshape(o.Concat(o.unsqueeze(places, 1), o.unsqueeze(within, 1), axis=1), [-1])
    return o.Reshape(whole, o.Concat(o.sizes(shape[:2]), pairs, axis=0)), tuple(range(3, 2 * count + 3, 2))


def _summed(o: Builder, x: Ref, kernel_size: tuple, stride: tuple, padding: tuple, ceil_mode: bool, divisor: int
            ) -> Ref:
    """The sum of each window over a divisor, or over how many of its places lie in the image and its padding."""
    count, kind = len(kernel_size), x.dtype
    out = pooled_sizes("avg_pool", x.shape[2:], kernel_size, stride, padding, (1,) * count, ceil_mode)
    around, beyond = [0, 0, *padding], [0] * (count + 2) + [0, 0, *kernel_size]  # the last windows may lie beyond

    def pooled(padded: Ref) -> Ref:
        found = o.AveragePool(o.Pad(padded, o.sizes(beyond), o.number(0, kind)), kernel_shape=list(kernel_size),
                              strides=list(stride))
        return o.Slice(found, (0,) * count, o.sizes(out), tuple(range(2, count + 2)))

    mean = pooled(o.Pad(x, o.sizes(around * 2), o.number(0, kind)))
    if divisor:
        return o.Mul(mean, math.prod(kernel_size) / divisor)
    ones = o.Expand(o.number(1, kind), o.sizes([1, 1, *[n + 2 * p for n, p in zip(x.shape[2:], padding)]]))
    return o.Div(mean, pooled(ones))


def _are_open(windows: tuple) -> bool:
    return any(is_open(bound) for spans in windows for span in spans for bound in span)


def _each_window(o: Builder, x: Ref, windows: tuple, kind: str) -> Ref:
    """A reduction of each window, over one dimension after the other."""
    for d, spans in enumerate(windows, 2):
        parts = [getattr(o, kind)(o.slice(x, d, start, end), (d,), keepdims=1) for start, end in spans]
        x = o.Concat(*parts, axis=d) if len(parts) > 1 else parts[0]
    return x


@row("window_mean")
def window_mean(o: Builder, x: Ref, *, windows: tuple) -> Ref:
    count = len(windows)
    if all(len(w) == 1 for w in windows):
        return o.ReduceMean(x, tuple(range(2, count + 2)), keepdims=1)
    if _are_open(windows):
        return _each_window(o, x, windows, "ReduceMean")
    for d, spans in enumerate(windows):  # the mean over a box is the mean over one dimension after the other
        matrix = np.zeros((x.shape[d + 2], len(spans)))
        for i, (start, end) in enumerate(spans):
            matrix[start:end, i] = 1 / (end - start)
        order = [i for i in range(count + 2) if i != d + 2] + [d + 2]
        back = sorted(range(count + 2), key=order.__getitem__)
        moved = o.MatMul(o.transpose(x, order), o.constant(matrix.astype(x.dtype.numpy), x.dtype))
        x = Ref(o.transpose(moved, back).name, x.dtype, x.meta)
    return x


@row("window_max")
def window_max(o: Builder, x: Ref, *, windows: tuple) -> tuple[Ref, Ref | None]:
    count = len(windows)
    wide = x.dtype if x.dtype.is_floating_point else dtypes.int64
    if _are_open(windows):
        return o.cast(_each_window(o, o.cast(x, wide), windows, "ReduceMax"), x.dtype), None
    size = [max(end for _, end in spans) for spans in windows]
    parts, positions = o.cast(x, wide), np.zeros((1,) * 2 * count, np.int64)
    for d, spans in enumerate(windows):  # (N, C, *places, *within)
        longest = max(end - start for start, end in spans)
        # A short window sees its last element again, which changes neither the largest nor where it comes first.
        places = np.array([[min(start + i, end - 1) for i in range(longest)] for start, end in spans])
        axis = 2 + 2 * d
        parts = o.Gather(parts, places, axis=axis)
        shape = [1] * 2 * count
        shape[2 * d], shape[2 * d + 1] = places.shape
        positions = positions * size[d] + places.reshape(shape)
    order = [0, 1, *range(2, 2 + 2 * count, 2), *range(3, 3 + 2 * count, 2)]
    within = math.prod(n for n in positions.shape[1::2])
    flat = o.reshape(o.transpose(parts, order), [*x.shape[:2], *[len(w) for w in windows], within])
    positions = positions.transpose([i - 2 for i in order[2:]]).reshape([len(w) for w in windows] + [-1])
    best = o.ArgMax(flat, axis=2 + count, keepdims=1)
    values = o.GatherElements(flat, best, axis=2 + count)
    spread = o.Expand(o.constant(positions), o.Shape(flat))
    where = o.GatherElements(spread, best, axis=2 + count)
    return o.cast(o.squeeze(values, 2 + count), x.dtype), o.squeeze(where, 2 + count)


@row("im2col")
def im2col(o: Builder, x: Ref, *, kernel_size: tuple, dilation: tuple, padding: tuple, stride: tuple) -> Ref:
    extents = x.shape[2:]
    if any(padding):
        x = Ref(o.Pad(x, o.sizes([0, 0, *padding] * 2), o.number(0, x.dtype)).name, x.dtype, x.meta)
    out = conv_sizes(extents, kernel_size, stride, padding, dilation)
    parts = x
    for d in range(2):  # (N, C, KH, OH, KW, OW)
        first = np.arange(kernel_size[d])[:, None] * dilation[d]
        if is_open(out[d]):
            steps = o.Range(o.number(0, dtypes.int64), o.number(out[d], dtypes.int64), o.number(1, dtypes.int64))
            places = o.Add(o.constant(first), o.Mul(steps, stride[d]))
        else:
            places = o.constant(first + np.arange(out[d]) * stride[d])
        parts = o.Gather(parts, places, axis=2 + 2 * d)
    columns = x.shape[1] * math.prod(kernel_size)
    return o.reshape(o.transpose(parts, [0, 1, 2, 4, 3, 5]), [x.shape[0], columns, math.prod(out)])


@row("col2im")
def col2im(o: Builder, x: Ref, *, size: tuple, kernel_size: tuple, dilation: tuple, padding: tuple, stride: tuple
           ) -> Ref:
    return o.Col2Im(x, o.sizes(size), o.sizes(kernel_size), dilations=list(dilation), pads=[*padding, *padding],
                    strides=list(stride))


def _planes(o: Builder, x: Ref) -> Ref:
    """(N, C, *size) as (N, C, elements)."""
    return o.reshape(x, [x.shape[0], x.shape[1], math.prod(x.shape[2:])])


@row("gather_planes")
def gather_planes(o: Builder, x: Ref, indices: Ref) -> Ref:
    found = o.GatherElements(_planes(o, x), _planes(o, indices), axis=2)
    return o.reshape(found, indices.shape)


@row("place_planes")
def place_planes(o: Builder, x: Ref, indices: Ref, *, size: tuple) -> Ref:
    return _scattered(o, x, indices, size, None)


@row("scatter_planes")
def scatter_planes(o: Builder, x: Ref, indices: Ref, *, size: tuple) -> Ref:
    return _scattered(o, x, indices, size, "add")


def _scattered(o: Builder, x: Ref, indices: Ref, size: tuple, reduction: str | None) -> Ref:
    zeros = o.Expand(o.number(0, x.dtype), o.sizes([*x.shape[:2], math.prod(size)]))
    found = o.ScatterElements(zeros, _planes(o, indices), _planes(o, x), axis=2, reduction=reduction)
    return o.reshape(found, [*x.shape[:2], *size])

