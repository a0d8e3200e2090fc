"""The native loops of convolution: windows are multiplied where they lie, no columns are made.

A task copies the part of the input that its outputs need to a buffer in the second cache, padded and split by the
stride: the element at row r and column c goes to part (r % stride, c % stride), place (r // stride, c // stride). There
the elements that one weight meets lie one after the other for a whole block of outputs, so a product needs no more than
their address. (Between the rows of a block lie a few columns that are computed for nothing.)

`layout` is the number of words of `WORDS`, then for each phase (see `conv_plan`) those of `PHASE`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import Template

WORDS = (
    "samples groups channels filters blocks parts depth height width x_sample x_channel x_depth x_row x_column "
    "stride_depth stride_height stride_width slices slice_step phases_height phases_width lines span rows columns "
    "reach batch advance y_sample y_filter y_depth y_row y_column total slot biased "
    "chunks chunk channel_block filter_block taps phases"
).split()
PHASE = "first_task out_depth out_height out_width front top left first_weight weights first_output".split()


def reading(source: str, words: Sequence[str] = WORDS) -> str:
    """A source with lines in the places of `$WORDS` and `$PHASE` that read the words it names."""

    def lines(place: re.Match[str]) -> str:
        names, start = (PHASE, "words + ") if place[2] == "PHASE" else (words, "")
        used = [(k, name) for k, name in enumerate(names) if name in said]
        return "\n".join(f"{place[1]}{name} = load(layout, {start}{k})" for k, name in used)

    said = set(re.findall(r"\w+", source))
    return re.sub(r"( +)\$(WORDS|PHASE)", lines, source)


# Fills the buffer, from `first_line` of each part on, with what outputs od, first_row.., first_column.. need of the
# channels from first_channel on, and one line of zeros more: what lies behind a row is what lies before the next.
FILL = reading("""def kernel(
    layout, x, buffer, sample, first_channel, some_channels, first_line, fill_lines, od, first_row, first_column,
    front, top, left,
):
    wide_vectors()
    $WORDS
    base = sample * x_sample + first_channel * x_channel
    for channel in range(some_channels):
        for z in range(slices):
            d = front + od * stride_depth + z * slice_step
            for part in range(phases_height * phases_width):
                part_height, part_width = part // phases_width, part % phases_width
                w = left + first_column * stride_width + part_width
                first, behind = max(i64(0), -w), max(i64(0), width - w)
                if stride_width > 1:  # a division takes as long as a short row
                    first = (first + stride_width - 1) // stride_width
                    behind = (behind + stride_width - 1) // stride_width
                for line in range(min(fill_lines + 1, lines - first_line)):
                    h = top + (first_row + line) * stride_height + part_height
                    target = ((channel * slices + z) * phases_height * phases_width + part) * lines
                    target = (target + first_line + line) * span
                    begin, end = i64(0), i64(0)
                    if line < fill_lines and d >= 0 and d < depth and h >= 0 and h < height:
                        end = min(behind, span)
                        begin = min(first, end)
                    source = base + channel * x_channel + d * x_depth + h * x_row + w * x_column
                    step = stride_width * x_column
                    if (step == 1 or step == 2) and end - begin >= 16:
                        at = begin
                        while at < end:
                            at = min(at, end - 16)
                            some = vload(x, source + at * step, 16)
                            if step == 2:  # the element behind the last one may be outside of the array
                                some = veven(some, vload_between(x, source + at * 2 + 16, 0, 15, 16))
                            vstore(buffer, target + at, some)
                            at += 16
                    elif step == 1 or step == 2 or step == 4:
                        for k in range(0, span, 16):
                            at, low, high = source + k * step, (begin - k) * step, (end - k - 1) * step + 1
                            some = vload_between(x, at, low, high, 16)
                            if step >= 2:
                                some = veven(some, vload_between(x, at + 16, low - 16, high - 16, 16))
                            if step == 4:
                                more = vload_between(x, at + 32, low - 32, high - 32, 16)
                                more = veven(more, vload_between(x, at + 48, low - 48, high - 48, 16))
                                some = veven(some, more)
                            vstore_below(buffer, target + k, some, span - k)
                        begin, end = i64(0), span
                    else:
                        if step == 0 and begin < end:  # the gradient of a sum is one number
                            value = load(x, source)
                            for k in range(begin, end):
                                scratch_store(buffer, target + k, value)
                        else:
                            for k in range(begin, end):
                                scratch_store(buffer, target + k, load(x, source + k * step))
                    for k in range(begin):
                        scratch_store(buffer, target + k, T(0.0))
                    for k in range(end, span):
                        scratch_store(buffer, target + k, T(0.0))
""")
# How the others call it: its address is behind the first claim.
FILLED = (
    "invoke(load(claimed, 1), (layout, x, buffer, sample, first_channel, some_channels, first_line, fill_lines, od, "
    "first_row, first_column, front, top, left))"
)

CLAIM = """    mine = i64(0)
    while not atomic_claim(claimed, 8 * mine):
        mine = mine + 1 if (mine + 1) * slot < scratch_size else i64(0)
"""

# Weights of a group as they are multiplied: for each block of rows, each weight of the rows one after the other.
PACK = """def kernel(lo, hi, layout, packed, w, table):
    filters, blocks, total = load(layout, 0), load(layout, 1), load(layout, 2)
    w_group, w_filter = load(layout, 3), load(layout, 4)
    for task in range(i64(lo), i64(hi)):
        first = task % blocks * ROWS
        source = task // blocks * w_group + first * w_filter
        some = min(ROWS, filters - first)
        for k in range(total):
            at, target = source + load(table, k), (task * total + k) * ROWS
            if some == ROWS:
                for row in range(ROWS):
                    store(packed, target + row, load(w, at + row * w_filter))
            else:
                for row in range(some):
                    store(packed, target + row, load(w, at + row * w_filter))
                for row in range(some, ROWS):
                    store(packed, target + row, T(0.0))
"""

# y = a convolution of x in all its phases. `$MULTIPLY` makes the sums of ROWS filters from the buffer.
_CORRELATE = Template(f"""def kernel(lo, hi, layout, y, x, $ARRAYS, bias, table, scratch, claimed):
    wide_vectors()
    $WORDS
    scratch_size = load(layout, LAST)
    pitch = ((batch - 1) * advance + rows - 1) * span + columns + WIDE
{CLAIM}
    buffer = moved(scratch, mine * slot)
    sums = moved(buffer, slot - ROWS * pitch)
    for k in range(channels * slices * phases_height * phases_width * lines * span, slot - ROWS * pitch):
        scratch_store(buffer, k, T(0.0))
    for task in range(i64(lo), i64(hi)):
        phase = i64(0)
        while phase + 1 < phases and load(layout, FIRST_PHASE + (phase + 1) * PHASE_WORDS) <= task:
            phase += 1
        words = FIRST_PHASE + phase * PHASE_WORDS
        $PHASE
        rest = task - first_task
        across, down = (out_width + columns - 1) // columns, (out_height + rows - 1) // rows
        first_column = rest % across * columns
        rest //= across
        first_row = rest % down * rows
        rest //= down
        od = rest % out_depth
        rest //= out_depth
        some_columns, some_rows = min(columns, out_width - first_column), min(rows, out_height - first_row)
        part = rest % parts
        rest //= parts
        group, first_sample = rest % groups, rest // groups * batch
        some_samples = min(batch, samples - first_sample)
        length = ((some_samples - 1) * advance + some_rows - 1) * span + some_columns
        first_channel, some_channels, fill_lines = group * channels, channels, some_rows + reach
        needed = some_samples if weights > 0 else i64(0)  # a stride beyond the kernel leaves phases without weights
        for member in range(needed):
            sample, first_line = first_sample + member, member * advance
            {FILLED}
        offsets = moved(table, first_weight)
        for block in range(part * blocks // parts, (part + 1) * blocks // parts):
$MULTIPLY
            for row in range(min(ROWS, filters - block * ROWS)):
                filter = group * filters + block * ROWS + row
                added = T(0.0)
                if biased:
                    added = load(bias, filter)
                start = first_output + first_sample * y_sample + filter * y_filter + od * y_depth
                start += first_row * y_row + first_column * y_column
                for member in range(some_samples):
                    for line in range(some_rows):
                        source = row * pitch + (member * advance + line) * span
                        target = start + member * y_sample + line * y_row
                        if y_column == 1:
                            for q in range(0, some_columns, 16):
                                value = vadd(vload(sums, source + q, 16), splat(added, 16))
                                if some_columns - q >= 16:
                                    vstore(y, target + q, value)
                                else:
                                    vstore_below(y, target + q, value, some_columns - q)
                        else:
                            for q in range(some_columns):
                                store(y, target + q * y_column, scratch_load(sums, source + q) + added)
    atomic_store(claimed, 8 * mine, 0)
""")

CONVOLVE = reading(
    _CORRELATE.safe_substitute(
        ARRAYS="packed",
        MULTIPLY="""
            rows_of = moved(packed, ((group * blocks + block) * total + first_weight) * ROWS)
            q = i64(0)
            while q < length:
                if length - q > 2 * LANES:
                    outer_tile(rows_of, moved(buffer, q), offsets, weights, moved(sums, q), pitch)
                    q += WIDE
                else:
                    outer_vector(rows_of, moved(buffer, q), offsets, weights, moved(sums, q), pitch)
                    q += LANES""",
    )
)
# The same where a group has one channel: four vectors of a filter's sums at a time, the weights read where they are.
DEPTHWISE = reading(
    _CORRELATE.safe_substitute(
        ARRAYS="w, places, steps",
        MULTIPLY="""
            first = group * load(steps, 3) + block * load(steps, 4)
            blank = splat(T(0.0), LANES)
            for q in range(0, length, WIDE):
                a, b, c, d = blank, blank, blank, blank
                for k in range(weights):
                    weight = splat(load(w, first + load(places, first_weight + k)), LANES)
                    at = q + load(offsets, k)
                    a = vadd(a, vmul(weight, vload(buffer, at, LANES)))
                    b = vadd(b, vmul(weight, vload(buffer, at + LANES, LANES)))
                    c = vadd(c, vmul(weight, vload(buffer, at + 2 * LANES, LANES)))
                    d = vadd(d, vmul(weight, vload(buffer, at + 3 * LANES, LANES)))
                vstore(sums, q, a)
                vstore(sums, q + LANES, b)
                vstore(sums, q + 2 * LANES, c)
                vstore(sums, q + 3 * LANES, d)""",
    )
)
DEPTHWISE_TILE = (1, 4, 16)  # rows, vectors and lanes of what its loop makes at a time

# The gradient of the weights: dot products of rows of `g` and of the buffer, over a chunk of samples. What lies between
# the rows of the buffer meets zeros; all of the buffer is filled, so that nothing left from before does. The sums of
# a tile lie together.
BY_WEIGHT = reading(f"""def kernel(lo, hi, layout, result, x, g, table, scratch, claimed):
    wide_vectors()
    $WORDS
    scratch_size = load(layout, LAST)
    words = FIRST_PHASE
    $PHASE
    pitch = (lines * span + LANES - 1) // LANES * LANES
    most = (filter_block + FEW - 1) // FEW * FEW
    wide = (channel_block * taps + SOME - 1) // SOME * SOME
    room = slot - most * (wide + pitch)
{CLAIM}
    buffer = moved(scratch, mine * slot)
    lefts = moved(buffer, room)
    sums = moved(lefts, most * pitch)
    for k in range(channel_block * slices * phases_height * phases_width * lines * span, room):
        scratch_store(buffer, k, T(0.0))
    channel_blocks = (channels + channel_block - 1) // channel_block
    filter_blocks = (filters + filter_block - 1) // filter_block
    for task in range(i64(lo), i64(hi)):
        first = task % channel_blocks * channel_block
        rest = task // channel_blocks
        first_filter = rest % filter_blocks * filter_block
        rest //= filter_blocks
        group, part = rest % groups, rest // groups
        some_channels, some_filters = min(channel_block, channels - first), min(filter_block, filters - first_filter)
        first_channel, fill_lines = group * channels + first, rows + reach
        for k in range(most * wide):
            scratch_store(sums, k, T(0.0))
        for k in range(most * pitch):
            scratch_store(lefts, k, T(0.0))
        last = min(samples, (part + 1) * chunk)
        for first_sample in range(part * chunk, last, batch):
            for od in range(out_depth):
                for first_row in range(0, out_height, rows):
                    some_rows = min(rows, out_height - first_row)
                    for first_column in range(0, out_width, columns):
                        some_columns = min(columns, out_width - first_column)
                        some_samples = min(batch, last - first_sample)
                        for member in range(some_samples):
                            sample, first_line = first_sample + member, member * advance
                            {FILLED}
                            for row in range(some_filters):
                                base = sample * y_sample + (group * filters + first_filter + row) * y_filter
                                base += od * y_depth + first_row * y_row + first_column * y_column
                                target = row * pitch + first_line * span
                                for line in range(rows):
                                    source = base + line * y_row
                                    count = some_columns if line < some_rows else i64(0)
                                    if y_column == 1:
                                        for q in range(0, columns, 16):
                                            if count - q >= 16:
                                                vstore(lefts, target + q, vload(g, source + q, 16))
                                            else:
                                                value = vload_between(g, source + q, 0, count - q, 16)
                                                vstore_below(lefts, target + q, value, columns - q)
                                    else:
                                        if y_column == 0 and count > 0:
                                            value = load(g, source)
                                            for q in range(count):
                                                scratch_store(lefts, target + q, value)
                                        else:
                                            for q in range(count):
                                                scratch_store(lefts, target + q, load(g, source + q * y_column))
                                        for q in range(count, columns):
                                            scratch_store(lefts, target + q, T(0.0))
                                    target += span
                        length = ((some_samples - 1) * advance + rows) * span
                        for row in range(0, most, FEW):
                            for column in range(0, some_channels * taps, SOME):
                                inner_tile(
                                    moved(lefts, row * pitch), pitch, buffer, moved(table, column), length,
                                    moved(sums, row * wide + column * FEW),
                                )
        for row in range(some_filters):
            target = ((part * groups + group) * filters + first_filter + row) * channels * taps + first * taps
            for k in range(some_channels * taps):
                at = row // FEW * FEW * wide + k // SOME * FEW * SOME + row % FEW * SOME + k % SOME
                store(result, target + k, scratch_load(sums, at))
    atomic_store(claimed, 8 * mine, 0)
""")


def filled(source: str, tile: tuple[int, ...]) -> str:
    """A source with the sizes of the processor's tiles (see `tiles`) in their places."""
    rows, vectors, lanes, few, some = (*tile, 0, 0)[:5]
    sizes = {"ROWS": rows, "WIDE": vectors * lanes, "LANES": lanes, "FEW": few, "SOME": some}
    sizes |= {"LAST": len(WORDS), "FIRST_PHASE": len(WORDS) + 1, "PHASE_WORDS": len(PHASE)}
    return re.sub(r"\b[A-Z_]+\b", lambda word: str(sizes.get(word[0], word[0])), source)
