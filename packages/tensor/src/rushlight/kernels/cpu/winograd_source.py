"""The native loop of Winograd's convolution; see `winograd`."""

from __future__ import annotations

import re
from functools import cache

from rushlight.kernels.cpu.conv_source import CLAIM, reading

# `channels` and `filters` are those of a group, `deep` counts channels times phases of the stride; `down` and `across`
# are tiles of an image, `tiles` those of all images. A task has `count` tiles and one of `parts` of the filters, and
# makes products with `together` filters at a time. Distances count elements: `line` between lines at one
# point and the next, `input_pitch`, `filter_pitch`, `pitch` between all that is at one point and the next.
WORDS = (
    "groups channels filters height width x_sample x_channel x_row out_height out_width top left deep down across "
    "tiles count together parts line input_pitch filter_group filter_pitch filter_row filter_depth pitch "
    "row_of_tiles slot scratch_size biased"
).split()

# Weights that are put into order at a time.
SOME = 64
# `layout`: weights of a group, between a point and the next, and between groups.
FILTERS = f"""def kernel(lo, hi, layout, transformed, w):
    wide_vectors()
    weights, pitch, group_pitch = load(layout, 0), load(layout, 1), load(layout, 2)
    taps, ordered, places = stack_array(T, ROOM), stack_array(T, ORDERED), stack_array(i64, PLACES)
    blocks = (weights + {SOME - 1}) // {SOME}
    for k in range({SOME}):
        scratch_store(taps, KERNEL * KERNEL * {SOME} + k, T(0.0))
    for task in range(i64(lo), i64(hi)):
        group, first = task // blocks, task % blocks * {SOME}
        some = min({SOME}, weights - first)
        source = moved(w, (group * weights + first) * KERNEL * KERNEL)
        result = moved(transformed, group * group_pitch + first * STRIDE * STRIDE)
        for weight in range(some):
            for k in few(KERNEL * KERNEL):
                scratch_store(taps, k * {SOME} + weight, load(source, weight * KERNEL * KERNEL + k))
        for phase in few(STRIDE * STRIDE):
            for i in few(TAPS):
                for j in few(TAPS):
                    row, column = i * STRIDE + phase // STRIDE, j * STRIDE + phase % STRIDE
                    place = KERNEL * KERNEL
                    if row < KERNEL and column < KERNEL:
                        place = row * KERNEL + column
                        if TURNED:
                            place = KERNEL * KERNEL - 1 - place
                    scratch_store(places, i * TAPS + j, place * {SOME})
            if STRIDE == 1:
                for k in range(0, some, LANES):
                    winograd_filter(TAPS, moved(taps, k), places, moved(result, k), pitch)
            else:
                for k in range(0, some, LANES):
                    winograd_filter(TAPS, moved(taps, k), places, moved(ordered, k), {SOME})
                for point in range(36):
                    for k in range(some):
                        value = scratch_load(ordered, point * {SOME} + k)
                        scratch_store(result, point * pitch + k * STRIDE * STRIDE + phase, value)
"""

_CONVOLVE = f"""def kernel(lo, hi, layout, y, x, transformed, bias, scratch, claimed):
    wide_vectors()
    $WORDS
    starts, targets, here = stack_array(i64, TILES), stack_array(i64, TILES), stack_array(i64, LANES)
    high, broad, whole = stack_array(i64, TILES), stack_array(i64, TILES), stack_array(i64, TILES)
    pieces, edge = stack_array(i64, PIECES), stack_array(T, EDGE)
    y_filter = out_height * out_width
{CLAIM}
    lines = moved(scratch, mine * slot)
    inputs = moved(lines, STRIDE * 6 * line)
    products = moved(inputs, 36 * input_pitch)
    for k in few(LANES):
        scratch_store(here, k, k * 4 * OUTPUTS)
    seen = splat(T(0.0), LANES)
    for task in range(i64(lo), i64(hi)):
        part, group, first = task % parts, task // parts % groups, task // parts // groups * count
        some_tiles = min(count, tiles - first)
        all_tiles = (some_tiles + COLUMNS - 1) // COLUMNS * COLUMNS
        # Tiles side by side are a piece: where its channels begin, first row and column, columns, place in a line.
        found, at, k = i64(0), i64(0), i64(0)
        while k < some_tiles:
            column, row = (first + k) % across, (first + k) // across % down
            sample = (first + k) // across // down
            beside = min(across - column, some_tiles - k)
            scratch_store(pieces, found, sample * x_sample + group * channels * x_channel)
            scratch_store(pieces, found + 1, row * OUTPUTS * STRIDE + top)
            scratch_store(pieces, found + 2, column * OUTPUTS * STRIDE + left)
            scratch_store(pieces, found + 3, beside * OUTPUTS + 6 - OUTPUTS)
            scratch_store(pieces, found + 4, at)
            target = (sample * groups + group) * filters * y_filter + row * OUTPUTS * out_width + column * OUTPUTS
            for j in few(beside):
                scratch_store(starts, k + j, at + j * OUTPUTS)
                scratch_store(targets, k + j, target + j * OUTPUTS)
                scratch_store(high, k + j, min(OUTPUTS, out_height - row * OUTPUTS))
                scratch_store(broad, k + j, min(OUTPUTS, out_width - (column + j) * OUTPUTS))
            found, at, k = found + 5, at + beside * OUTPUTS + 6, k + beside
        for j in few(some_tiles, all_tiles):
            scratch_store(starts, j, i64(0))
            scratch_store(targets, j, i64(0))
            scratch_store(high, j, i64(0))
            scratch_store(broad, j, i64(0))
        for j in few(0, all_tiles, LANES):
            least = i64(OUTPUTS)
            for k in few(LANES):
                least = min(least, min(scratch_load(high, j + k), scratch_load(broad, j + k)))
                if OUTPUTS < 4 and scratch_load(targets, j + k) != scratch_load(targets, j) + k * OUTPUTS:
                    least = i64(0)
            scratch_store(whole, j, least)
        for channel in range(channels):
            for phase in few(STRIDE):
                for piece in few(0, found, 5):
                    first_row, first_column = scratch_load(pieces, piece + 1) + phase, scratch_load(pieces, piece + 2)
                    base = scratch_load(pieces, piece) + channel * x_channel + first_row * x_row + first_column
                    columns, at = scratch_load(pieces, piece + 3), scratch_load(pieces, piece + 4)
                    between = first_row >= 0 and first_row + 5 * STRIDE < height
                    for q in few(0, columns, LANES):
                        source = base + q * STRIDE
                        near = -first_column - q * STRIDE
                        far = width + near
                        $EVALUATE
                for phase_across in few(STRIDE):
                    for q in few(0, all_tiles, LANES):
                        target = q // COLUMNS * deep + (channel * STRIDE + phase) * STRIDE + phase_across
                        target = target * COLUMNS + q % COLUMNS
                        winograd_along(
                            moved(lines, phase_across * 6 * line), moved(starts, q), line, moved(inputs, target),
                            input_pitch,
                        )
        block, blocks_end = filters * part // parts, filters * (part + 1) // parts
        while block < blocks_end:
            some = min(together, blocks_end - block)
            pieces_of = (some + ROWS - 1) // ROWS
            least, larger = some // pieces_of, some % pieces_of
            factors = moved(transformed, group * filter_group + block * filter_row)
            for point in range(36):
                for k in range(0, deep, DEPTH):
                    depth, add = min(DEPTH, deep - k), i64(1) if k > 0 else i64(0)
                    source = moved(inputs, point * input_pitch + k * COLUMNS)
                    row = i64(0)
                    for piece in range(pieces_of):
                        rows = least + 1 if piece < larger else least
                        factor = moved(factors, point * filter_pitch + row * filter_row + k * filter_depth)
                        sums = moved(products, point * pitch + row * count)
                        invoke(
                            row_of_tiles,
                            (rows, all_tiles // COLUMNS, factor, filter_row, filter_depth, source, deep * COLUMNS,
                             depth, sums, count, add),
                        )
                        row += rows
            for row in range(some):
                filter = block + row
                added = T(0.0)
                if biased != 0:
                    added = load(bias, group * filters + filter)
                result = moved(y, filter * y_filter)
                for q in range(0, some_tiles, LANES):
                    inside = scratch_load(whole, q) == OUTPUTS
                    target, table, target_pitch = edge, here, i64(4)
                    if inside:
                        target, table, target_pitch = result, moved(targets, q), out_width
                    # Outputs of the next filter lie far from here. Asked for now, they are near when they are written.
                    ahead = moved(result, y_filter + scratch_load(targets, q))
                    for i in few(OUTPUTS):
                        for k in few(0, OUTPUTS * LANES, LINE):
                            ask(ahead, i * out_width + k)
                    source = moved(products, row * count + q)
                    some_seen = winograd_output(OUTPUTS, source, pitch, target, table, target_pitch, added)
                    seen = vadd(seen, some_seen)
                    if not inside:
                        for j in few(q, min(q + LANES, some_tiles)):
                            to, last_row, last_column = (
                                scratch_load(targets, j), scratch_load(high, j), scratch_load(broad, j)
                            )
                            found = (j - q) * 4 * OUTPUTS
                            if last_row == OUTPUTS and last_column == OUTPUTS:
                                for i in few(OUTPUTS):
                                    for k in few(OUTPUTS):
                                        value = scratch_load(edge, found + i * 4 + k)
                                        scratch_store(result, to + i * out_width + k, value)
                            else:
                                for i in few(last_row):
                                    for k in few(last_column):
                                        value = scratch_load(edge, found + i * 4 + k)
                                        scratch_store(result, to + i * out_width + k, value)
            block += some
    vstore(edge, 0, seen)
    for k in few(LANES):
        if scratch_load(edge, k) != T(0.0):
            atomic_store(claimed, 2, 1)
    atomic_store(claimed, 8 * mine, 0)
"""


@cache
def convolve(stride: int) -> str:
    """The source for a stride of 1 or 2."""
    return reading(evaluate(_CONVOLVE, stride), WORDS)


def evaluate(source: str, stride: int) -> str:
    """A source whose line `$EVALUATE` takes six vectors of an image from `source` on, one below the other, to the six
    points. Columns of each phase of the stride go to lines of their own."""
    rows = range(6)
    plain = [f"x{k}_{part} = vload(x, source + {k} * STRIDE * x_row + {part} * LANES, LANES)"
             for part in range(stride) for k in rows]  # fmt: skip
    masked = []
    for k in rows:
        masked += [f"inside = first_row + {k} * STRIDE >= 0 and first_row + {k} * STRIDE < height"]
        masked += ["end = far if inside else i64(0)"]
        masked += [
            f"x{k}_{part} = vload_between(x, source + {k} * STRIDE * x_row + {part} * LANES, near - {part} * LANES, "
            f"end - {part} * LANES, LANES)"
            for part in range(stride)
        ]
    lines = ["if between and near <= 0 and far >= STRIDE * LANES:", *[f"    {line}" for line in plain]]
    lines += ["else:", *[f"    {line}" for line in masked]]
    for part in range(stride):
        vectors = [f"x{k}_0" if stride == 1 else f"{('veven', 'vodd')[part]}(x{k}_0, x{k}_1)" for k in rows]
        lines += [f"winograd_down({', '.join(vectors)}, moved(lines, {part} * 6 * line + at + q), line)"]
    return re.sub(r"( +)\$EVALUATE", lambda place: "\n".join([place[1] + line for line in lines]), source)
