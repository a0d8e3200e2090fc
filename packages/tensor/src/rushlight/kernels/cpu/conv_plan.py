"""Where a convolution finds its operands: the tables and numbers that the loops of `conv_source` read.

A plan depends on shapes and strides only and is kept. `_Axis` describes one dimension: which element of the padded
input an output meets with a tap of the kernel. A transposed convolution of stride s is s interleaved convolutions of
stride 1 (per dimension), one per remainder of the output's position: these are its phases.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from rushlight.kernels.cpu.conv_source import WORDS

Sizes = tuple[int, ...]

# Elements of a task's buffer: 256 KiB of float32, which leaves room for the weights in the second cache.
BUFFER = 1 << 16
# Most outputs per filter of a task (their sums wait in the cache for the bias), and most of a row.
BLOCK, WIDEST = 2048, 512


class _Part(NamedTuple):
    """Outputs `first_output`, + `step`, ... of one dimension (`count` of them): output i begins at `start` + i * stride
    in the input and meets taps as (tap, place in the buffer's part, part)."""

    count: int
    start: int
    first_output: int
    taps: tuple[Sizes, ...]


class _Axis(NamedTuple):
    """One dimension: its parts, and what their buffers share."""

    parts: tuple[_Part, ...]
    stride: int  # of the input
    step: int  # of the output
    reach: int  # places of a part that an output reaches beyond its own
    pieces: int  # parts that the buffer is split into by the stride
    size: int  # of the input

    def between(self) -> int:
        """Places of a part that two neighbouring rows of it need between their outputs: zeros behind the one are those
        before the other."""
        if self.stride > 1 or len(self.parts) != 1:
            return self.reach
        (part,) = self.parts
        behind = part.start + part.count + self.reach - self.size
        return self.reach - max(0, min(-part.start, behind, self.reach))


def _forward(size: int, kernel: int, out: int, stride: int, padding: int, dilation: int) -> _Axis:
    taps = tuple([(t, t * dilation // stride, t * dilation % stride) for t in range(kernel)])
    part = _Part(out, -padding, 0, taps)
    return _Axis((part,), stride, 1, (kernel - 1) * dilation // stride, min(stride, (kernel - 1) * dilation + 1), size)


def _transposed(size: int, kernel: int, out: int, stride: int, padding: int, dilation: int) -> _Axis:
    reach = (kernel - 1) * dilation // stride
    parts = []
    for rest in range(stride):
        first, last = -((rest - padding) // stride), (out - 1 + padding - rest) // stride
        taps = [(t, reach - t * dilation // stride, 0) for t in range(kernel) if t * dilation % stride == rest]
        if last >= first:
            parts.append(_Part(last - first + 1, first - reach, stride * first + rest - padding, tuple(taps)))
    return _Axis(tuple(parts), 1, stride, reach, 1, size)


class Plan(NamedTuple):
    """What one call hands to the loops."""

    layout: np.ndarray
    table: np.ndarray  # per weight of a filter: where its element is in the buffer
    weights: np.ndarray  # and where it is in the array of weights
    packing: np.ndarray
    packed: int  # elements of the packed weights
    per_block: int  # and of a block of rows
    pack_grain: int
    tasks: int
    grain: int
    slot: int  # elements of scratch memory per thread


class Laid(NamedTuple):
    """Shape of an array, and its element strides (N, C, D, H, W); missing dimensions have none."""

    shape: Sizes
    steps: Sizes


def laid_out(x: np.ndarray) -> Laid:
    """Where the elements of an array lie."""
    size = x.itemsize
    steps = [step // size for step in x.strides]
    return Laid(x.shape, (*steps[:2], *[0] * (5 - x.ndim), *steps[2:]))


def spaced(values: Sizes, fill: int) -> Sizes:
    return (fill,) * (3 - len(values)) + values


@lru_cache(maxsize=512)
def forward(x: Laid, w: Laid, y: Laid, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, tile: Sizes,
            threads: int, biased: bool) -> Plan:  # fmt: skip
    """The plan of y = conv(x, w)."""
    axes = tuple(map(_forward, *_three(x.shape[2:], w.shape[2:], y.shape[2:], stride, padding, dilation)))
    filters, channels = w.shape[0] // groups, w.shape[1]
    steps = (w.steps[1], w.steps[0] * filters, w.steps[0], *w.steps[2:])
    slices = (w.shape[2], dilation[0]) if len(w.shape) == 5 else None
    return _plan(x, y, channels, filters, steps, axes, groups, tile, threads, biased, slices)


@lru_cache(maxsize=512)
def transposed(x: Laid, w: Laid, y: Laid, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, tile: Sizes,
               threads: int, biased: bool) -> Plan:  # fmt: skip
    """The plan of y = conv_transpose(x, w)."""
    axes = tuple(map(_transposed, *_three(x.shape[2:], w.shape[2:], y.shape[2:], stride, padding, dilation)))
    channels, filters = w.shape[0] // groups, w.shape[1]
    steps = (w.steps[0], w.steps[0] * channels, w.steps[1], *w.steps[2:])
    return _plan(x, y, channels, filters, steps, axes, groups, tile, threads, biased, None)


def _three(size: Sizes, kernel: Sizes, out: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> tuple[Sizes, ...]:
    return (
        spaced(size, 1),
        spaced(kernel, 1),
        spaced(out, 1),
        spaced(stride, 1),
        spaced(padding, 0),
        spaced(dilation, 1),
    )


def _plan(
    x: Laid, y: Laid, channels: int, filters: int,
    w_steps: Sizes,  # of an input channel, a group, a filter, and of the dimensions of the kernel
    axes: tuple[_Axis, ...], groups: int, tile: Sizes, threads: int, biased: bool, slices: Sizes | None,
) -> Plan:  # fmt: skip
    rows_of_tile, vectors, lanes = tile[:3]
    depth, height, width = axes
    if slices is not None:  # only the slices that meet a tap are copied, one after the other
        (part,) = depth.parts
        depth = depth._replace(
            parts=(part._replace(taps=tuple([(t, t, 0) for t, _, _ in part.taps])),), reach=slices[0] - 1
        )
    slice_count, slice_step = slices or (depth.reach + 1, 1)
    samples = x.shape[0]
    pieces = height.pieces * width.pieces
    least = channels * slice_count * pieces * (height.reach + 1)  # elements of a column of outputs
    columns = min(max([part.count for part in width.parts], default=1), WIDEST, max(32, 4 * BUFFER // least))
    # A row of the buffer per channel; as many rows of outputs as the buffer holds, but work for all threads.
    span = columns + (width.between() if columns == width.parts[0].count else width.reach)
    each = channels * slice_count * pieces * span
    most = max([part.count for part in height.parts], default=1)
    rows = max(1, min(most, BUFFER // each - height.reach, BLOCK // span))
    split = -(-4 * threads // (samples * groups))
    rows = min(rows, max(-(-most // split), min(4, rows)))
    rows = -(-most // -(-most // rows))
    advance, batch = rows + height.between(), 1
    if rows == most and len(depth.parts) == len(height.parts) == len(width.parts) == depth.parts[0].count == 1:
        # Small images are worked on together.
        most = min((BUFFER * 5 // 4 // each - height.reach - rows) // advance + 1, BLOCK // (advance * span))
        batch = max(1, min(most, samples, samples * groups // (4 * threads)))
    lines = (batch - 1) * advance + rows + height.reach
    blocks = -(-filters // rows_of_tile)

    table, weights, phases, tasks = [], [], [], 0
    area = lines * span
    by_slice = pieces * area
    for d, h, w in product(depth.parts, height.parts, width.parts):
        taps = [
            (z * by_slice + (hp * width.pieces + wp) * area + hi * span + wi,
             td * w_steps[3] + th * w_steps[4] + tw * w_steps[5])
            for (td, z, _), (th, hi, hp), (tw, wi, wp) in product(d.taps, h.taps, w.taps)
        ]  # fmt: skip
        first = sum([len(places) for places in table])
        place, source = np.array(taps, np.int64).reshape(-1, 2).T
        channel = np.arange(channels)[:, None]
        table.append((channel * slice_count * by_slice + place).ravel())
        weights.append((channel * w_steps[0] + source).ravel())
        first_output = sum(part.first_output * step for part, step in zip((d, h, w), y.steps[2:]))
        phases.append(
            (tasks, d.count, h.count, w.count, d.start, h.start, w.start, first, len(table[-1]), first_output)
        )
        tasks += -(-samples // batch) * groups * d.count * -(-h.count // rows) * -(-w.count // columns)
    parts = max(1, min(blocks, 2 * threads // max(1, tasks)))
    if parts > 1:
        phases = [(first * parts, *others) for first, *others in phases]
    total = sum([len(places) for places in table])
    slot = channels * slice_count * by_slice + vectors * lanes + width.reach + lanes
    slot += rows_of_tile * (((batch - 1) * advance + rows - 1) * span + columns + vectors * lanes)
    slot = -(-slot // 16) * 16
    words = dict(
        zip(
            WORDS,
            (samples, groups, channels, filters, blocks, parts, *spaced(x.shape[2:], 1), *x.steps,
             depth.stride, height.stride, width.stride, slice_count, slice_step, height.pieces, width.pieces,
             lines, span, rows, columns, height.reach, batch, advance, *y.steps[:2],
             *(step * axis.step for step, axis in zip(y.steps[2:], axes)),
             total, slot, biased, 0, 0, 0, 0, 0, len(phases)),
            strict=True,
        )
    )  # fmt: skip
    work = batch * rows * columns * filters * total // max(1, parts * len(phases))
    return Plan(
        np.array([*words.values(), slot * threads, *sum(phases, ())], np.int64),
        np.concatenate([*table, np.zeros(0, np.int64)]),
        np.concatenate([*weights, np.zeros(0, np.int64)]),
        np.array([filters, blocks, total, w_steps[1], w_steps[2]], np.int64),
        groups * blocks * rows_of_tile * total,
        rows_of_tile * total,
        max(1, PACK_GRAIN // (rows_of_tile * max(1, total))),
        tasks * parts,
        max(1, GRAIN // max(1, work)),
        slot,
    )


# Weights to a piece of work that packs them.
PACK_GRAIN = 1 << 15
# Multiply-adds of a piece of work: about 20 us.
GRAIN = 1 << 20


class WeightPlan(NamedTuple):
    """What one call hands to the loop for the weights' gradient."""

    layout: np.ndarray
    table: np.ndarray
    chunks: int  # of samples: each has a result of its own
    tasks: int
    grain: int
    slot: int


# Tasks that the gradient of weights is cut into, whatever the number of threads: sums must not depend on it.
TASKS = 32
# Filters, and taps of them, whose sums are made together.
FILTERS, TAPS = 64, 288
# Outputs of a filter that are in the buffer at a time, so that the rows of a tile are in the first cache.
LINE = 1024
# Most elements of the results of all chunks.
CHUNKS = 1 << 18


@lru_cache(maxsize=512)
def by_weight(x: Laid, g: Laid, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, tile: Sizes,
              threads: int) -> WeightPlan:  # fmt: skip
    """The plan of the gradient of conv(x, w) by w."""
    axes = tuple(map(_forward, *_three(x.shape[2:], kernel, g.shape[2:], stride, padding, dilation)))
    slices = (kernel[0], dilation[0]) if len(kernel) == 3 else (1, 1)
    lanes, few, some = tile[2:]
    (depth, height, width), taps = axes, prod(kernel)
    samples, channels, filters = x.shape[0], x.shape[1] // groups, g.shape[1] // groups
    pieces = height.pieces * width.pieces
    (d,), (h,), (w,) = (axis.parts for axis in axes)
    columns = min(WIDEST, w.count)
    span = columns + (width.between() if columns == w.count else width.reach)
    filter_block = min(filters, FILTERS)
    channel_block = min(channels, max(1, -(-TAPS // taps)))
    rows = max(1, min(h.count, LINE // span))
    rows = -(-h.count // -(-h.count // rows))
    blocks = groups * -(-channels // channel_block) * -(-filters // filter_block)
    advance = rows + height.between()
    most_chunks = CHUNKS // (groups * filters * channels * taps)
    long_enough = max(-(-TASKS // (4 * blocks)), samples * h.count * w.count // LINE)  # short rows of sums do not pay
    chunks = max(1, min(samples, -(-TASKS // blocks), most_chunks, long_enough))
    chunk = -(-samples // chunks)
    chunks = -(-samples // chunk)
    whole = rows == h.count and columns == w.count
    batch = max(1, min(chunk, LINE // (advance * span))) if whole else 1
    batch = -(-chunk // -(-chunk // batch))
    lines = (batch - 1) * advance + rows + height.reach
    area = lines * span
    by_slice = pieces * area
    places = [
        channel * slices[0] * by_slice + z * by_slice + (hp * width.pieces + wp) * area + hi * span + wi
        for channel in range(channel_block)
        for (z, _, _), (_, hi, hp), (_, wi, wp) in product(d.taps, h.taps, w.taps)
    ]
    most, wide = -(-filter_block // few) * few, -(-len(places) // some) * some
    places += places[:1] * (wide - len(places))
    pitch = -(-lines * span // lanes) * lanes
    room = -(-(channel_block * slices[0] * by_slice + 2 * lanes + width.reach) // 16) * 16
    slot = room + -(-most * (pitch + wide) // 16) * 16
    words = (
        samples, groups, channels, filters, 0, 0, *spaced(x.shape[2:], 1), *x.steps,
        depth.stride, height.stride, width.stride, *slices, height.pieces, width.pieces,
        lines, span, rows, columns, height.reach, batch, advance, *g.steps, 0, slot, 0,
        chunks, chunk, channel_block, filter_block, taps, 1,
    )  # fmt: skip
    phase = (0, d.count, h.count, w.count, d.start, h.start, w.start, 0, 0, 0)
    work = chunk * d.count * h.count * w.count * filter_block * channel_block * taps
    return WeightPlan(
        np.array([*words, slot * threads, *phase], np.int64), np.array(places, np.int64), chunks, chunks * blocks,
        max(1, GRAIN // max(1, work)), slot,
    )  # fmt: skip
