"""Winograd's convolution F(4 x 4, 3 x 3) for 3 x 3 filters with stride 1: a quarter of the multiplications.

A task transforms the tiles of some rows of one or more images, channel by channel, to 36 matrices (channels, tiles) in
the second cache, multiplies each with its matrix of filters, and transforms the products of some filters at a time to
outputs. Nothing is kept in memory but the transformed filters (4 times as large as the filters).

See `winograd_tiles` for the arithmetic and its error.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from rushlight.kernels.cpu import allocator
from rushlight.kernels.cpu.blas import matmul
from rushlight.kernels.cpu.conv_loop import NOTHING, Sizes, loop, scratch, tile_of
from rushlight.kernels.cpu.conv_plan import GRAIN, PACK_GRAIN, Laid, laid_out
from rushlight.kernels.cpu.conv_source import CLAIM, FILLED, PACK, reading
from rushlight.kernels.cpu.pool import get_num_threads
from rushlight.kernels.cpu.team import run_kernel

# Elements of the transformed input of a task: 640 KiB, which stay in the second cache beside a block of filters.
TRANSFORMED = 160 << 10
# Tiles of a task: fewer would read the filters too often, more are no faster.
FEWEST, MOST = 32, 192

CONVOLVE = reading(f"""def kernel(lo, hi, layout, y, x, packed, bias, table, channel_table, scratch, claimed):
    wide_vectors()
    $WORDS
    scratch_size = load(layout, LAST)
    pitch, out_height, out_width, top, left = (
        load(layout, LAST + 1), load(layout, LAST + 2), load(layout, LAST + 3), load(layout, LAST + 4),
        load(layout, LAST + 5),
    )
    front, od, first_column = i64(0), i64(0), i64(0)
    down, across = (out_height + 3) // 4, (out_width + 3) // 4
    bands = (down + rows - 1) // rows
{CLAIM}
    buffer = moved(scratch, mine * slot)
    transformed = moved(buffer, slot - (36 * channels + 36 * ROWS + 16) * pitch)
    products = moved(transformed, 36 * channels * pitch)
    lines_of_output = moved(products, 36 * ROWS * pitch)
    for task in range(i64(lo), i64(hi)):
        first_row = task % bands * rows
        rest = task // bands
        group, first_sample = rest % groups, rest // groups * batch
        some_rows, some_samples = min(rows, down - first_row), min(batch, samples - first_sample)
        count = (some_rows - 1) * span + across
        fill_lines, first_line, some_channels = some_rows + 1, i64(0), i64(1)
        for member in range(some_samples):
            sample = first_sample + member
            for number in range(channels):
                first_channel = group * channels + number
                {FILLED}
                for q in range(0, count, LANES):
                    target = moved(transformed, number * pitch + member * count + q)
                    winograd_input(moved(buffer, q), table, target, channels * pitch)
        tiles = some_samples * count
        for block in range(blocks):
            for k in range(36):
                weights = moved(packed, ((group * blocks + block) * total + k * channels) * ROWS)
                rows_of = moved(transformed, k * channels * pitch)
                target = moved(products, k * ROWS * pitch)
                q = i64(0)
                while q < tiles:
                    if tiles - q > 2 * LANES:
                        outer_tile(weights, moved(rows_of, q), channel_table, channels, moved(target, q), pitch)
                        q += WIDE
                    else:
                        outer_vector(weights, moved(rows_of, q), channel_table, channels, moved(target, q), pitch)
                        q += LANES
            for row in range(min(ROWS, filters - block * ROWS)):
                filter = group * filters + block * ROWS + row
                added = T(0.0)
                if biased:
                    added = load(bias, filter)
                for q in range(0, tiles, LANES):
                    source = moved(products, row * pitch + q)
                    winograd_output(source, ROWS * pitch, moved(lines_of_output, 4 * q), 4 * pitch)
                for member in range(some_samples):
                    for line in range(some_rows):
                        source = 4 * (member * count + line * span)
                        oh = (first_row + line) * 4
                        target = (first_sample + member) * y_sample + filter * y_filter + oh * y_row
                        for k in range(min(4, out_height - oh)):
                            for q in range(0, out_width, 16):
                                value = vadd(vload(lines_of_output, source + q, 16), splat(added, 16))
                                vstore_below(y, target + q, value, out_width - q)
                            source += 4 * pitch
                            target += y_row
    atomic_store(claimed, 8 * mine, 0)
""")


class _Plan(NamedTuple):
    layout: np.ndarray
    table: np.ndarray
    channel_table: np.ndarray
    weights: np.ndarray
    packing: np.ndarray
    packed: int
    blocks: int
    tasks: int
    grain: int
    slot: int


@lru_cache(maxsize=512)
def _plan(x: Laid, y: Laid, groups: int, padding: Sizes, tile: Sizes, threads: int, biased: bool) -> _Plan:
    rows_of_tile, vectors, lanes = tile[:3]
    samples, channels, filters = x.shape[0], x.shape[1] // groups, y.shape[1] // groups
    height, width = y.shape[2:]
    down, across = -(-height // 4), -(-width // 4)
    span = across + 1
    most = max(FEWEST, min(MOST, TRANSFORMED // (36 * channels)))
    rows = max(1, min(down, (most - across) // span + 1))
    rows = -(-down // -(-down // rows))
    count = (rows - 1) * span + across
    batch = max(1, min(samples, most // count)) if rows == down else 1
    pitch = -(-batch * count // 16) * 16 + vectors * lanes
    blocks, total = -(-filters // rows_of_tile), 36 * channels
    lines = rows + 1
    slot = -(-(16 * lines * span + 2 * lanes) // 16) * 16 + (36 * channels + 36 * rows_of_tile + 16) * pitch
    words = (
        samples, groups, channels, filters, blocks, 1, 1, *x.shape[2:], *x.steps, 1, 4, 4, 1, 1, 4, 4,
        lines, span, rows, across, 1, batch, 0, *y.steps, total, slot, biased, 0, 0, 0, 0, 0, 1,
    )  # fmt: skip
    area = lines * span
    table = [(i % 4 * 4 + j % 4) * area + i // 4 * span + j // 4 for i in range(6) for j in range(6)]
    tasks = -(-samples // batch) * groups * -(-down // rows)
    return _Plan(
        np.array([*words, slot * threads, pitch, height, width, -padding[0], -padding[1]], np.int64),
        np.array(table, np.int64),
        np.arange(channels, dtype=np.int64) * pitch,
        (np.arange(36)[:, None] + np.arange(channels) * 36).ravel(),
        np.array([filters, blocks, total, filters * channels * 36, channels * 36], np.int64),
        groups * blocks * rows_of_tile * total,
        groups * blocks,
        tasks,
        max(1, GRAIN // max(1, batch * count * total * filters)),
        slot,
    )


@cache
def _filter_transform(dtype: np.dtype) -> np.ndarray:
    """The matrix (9, 36) that makes filters to what their tiles are multiplied with."""
    from rushlight.kernels.cpu.winograd_tiles import filter_transform  # loads llvmlite

    once = filter_transform()
    return np.ascontiguousarray(np.kron(once, once).T.astype(dtype))


def pays(x: np.ndarray, channels: int, filters: int, kernel: Sizes, out: Sizes, stride: Sizes, dilation: Sizes) -> bool:
    """Is this way open, and faster than sums over windows?

    Measured on Sapphire Rapids with 2 threads, time over that of the plain loops: 0.53 (128 channels, 256 filters, 28 x
    28), 0.67 (64, 64, 56 x 56), 0.89 (32, 32, 56 x 56), 0.85 (64, 64, 20 x 20); but 1.35 (64, 64, 14 x 14: few tiles in
    a row), 1.3 (16, 16, 32 x 32: transforms cost more than they save), 1.5 (256, 256, 14 x 14: the filters, four times
    as large, do not stay in the second cache).
    """
    return (
        kernel == (3, 3)
        and stride == dilation == (1, 1)
        and x.dtype == np.float32
        and min(channels, filters) >= 24
        and channels * filters <= 40_000
        and out[1] >= 20
        and 36 * channels * -(-out[1] // 4) <= 2 * TRANSFORMED  # a row of tiles at least is transformed at once
        and x.shape[0] * out[0] * out[1] >= 1600
    )


def conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, out: Sizes, padding: Sizes, groups: int) -> np.ndarray:
    """`conv` with 3 x 3 filters and stride 1."""
    dtype, threads = x.dtype, get_num_threads()
    y = allocator.empty((x.shape[0], w.shape[0], *out), dtype)
    plan = _plan(laid_out(x), laid_out(y), groups, padding, tile_of(dtype), threads, bias is not None)
    evaluated = matmul(np.ascontiguousarray(w).reshape(-1, 9), _filter_transform(dtype))
    packed = allocator.empty((plan.packed,), dtype)
    grain = max(1, PACK_GRAIN * plan.blocks // plan.packed)
    run_kernel(loop(PACK, "TTi", dtype), plan.blocks, grain, plan.packing, packed, evaluated, plan.weights)
    added = NOTHING if bias is None else np.ascontiguousarray(bias)
    run_kernel(
        loop(CONVOLVE, "TTTTiiTi", dtype), plan.tasks, plan.grain,
        plan.layout, y, x, packed, added, plan.table, plan.channel_table, *scratch(plan.slot, threads, dtype),
    )  # fmt: skip
    return y
