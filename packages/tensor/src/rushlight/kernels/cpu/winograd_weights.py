"""The gradient of 3 x 3 filters by Winograd's tiles: a quarter of the multiplications.

A tile of 4 x 4 outputs meets 6 x 6 elements of the input and gives 3 x 3 sums, as if it were a filter of four taps. At
the points the sums over all tiles are 36 products of matrices, (filters, tiles) by (tiles, channels), and only the sums
are transformed back. See `winograd` for the convolution itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from rushlight.kernels.cpu import allocator, gemm_kernels, native
from rushlight.kernels.cpu.conv_loop import Sizes, scratch, tile_of
from rushlight.kernels.cpu.conv_source import CLAIM, reading
from rushlight.kernels.cpu.pool import get_num_threads
from rushlight.kernels.cpu.team import run_kernel
from rushlight.kernels.cpu.winograd import by_rows, places, samples_at_a_time
from rushlight.kernels.cpu.winograd_source import evaluate

# Tiles that are multiplied at a time, channels and filters whose products a task adds up.
TILES, CHANNELS, FILTERS = 48, 64, 64
# Tasks that the sums are cut into, whatever the number of threads; tiles that a task has at least.
TASKS, LEAST = 16, 192

# `chunk`: tiles of a task; `line`: between lines at one point and the next; `tap_pitch`, `input_pitch`, `pitch`:
# between all that is at one point and the next of the gradient, the input and their products.
WORDS = (
    "groups channels filters height width x_sample x_channel x_row g_sample g_filter g_row out_height out_width top "
    "left down across tiles chunk channel_block filter_block line tap_pitch input_pitch pitch tile slot scratch_size"
).split()

_SUMS = f"""def kernel(lo, hi, layout, result, x, g, scratch, claimed):
    wide_vectors()
    $WORDS
    starts, here = stack_array(i64, TILES), stack_array(i64, LANES)
    pieces, edge = stack_array(i64, PIECES), stack_array(T, EDGE)
    one = T(1.0)
{CLAIM}
    lines_of = moved(scratch, mine * slot)
    turned = moved(lines_of, COLUMNS * 6 * line)
    taps = moved(turned, COLUMNS * 6 * line)
    inputs = moved(taps, 36 * tap_pitch)
    sums = moved(inputs, 36 * input_pitch)
    row_pitch = (channel_block + COLUMNS - 1) // COLUMNS * COLUMNS
    channel_blocks = (channels + channel_block - 1) // channel_block
    filter_blocks = (filters + filter_block - 1) // filter_block
    for k in few(LANES):
        scratch_store(here, k, k * 12)
    for k in range(COLUMNS * 6 * line):  # columns of channels that are not there
        scratch_store(lines_of, k, T(0.0))
    for task in range(i64(lo), i64(hi)):
        first_channel = task % channel_blocks * channel_block
        rest = task // channel_blocks
        first_filter = rest % filter_blocks * filter_block
        rest //= filter_blocks
        group, part = rest % groups, rest // groups
        some_channels = min(channel_block, channels - first_channel)
        some_filters = min(filter_block, filters - first_filter)
        for k in range(36 * pitch):
            scratch_store(sums, k, T(0.0))
        last = min(tiles, (part + 1) * chunk)
        for first in range(part * chunk, last, TILES):
            some_tiles = min(TILES, last - first)
            # Tiles side by side are a piece: where its channels begin, first row and column, columns, place in a line;
            # the same of the gradient.
            found, at, k = i64(0), i64(0), i64(0)
            while k < some_tiles:
                column, row = (first + k) % across, (first + k) // across % down
                sample = (first + k) // across // down
                beside = min(across - column, some_tiles - k)
                scratch_store(pieces, found, sample * x_sample + (group * channels + first_channel) * x_channel)
                scratch_store(pieces, found + 1, row * 4 + top)
                scratch_store(pieces, found + 2, column * 4 + left)
                scratch_store(pieces, found + 3, beside * 4 + 2)
                scratch_store(pieces, found + 4, at)
                scratch_store(pieces, found + 5, sample * g_sample + (group * filters + first_filter) * g_filter)
                scratch_store(pieces, found + 6, row * 4)
                scratch_store(pieces, found + 7, column * 4)
                scratch_store(pieces, found + 8, k * 4)
                for j in few(beside):
                    scratch_store(starts, k + j, at + j * 4)
                found, at, k = found + 9, at + beside * 4 + 6, k + beside
            used = at
            for row in range(some_filters):
                for piece in few(0, found, 9):
                    first_row, first_column = scratch_load(pieces, piece + 6), scratch_load(pieces, piece + 7)
                    base = scratch_load(pieces, piece + 5) + row * g_filter + first_row * g_row + first_column
                    columns, at = scratch_load(pieces, piece + 3) - 2, scratch_load(pieces, piece + 8)
                    for q in few(0, columns, LANES):
                        source, far = base + q, out_width - first_column - q
                        if far >= LANES and first_row + 4 <= out_height:
                            g0, g1 = vload(g, source, LANES), vload(g, source + g_row, LANES)
                            g2, g3 = vload(g, source + 2 * g_row, LANES), vload(g, source + 3 * g_row, LANES)
                        else:
                            g0 = vload_between(g, source, 0, far, LANES)
                            end = far if first_row + 1 < out_height else i64(0)
                            g1 = vload_between(g, source + g_row, 0, end, LANES)
                            end = far if first_row + 2 < out_height else i64(0)
                            g2 = vload_between(g, source + 2 * g_row, 0, end, LANES)
                            end = far if first_row + 3 < out_height else i64(0)
                            g3 = vload_between(g, source + 3 * g_row, 0, end, LANES)
                        winograd_taps_down(g0, g1, g2, g3, moved(turned, at + q), line)
                for q in few(0, some_tiles, LANES):
                    winograd_taps_along(moved(turned, 4 * q), line, moved(taps, row * TILES + q), tap_pitch)
            for block in range(0, some_channels, COLUMNS):
                for channel in range(min(COLUMNS, some_channels - block)):
                    lines = moved(lines_of, channel * 6 * line)
                    for piece in few(0, found, 9):
                        first_row, first_column = scratch_load(pieces, piece + 1), scratch_load(pieces, piece + 2)
                        base = scratch_load(pieces, piece) + (block + channel) * x_channel
                        base += first_row * x_row + first_column
                        columns, at = scratch_load(pieces, piece + 3), scratch_load(pieces, piece + 4)
                        between = first_row >= 0 and first_row + 5 < height
                        for q in few(0, columns, LANES):
                            source, near = base + q, -first_column - q
                            far = width + near
                            $EVALUATE
                for i in few(6):
                    for q in range(0, used, LANES):
                        for k in few(0, COLUMNS, LANES):
                            target = moved(turned, (i * line + q) * COLUMNS + k)
                            transpose_block(moved(lines_of, (k * 6 + i) * line + q), 6 * line, target, COLUMNS)
                for number in range(some_tiles):
                    for k in few(0, COLUMNS, LANES):
                        source = moved(turned, scratch_load(starts, number) * COLUMNS + k)
                        target = moved(inputs, (block + k // COLUMNS) * TILES + number * COLUMNS + k)
                        winograd_channels(source, line * COLUMNS, COLUMNS, target, input_pitch)
            parts = (some_filters + ROWS - 1) // ROWS
            for point in range(36):
                for block in range(0, some_channels, COLUMNS):
                    factors = moved(inputs, point * input_pitch + block * TILES)
                    for part_of in range(parts):
                        row = some_filters * part_of // parts
                        rows = some_filters * (part_of + 1) // parts - row
                        some_taps = moved(taps, point * tap_pitch + row * TILES)
                        sum_of = moved(sums, point * pitch + row * row_pitch + block)
                        invoke(
                            tile,
                            (rows, some_taps, i64(TILES), i64(1), factors, i64(COLUMNS), some_tiles, sum_of, row_pitch,
                             i64(1), one),
                        )
        for row in range(some_filters):
            target = ((part * groups + group) * filters + first_filter + row) * channels + first_channel
            for q in range(0, some_channels, LANES):
                seen = winograd_output(3, moved(sums, row * row_pitch + q), pitch, edge, here, 4, T(0.0))
                for j in few(min(LANES, some_channels - q)):
                    for i in few(3):
                        for k in few(3):
                            value = scratch_load(edge, j * 12 + i * 4 + k)
                            store(result, (target + q + j) * 9 + i * 3 + k, value)
    atomic_store(claimed, 8 * mine, 0)
"""


class _Plan(NamedTuple):
    layout: np.ndarray
    chunks: int
    tasks: int
    slot: int


@lru_cache(maxsize=512)
def _plan(x: tuple[Sizes, Sizes], g: tuple[Sizes, Sizes], groups: int, padding: Sizes, threads: int) -> _Plan:
    (samples, channels, height, width), x_steps = x
    (_, filters, *out), g_steps = g
    channels, filters = channels // groups, filters // groups
    dtype = np.dtype(np.float32)
    _, columns = gemm_kernels.tile_shape(dtype)
    down, across = -(-out[0] // 4), -(-out[1] // 4)
    tiles = samples * down * across
    channel_block, filter_block = min(channels, CHANNELS), min(filters, FILTERS)
    blocks = groups * -(-channels // channel_block) * -(-filters // filter_block)
    chunks = max(1, min(-(-TASKS // blocks), tiles // LEAST))
    chunk = -(-tiles // chunks)
    chunks = -(-tiles // chunk)
    wide = -(-channel_block // columns) * columns
    line = TILES * 4 + 6 * min(TILES, TILES // across + 2) + 2 * columns
    tap_pitch, input_pitch, pitch = filter_block * TILES + 16, wide * TILES + 16, filter_block * wide + 16
    slot = -(-(2 * columns * 6 * line + 36 * (tap_pitch + input_pitch + pitch)) // 16) * 16
    words = (
        groups, channels, filters, height, width, *x_steps, *g_steps, *out, -padding[0], -padding[1], down, across,
        tiles, chunk, channel_block, filter_block, line, tap_pitch, input_pitch, pitch, gemm_kernels.tile(dtype), slot,
        slot * threads,
    )  # fmt: skip
    return _Plan(np.array(words, np.int64), chunks, chunks * blocks, slot)


@cache
def _loop() -> Callable[..., None]:
    dtype = np.dtype(np.float32)
    (rows, columns), lanes = gemm_kernels.tile_shape(dtype), tile_of(dtype)[2]
    names = {"STRIDE": 1, "ROWS": rows, "COLUMNS": columns, "LANES": lanes, "TILES": TILES}
    names |= {"PIECES": 9 * TILES, "EDGE": 12 * lanes}
    constants = "".join(f"{name} = {value}\n" for name, value in names.items())
    return native.compiled(constants + reading(evaluate(_SUMS, 1), WORDS), "TTTTi", dtype)


def pays(
    x: np.ndarray, channels: int, grad: np.ndarray, groups: int, kernel: Sizes, stride: Sizes, dilation: Sizes
) -> bool:
    """Is this way open, and faster than sums over windows?

    Time over that of the plain loops on Zen 3: 0.3 to 0.5 from 16 channels and filters on 32 x 32 to 512 on 7 x 7; 1.7
    for 3 channels.
    """
    return (
        x.dtype == np.float32
        and kernel == (3, 3)
        and stride == dilation == (1, 1)
        and min(channels, grad.shape[1] // groups) >= 8
        and grad.shape[0] * prod(grad.shape[2:]) >= 256
    )


def conv_weight(x: np.ndarray, grad: np.ndarray, padding: Sizes, groups: int) -> np.ndarray:
    """`conv_weight` of 3 x 3 filters with stride 1."""
    threads, total = get_num_threads(), None
    for first, last in samples_at_a_time(x, grad):
        images, gradients = by_rows(x[first:last]), by_rows(grad[first:last])
        plan = _plan(places(images), places(gradients), groups, padding, threads)
        result = allocator.empty((plan.chunks, grad.shape[1], x.shape[1] // groups, 3, 3), x.dtype)
        memory, words = scratch(plan.slot, threads, x.dtype)
        run_kernel(_loop(), plan.tasks, 1, plan.layout, result, images, gradients, memory, words)
        part = result[0] if plan.chunks == 1 else result.sum(axis=0)
        total = part if total is None else total + part
    assert total is not None, "there are samples, or no work"
    return total
