"""Native loops of max and average pooling, forward and (average) backward, in 1 to 3 dimensions.

A task is a plane: one channel of one sample, with whatever strides (`pool_last` has what is faster where channels lie
side by side). The rows that a block of outputs needs are copied
to a buffer in the first cache, padded, and split by the stride: column c lies in part `c % stride` at `c // stride`.
So the elements that one tap of the window brings to 16 neighbouring outputs are neighbours, and the whole window goes
by in registers.

Max pooling of 32 x 64 planes of 56 x 56 with 3 x 3 windows and stride 2 took 18 ms with a scalar loop and takes 2.5 ms
so (2 threads, Sapphire Rapids).
"""

from __future__ import annotations

from math import prod
from string import Template

import numpy as np

from rushlight.kernels.cpu import allocator, native

Sizes = tuple[int, ...]

# Elements of the buffer for rows: 64 KiB of float32 on the stack. A vector may reach beyond what is in it.
BUFFER = 1 << 14
# Most outputs of a row that are worked on at a time.
WIDEST = 256

GEOMETRY = """    wide_vectors()
    depth, height, width = load(layout, u64(0)), load(layout, u64(1)), load(layout, u64(2))
    out_depth, out_height, out_width = load(layout, u64(3)), load(layout, u64(4)), load(layout, u64(5))
    kernel_depth, kernel_height, kernel_width = load(layout, u64(6)), load(layout, u64(7)), load(layout, u64(8))
    stride_depth, stride_height, stride_width = load(layout, u64(9)), load(layout, u64(10)), load(layout, u64(11))
    pad_depth, pad_height, pad_width = load(layout, u64(12)), load(layout, u64(13)), load(layout, u64(14))
    step_depth, step_height, step_width = load(layout, u64(15)), load(layout, u64(16)), load(layout, u64(17))
    channels = load(layout, u64(18))
    by_sample, by_channel, by_depth = load(layout, u64(19)), load(layout, u64(20)), load(layout, u64(21))
    by_row, by_column = load(layout, u64(22)), load(layout, u64(23))
    block, block_rows, span = load(layout, u64(24)), load(layout, u64(25)), load(layout, u64(26))
"""

# Copies columns of a row at `source` to the buffer at `target`. Column c of the image is c - left there.
_COPY_ROW = """
                            if begin > i64(0) or end < pitch:
                                for k in range(i64(0), pitch, i64(16)):
                                    vstore(rows, target + k, blank)
                            if by_column == i64(1) and stride_width == i64(1) and end - begin >= i64(16):
                                c = begin
                                while c < end:
                                    c = min(c, end - i64(16))
                                    vstore(rows, target + c, vload(x, source + left + c, 16))
                                    c += i64(16)
                            elif by_column == i64(1) and stride_width == i64(2) and end - begin >= i64(34):
                                if begin & i64(1):
                                    at = target + span + begin // i64(2)
                                    scratch_store(rows, u64(at), load(x, u64(source + left + begin)))
                                last = end & i64(-2)
                                if last < end:
                                    at = target + last // i64(2)
                                    scratch_store(rows, u64(at), load(x, u64(source + left + last)))
                                c = (begin + i64(1)) & i64(-2)
                                while c < last:
                                    c = min(c, last - i64(32))
                                    a = vload(x, source + left + c, 16)
                                    b = vload(x, source + left + c + i64(16), 16)
                                    vstore(rows, target + c // i64(2), veven(a, b))
                                    vstore(rows, target + span + c // i64(2), vodd(a, b))
                                    c += i64(32)
                            else:
                                phase, place = begin % stride_width, begin // stride_width
                                for c in range(begin, end):
                                    at = target + phase * span + place
                                    scratch_store(rows, u64(at), load(x, u64(source + (left + c) * by_column)))
                                    phase += i64(1)
                                    if phase == stride_width:
                                        phase = i64(0)
                                        place += i64(1)
"""

# `rows` holds, for each row of windows' depth, the rows of `block_rows` rows of outputs.
_FORWARD = Template(f"""def kernel(lo, hi, layout, values, $extra, x):
{GEOMETRY}
    rows, short = stack_array(T, {BUFFER + 32}), stack_array(T, 16)
$setup
    pitch = span * stride_width
    blank = splat(T($blank), 16)
    slab = (block_rows - i64(1)) * stride_height + (kernel_height - i64(1)) * step_height + i64(1)
    for task in range(i64(lo), i64(hi)):
        base = task // channels * by_sample + task % channels * by_channel
        for first_column in range(i64(0), out_width, block):
            columns = min(block, out_width - first_column)
            left = first_column * stride_width - pad_width
            begin, end = max(i64(0), -left), min(pitch, width - left)
$columns
            for od in range(out_depth):
                front = od * stride_depth - pad_depth
                for first_row in range(i64(0), out_height, block_rows):
                    last_row = min(first_row + block_rows, out_height)
                    top = first_row * stride_height - pad_height
                    for i in range(kernel_depth):
                        d = front + i * step_depth
                        if d < i64(0) or d >= depth:
                            continue
                        bottom = (last_row - i64(1)) * stride_height - pad_height
                        bottom = min(height, bottom + (kernel_height - i64(1)) * step_height + i64(1))
                        for h in range(max(i64(0), top), bottom):
                            target = (i * slab + h - top) * pitch
                            source = base + d * by_depth + h * by_row
{_COPY_ROW}
                    for oh in range(first_row, last_row):
                        upper = oh * stride_height - pad_height
                        ow = i64(0)
                        while ow < columns:
                            if columns >= i64(16):
                                ow = min(ow, columns - i64(16))
$begin
                            for i in range(kernel_depth):
                                d = front + i * step_depth
                                if d < i64(0) or d >= depth:
                                    continue
                                for j in range(kernel_height):
                                    h = upper + j * step_height
                                    if h < i64(0) or h >= height:
                                        continue
                                    at = (i * slab + h - top) * pitch + ow
                                    phase = i64(0)
                                    for k in range(kernel_width):
                                        v = vload(rows, at + phase * span, 16)
$tap
                                        phase += step_width
                                        while phase >= stride_width:
                                            phase -= stride_width
                                            at += i64(1)
$end
                            target = ((task * out_depth + od) * out_height + oh) * out_width + first_column + ow
                            if columns >= i64(16):
                                vstore(values, target, best)
$store
                            else:
                                vstore(short, i64(0), best)
                                for k in range(columns):
                                    scratch_store(values, u64(target + k), scratch_load(short, u64(k)))
$store_short
                            ow += i64(16)
""")

# A window's first element counts as found until one is larger, or NaN; padding never is.
_MAX = _FORWARD.substitute(
    extra="indices",
    setup=f"""
    places, firsts, short_where = stack_array(i32, {WIDEST}), stack_array(i32, {WIDEST}), stack_array(i64, 16)""",
    blank="-inf",
    columns="""
            for ow in range(block):
                w = left + ow * stride_width
                scratch_store(places, u64(ow), i32(w))
                while w < i64(0):
                    w += step_width
                scratch_store(firsts, u64(ow), i32(w))""",
    begin="""
                            d, h = front, upper
                            while d < i64(0):
                                d += step_depth
                            while h < i64(0):
                                h += step_height
                            best = blank
                            where = vadd(vload(firsts, ow, 16), splat(i32((d * height + h) * width), 16))
                            column = vload(places, ow, 16)""",
    tap="""
                                        place = splat(i32((d * height + h) * width + k * step_width), 16)
                                        better = vexceeds(v, best)
                                        best = vselect(better, v, best)
                                        where = vselect(better, vadd(column, place), where)""",
    end="",
    store="""
                                vstore(indices, target, vwiden(where))""",
    store_short="""
                                vstore(short_where, i64(0), vwiden(where))
                                for k in range(columns):
                                    scratch_store(indices, u64(target + k), scratch_load(short_where, u64(k)))""",
)

# What a sum is divided by is the product of a number for the depth, one for the row and one for the column.
_AVERAGE = _FORWARD.substitute(
    extra="divisors",
    setup="",
    blank="0.0",
    columns="",
    begin="""
                            best = blank""",
    tap="""
                                        best = vadd(best, v)""",
    end="""
                            scale = load(divisors, u64(od)) * load(divisors, u64(out_depth + oh))
                            by = vload(divisors, out_depth + out_height + first_column + ow, 16)
                            best = vdiv(best, vmul(by, splat(scale, 16)))""",
    store="",
    store_short="",
)

# Each row of the result is gathered from the rows of windows that reach it; strides are those of the gradient.
_SPREAD = f"""def kernel(lo, hi, layout, out, divisors, grad):
{GEOMETRY}
    total, share = stack_array(T, {BUFFER}), stack_array(T, {BUFFER})
    pitch = span * stride_width
    blank = splat(T(0.0), 16)
    for k in range(i64(0), out_width + i64(16), i64(16)):
        vstore(share, k, blank)
    for task in range(i64(lo), i64(hi)):
        base = task // channels * by_sample + task % channels * by_channel
        for d in range(depth):
            for h in range(height):
                for k in range(i64(0), pitch, i64(16)):
                    vstore(total, k, blank)
                for i in range(kernel_depth):
                    od = (d + pad_depth - i) // stride_depth
                    if d + pad_depth - i != od * stride_depth or od < i64(0) or od >= out_depth:
                        continue
                    for j in range(kernel_height):
                        oh = (h + pad_height - j) // stride_height
                        if h + pad_height - j != oh * stride_height or oh < i64(0) or oh >= out_height:
                            continue
                        scale = load(divisors, u64(od)) * load(divisors, u64(out_depth + oh))
                        source = base + od * by_depth + oh * by_row
                        for ow in range(out_width):
                            by = scale * load(divisors, u64(out_depth + out_height + ow))
                            if by_column == i64(1):
                                scratch_store(share, u64(ow), load(grad, u64(source + ow)) / by)
                            else:
                                scratch_store(share, u64(ow), load(grad, u64(source + ow * by_column)) / by)
                        at, phase = i64(0), i64(0)
                        for k in range(kernel_width):
                            target = phase * span + at
                            for ow in range(i64(0), out_width, i64(16)):
                                sum = vadd(vload(total, target + ow, 16), vload(share, ow, 16))
                                vstore(total, target + ow, sum)
                            phase += i64(1)
                            if phase == stride_width:
                                phase = i64(0)
                                at += i64(1)
                target = ((task * depth + d) * height + h) * width
                at, phase = pad_width // stride_width, pad_width % stride_width
                w = i64(0)
                if stride_width == i64(1):
                    while w + i64(16) <= width:
                        vstore(out, target + w, vload(total, at + w, 16))
                        w += i64(16)
                    at += w
                elif stride_width == i64(2) and phase == i64(0):
                    while w + i64(32) <= width:
                        a, b = vload(total, at, 16), vload(total, span + at, 16)
                        vstore(out, target + w, vlower(a, b))
                        vstore(out, target + w + i64(16), vupper(a, b))
                        at += i64(16)
                        w += i64(32)
                while w < width:
                    scratch_store(out, u64(target + w), scratch_load(total, u64(phase * span + at)))
                    w += i64(1)
                    phase += i64(1)
                    if phase == stride_width:
                        phase = i64(0)
                        at += i64(1)
"""


# Values added at flat positions of planes. Positions are checked here; `bad` becomes 1 when one lies outside.
_SCATTER = """def kernel(lo, hi, layout, out, bad, values, indices):
    area, count = load(layout, 0), load(layout, 1)
    by_plane, by_element = load(layout, 2), load(layout, 3)
    for plane in range(i64(lo), i64(hi)):
        base = plane * area
        for k in range(area):
            scratch_store(out, base + k, T(0.0))
        for k in range(count):
            index = load(indices, plane * count + k)
            if index >= 0 and index < area:
                at = base + index
                scratch_store(out, at, scratch_load(out, at) + load(values, plane * by_plane + k * by_element))
            else:
                store(bad, 0, i64(1))
"""


class Windows:
    """Sizes and positions of the windows over planes of `size`, padded to three dimensions."""

    def __init__(self, size: Sizes, kernel: Sizes, out: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes):
        missing = 3 - len(size)
        self.size, self.out, self.kernel = ((1,) * missing + x for x in (size, out, kernel))
        self.stride, self.dilation = ((1,) * missing + x for x in (stride, dilation))
        self.padding = (0,) * missing + padding

    def layout(self, strided: np.ndarray, block: int, block_rows: int, span: int) -> Sizes:
        """The numbers that the loops read, with the element strides of the array that they read through them."""
        steps = [step // strided.itemsize for step in strided.strides]
        steps[2:2] = [0] * (5 - strided.ndim)
        geometry = (self.size, self.out, self.kernel, self.stride, self.padding, self.dilation)
        return (*sum(geometry, ()), strided.shape[1], *steps, block, block_rows, span)

    def blocks(self) -> Sizes | None:
        """Columns and rows of outputs whose inputs fit the buffer, and the length of a row's part; None if no such
        block."""
        (_, rows, columns), (_, stride, across) = self.out, self.stride
        reach = (self.kernel[1] - 1) * self.dilation[1] + 1
        block = min(WIDEST, columns if columns < 16 else -(-columns // 16) * 16)
        while block == columns or block >= 16:
            span = block + (self.kernel[2] - 1) * self.dilation[2] // across
            lines = BUFFER // (span * across * self.kernel[0])
            if lines >= reach:
                return block, min(rows, (lines - reach) // stride + 1), span
            block = block // 32 * 16
        return None


def usable(x: np.ndarray, elements: int) -> bool:
    """Do native loops take this array, and is there enough work for them?"""
    return (
        3 <= x.ndim <= 5
        and elements >= native.WORTH
        and x.dtype in (np.float32, np.float64)
        and prod(x.shape[2:]) < 1 << 31
        and all(step % x.itemsize == 0 for step in x.strides)
    )


def run(source: str, arrays: str, tasks: int, each: int, layout: Sizes, *operands: np.ndarray) -> None:
    """Compile a source for the type of the first operand, and do all tasks."""
    native.over(native.compiled(source, arrays, operands[0].dtype), tasks, each, layout, *operands)


def max_pool(x: np.ndarray, windows: Windows, out: Sizes) -> tuple[np.ndarray, np.ndarray] | None:
    """Largest elements of windows and their flat positions; None where no native loop fits."""
    shape, each = (*x.shape[:2], *out), prod(out) * prod(windows.kernel)
    if not usable(x, prod(shape[:2]) * each) or (blocks := windows.blocks()) is None:
        return None
    values, indices = allocator.empty(shape, x.dtype), allocator.empty(shape, np.int64)
    run(_MAX, "TiT", prod(shape[:2]), each, windows.layout(x, *blocks), values, indices, x)
    return values, indices


def avg_pool(x: np.ndarray, windows: Windows, out: Sizes, divisors: list[np.ndarray]) -> np.ndarray | None:
    """Sums of windows over the products of divisors; None where no native loop fits."""
    shape, each = (*x.shape[:2], *out), prod(out) * prod(windows.kernel)
    if not usable(x, prod(shape[:2]) * each) or (blocks := windows.blocks()) is None:
        return None
    values = allocator.empty(shape, x.dtype)
    run(_AVERAGE, "TTT", prod(shape[:2]), each, windows.layout(x, *blocks), values, flat_divisors(divisors, x.dtype), x)
    return values


def avg_pool_transpose(
    grad: np.ndarray, windows: Windows, size: Sizes, divisors: list[np.ndarray]
) -> np.ndarray | None:
    """The transpose of `avg_pool`; None where no native loop fits."""
    shape, across = (*grad.shape[:2], *size), windows.stride[2]
    longest = max(-(-windows.out[2] // 16) * 16 + windows.kernel[2], (size[-1] + windows.padding[2]) // across)
    span = longest // 16 * 16 + 32
    each = prod(windows.out) * prod(windows.kernel)
    if not usable(grad, prod(shape[:2]) * each) or prod(size) >= 1 << 31 or span * across > BUFFER:
        return None
    result = allocator.empty(shape, grad.dtype)
    layout = windows.layout(grad, 0, 0, span)
    run(_SPREAD, "TTT", prod(shape[:2]), prod(size) + each, layout, result, flat_divisors(divisors, grad.dtype), grad)
    return result


def flat_divisors(divisors: list[np.ndarray], dtype: np.dtype) -> np.ndarray:
    """Divisors of three dimensions one after the other, with room for a vector behind them."""
    ones = [np.ones(1)] * (3 - len(divisors))
    return np.concatenate([*ones, *divisors, np.ones(16)]).astype(dtype)


def scatter(values: np.ndarray, indices: np.ndarray, size: Sizes) -> tuple[np.ndarray, bool] | None:
    """Planes with values added at flat positions, and whether all positions were in range; None where no native loop
    fits."""
    planes, count = values.shape[0] * values.shape[1], prod(values.shape[2:])
    if not usable(values, planes * prod(size)) or not indices.flags.c_contiguous or not count:
        return None
    flat = values.reshape(planes, count)  # the gradient of a sum stays one number with strides of 0
    out, bad = allocator.empty((*values.shape[:2], *size), values.dtype), np.zeros(1, np.int64)
    layout = (prod(size), count, *[step // flat.itemsize for step in flat.strides])
    run(_SCATTER, "TiTi", planes, prod(size) + count, layout, out, bad, flat, indices)
    return out, not bad[0]
