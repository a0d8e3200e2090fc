"""Native loops of max and average pooling, forward and backward, of channels-last memory, in 1 to 3 dimensions.

The channels of a place are neighbours here, so a vector of them goes through a window in registers, straight from
memory to memory. The last vector of a place reaches back over channels done before. Sums are taken in the order of
`pool_native`, so results do not depend on the layout.
"""

from __future__ import annotations

from math import prod
from string import Template

import numpy as np

from rushlight.kernels.cpu import allocator
from rushlight.kernels.cpu.pool_native import GEOMETRY, Sizes, Windows, flat_divisors, run, usable

# Channels at a time: several chains of operations that need not wait for each other, where there are so many channels.
MANY, FEW = 32, 16

# Task: a row of outputs. Taps that reach padding are left out by the bounds of the loops.
_FORWARD = Template(f"""def kernel(lo, hi, layout, values, $extra, x):
{GEOMETRY}
    for task in range(i64(lo), i64(hi)):
        oh, od = task % out_height, task // out_height % out_depth
        base = task // (out_height * out_depth) * by_sample
        front, upper = od * stride_depth - pad_depth, oh * stride_height - pad_height
        i_first, i_last = i64(0), kernel_depth
        while front + i_first * step_depth < i64(0):
            i_first += i64(1)
        while i_last > i_first and front + (i_last - i64(1)) * step_depth >= depth:
            i_last -= i64(1)
        j_first, j_last = i64(0), kernel_height
        while upper + j_first * step_height < i64(0):
            j_first += i64(1)
        while j_last > j_first and upper + (j_last - i64(1)) * step_height >= height:
            j_last -= i64(1)
        for ow in range(out_width):
            left = ow * stride_width - pad_width
            k_first, k_last = i64(0), kernel_width
            while left + k_first * step_width < i64(0):
                k_first += i64(1)
            while k_last > k_first and left + (k_last - i64(1)) * step_width >= width:
                k_last -= i64(1)
$place
            for block in range(i64(0), channels, i64(LANES)):
                c = min(block, channels - i64(LANES))
                best = splat(T($blank), LANES)
$begin
                for i in range(i_first, i_last):
                    d = front + i * step_depth
                    for j in range(j_first, j_last):
                        h = upper + j * step_height
                        row = base + d * by_depth + h * by_row + c
                        for k in range(k_first, k_last):
                            w = left + k * step_width
                            v = vload(x, row + w * by_column, LANES)
$tap
                target = (task * out_width + ow) * channels + c
                vstore(values, target, best)
$store
""")

_MAX = _FORWARD.substitute(
    extra="indices",
    blank="-inf",
    place="""
            d, h, w = front + i_first * step_depth, upper + j_first * step_height, left + k_first * step_width
            first = splat(i32((d * height + h) * width + w), LANES)""",
    begin="""
                where = first""",
    tap="""
                            better = vexceeds(v, best)
                            best = vselect(better, v, best)
                            where = vselect(better, splat(i32((d * height + h) * width + w), LANES), where)""",
    store="""
                vstore(indices, target, vwiden(where))""",
)

_AVERAGE = _FORWARD.substitute(
    extra="divisors",
    blank="0.0",
    place="""
            scale = load(divisors, u64(od)) * load(divisors, u64(out_depth + oh))
            by = splat(load(divisors, u64(out_depth + out_height + ow)) * scale, LANES)""",
    begin="",
    tap="""
                            best = vadd(best, v)""",
    store="""
                vstore(values, target, vdiv(best, by))""",
)

# Task: a row of the result. Each place gathers from the windows that reach it, in the order of `pool_native`'s sums.
_SPREAD = f"""def kernel(lo, hi, layout, out, divisors, grad):
{GEOMETRY}
    for task in range(i64(lo), i64(hi)):
        h, d = task % height, task // height % depth
        base = task // (height * depth) * by_sample
        after_depth, after_height = d + pad_depth, h + pad_height
        d_last = min(out_depth, after_depth // stride_depth + i64(1))
        d_first = i64(0)
        if after_depth >= kernel_depth:
            d_first = (after_depth - kernel_depth) // stride_depth + i64(1)
        h_last = min(out_height, after_height // stride_height + i64(1))
        h_first = i64(0)
        if after_height >= kernel_height:
            h_first = (after_height - kernel_height) // stride_height + i64(1)
        for w in range(width):
            after_width = w + pad_width
            w_last = min(out_width, after_width // stride_width + i64(1))
            w_first = i64(0)
            if after_width >= kernel_width:
                w_first = (after_width - kernel_width) // stride_width + i64(1)
            for block in range(i64(0), channels, i64(LANES)):
                c = min(block, channels - i64(LANES))
                total = splat(T(0.0), LANES)
                for od in range(d_first, d_last):
                    for oh in range(h_first, h_last):
                        scale = load(divisors, u64(od)) * load(divisors, u64(out_depth + oh))
                        row = base + od * by_depth + oh * by_row + c
                        for back in range(w_last - w_first):
                            ow = w_last - i64(1) - back
                            by = splat(load(divisors, u64(out_depth + out_height + ow)) * scale, LANES)
                            total = vadd(total, vdiv(vload(grad, row + ow * by_column, LANES), by))
                vstore(out, (task * width + w) * channels + c, total)
"""

# Task: some channels of a sample. Positions are checked here; `bad` becomes 1 when one lies outside.
_SCATTER = """def kernel(lo, hi, layout, out, bad, values, indices):
    area, count, channels, blocks = load(layout, 0), load(layout, 1), load(layout, 2), load(layout, 3)
    by_sample, by_element, by_channel = load(layout, 4), load(layout, 5), load(layout, 6)
    for task in range(i64(lo), i64(hi)):
        sample, begin = task // blocks, task % blocks * i64(16)
        end = min(channels, begin + i64(16))
        for k in range(area):
            at = (sample * area + k) * channels
            for c in range(begin, end):
                scratch_store(out, u64(at + c), T(0.0))
        for k in range(count):
            source = sample * by_sample + k * by_element
            for c in range(begin, end):
                index = load(indices, u64((sample * count + k) * channels + c))
                if index >= i64(0) and index < area:
                    at = u64((sample * area + index) * channels + c)
                    scratch_store(out, at, scratch_load(out, at) + load(values, u64(source + c * by_channel)))
                else:
                    store(bad, u64(0), i64(1))
"""


def fits(x: np.ndarray) -> bool:
    """Do the channels of each place lie side by side, enough of them for a vector?"""
    return x.ndim > 2 and x.shape[1] >= FEW and x.strides[1] == x.itemsize and not x.flags.c_contiguous


def _run(
    source: str, arrays: str, tasks: int, each: int, windows: Windows, out: np.ndarray, *operands: np.ndarray
) -> None:
    x = operands[-1]
    source = source.replace("LANES", str(MANY if x.shape[1] >= MANY else FEW))
    run(source, arrays, tasks, each, windows.layout(x, 0, 0, 0), _plain(out), *operands)


def _empty(shape: Sizes, dtype: np.dtype) -> np.ndarray:
    """(N, C, *size) with the channels last in memory."""
    return np.moveaxis(allocator.empty((shape[0], *shape[2:], shape[1]), np.dtype(dtype)), -1, 1)


def _plain(x: np.ndarray) -> np.ndarray:
    """A channels-last result as the row-major memory that it is."""
    return np.moveaxis(x, 1, -1)


def max_pool(x: np.ndarray, windows: Windows, out: Sizes) -> tuple[np.ndarray, np.ndarray] | None:
    """Largest elements of windows and their flat positions; None where no native loop fits."""
    shape, tasks = (*x.shape[:2], *out), x.shape[0] * prod(out[:-1])
    each = out[-1] * x.shape[1] * prod(windows.kernel)
    if not fits(x) or not usable(x, tasks * each):
        return None
    values, indices = _empty(shape, x.dtype), _empty(shape, np.dtype(np.int64))
    _run(_MAX, "TiT", tasks, each, windows, values, _plain(indices), x)
    return values, indices


def avg_pool(x: np.ndarray, windows: Windows, out: Sizes, divisors: list[np.ndarray]) -> np.ndarray | None:
    """Sums of windows over the products of divisors; None where no native loop fits."""
    tasks, each = x.shape[0] * prod(out[:-1]), out[-1] * x.shape[1] * prod(windows.kernel)
    if not fits(x) or not usable(x, tasks * each):
        return None
    values = _empty((*x.shape[:2], *out), x.dtype)
    _run(_AVERAGE, "TTT", tasks, each, windows, values, flat_divisors(divisors, x.dtype), x)
    return values


def avg_pool_transpose(
    grad: np.ndarray, windows: Windows, size: Sizes, divisors: list[np.ndarray]
) -> np.ndarray | None:
    """The transpose of `avg_pool`; None where no native loop fits."""
    tasks, each = grad.shape[0] * prod(size[:-1]), size[-1] * grad.shape[1]
    if not fits(grad) or not usable(grad, tasks * each):
        return None
    result = _empty((*grad.shape[:2], *size), grad.dtype)
    _run(_SPREAD, "TTT", tasks, each, windows, result, flat_divisors(divisors, grad.dtype), grad)
    return result


def scatter(values: np.ndarray, indices: np.ndarray, size: Sizes) -> tuple[np.ndarray, bool] | None:
    """Planes with values added at flat positions, and whether all positions were in range; None where no native loop
    fits."""
    (samples, channels), area, count = values.shape[:2], prod(size), prod(values.shape[2:])
    if not fits(indices) or not _plain(indices).flags.c_contiguous or not usable(values, samples * channels * area):
        return None
    flat = _plain(values).reshape(samples, count, channels)
    out, bad, blocks = _empty((samples, channels, *size), values.dtype), np.zeros(1, np.int64), -(-channels // FEW)
    layout = (area, count, channels, blocks, *[step // flat.itemsize for step in flat.strides])
    each = (area + count) * FEW
    run(_SCATTER, "TiTi", samples * blocks, each, layout, _plain(out), bad, flat, _plain(indices))
    return out, not bad[0]
