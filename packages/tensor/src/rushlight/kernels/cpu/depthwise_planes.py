"""Convolution of each channel with a filter of its own, plane by plane.

Some rows of a plane are copied, with zeros around them, to a buffer in the first cache, the columns split by the
stride. There a vector of 16 outputs is a sum without masks or tests. It is written whole: what it says of columns
beyond a row is overwritten by the next row, but for the end of the plane. Outputs are asked for while the buffer is
filled, and the next plane while they are made. For 32 x 64 planes of 56 x 56, 3 x 3 filters and one thread that takes
3.6 ms (4.8 without asking), by way of the padded buffers of `conv_source` 10.

The gradient by the input is a convolution, too, with the filters turned around. That by a filter is a sum over all
outputs of a plane for each of its elements; the samples are added afterwards, so the number of threads does not show.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from rushlight.kernels.cpu import allocator, native
from rushlight.kernels.cpu.conv_loop import tile_of
from rushlight.kernels.cpu.gemm_kernels import LINE

Sizes = tuple[int, ...]

# Elements of the buffer: 32 KiB of float32.
BUFFER = 1 << 13
# Elements of a plane, and bytes of all, from which on planes are asked for; the processor foresees smaller ones.
WIDE_APART, FAR = 512, 1 << 20
# The largest filters: the sums for a row of one stay in registers.
LARGEST = 7

# Rows of outputs that are made together where the rows of the plane have no stride.
_TOGETHER = 4

# Zeros stay beside the columns of the plane, which always go to the same places.
_START = """    wide_vectors()
    buffer, spot = stack_array(T, BUFFER), stack_array(T, 16)
    channels, height, width = load(layout, 0), load(layout, 1), load(layout, 2)
    out_height, out_width, top, left = load(layout, 3), load(layout, 4), load(layout, 5), load(layout, 6)
    stride_height, rows, pitch, biased = load(layout, 7), load(layout, 8), load(layout, 9), load(layout, 10)
    for k in range(BUFFER):
        scratch_store(buffer, k, T(0.0))
"""

_FILL = """
            some_rows = min(rows, out_height - first_row)
            for line in range((some_rows - 1) * stride_height + DOWN * (HIGH - 1) + 1):
BESIDE
                ih = first_row * stride_height - top + line
                for part in range(STRIDE):
                    column = (part - left) % STRIDE
                    target = (line * STRIDE + part) * pitch + (left + column) // STRIDE
                    count, source = (width - column + STRIDE - 1) // STRIDE, (plane * height + ih) * width + column
                    q = i64(0)
                    if ih < 0 or ih >= height:
                        while q < count:
                            scratch_store(buffer, target + q, T(0.0))
                            q += 1
                    while column + (q + 16) * STRIDE <= width:
                        some = vload(x, source + q * STRIDE, 16)
                        if STRIDE == 2:
                            some = veven(some, vload(x, source + q * 2 + 16, 16))
                        vstore(buffer, target + q, some)
                        q += 16
                    if STRIDE == 1 and q < count and count >= 16:
                        vstore(buffer, target + count - 16, vload(x, source + count - 16, 16))
                        q = count
                    while q < count:
                        scratch_store(buffer, target + q, load(x, source + q * STRIDE))
                        q += 1
"""

# Beside filling the buffer, and beside making some rows of outputs.
_ASK_OUTPUTS = """                if line < some_rows:
                    for k in few(0, out_width, LINE):
                        ask(y, (plane * out_height + first_row + line) * out_width + k)
"""
_ASK_INPUTS = f"""                for k in few(0, {_TOGETHER} * width, LINE):
                    ask(x, ((plane + 1) * height + first_row + row) * width + k)
"""


class _Shape(NamedTuple):
    """What a loop is made for: a filter's size, the stride along rows, dilation, the lanes of a vector, and whether it
    asks for planes."""

    kernel: Sizes
    stride: int
    dilation: Sizes
    lanes: int
    far: bool

    def at(self, line: int, kw: int) -> str:
        """Where an element of a row of the filter finds a line of the plane, from the place of an output on."""
        column = kw * self.dilation[1]
        return f"{line * self.stride + column % self.stride} * pitch + {column // self.stride}"


def _each(shape: _Shape, indent: int, *lines: str) -> str:
    """Lines for each element of a row of the filter: KW is its number, AT its place in the buffer."""
    found = []
    for kw in range(shape.kernel[1]):
        place = shape.at(0, kw)
        found += [" " * indent + line.replace("KW", str(kw)).replace("AT", place) for line in lines]
    return "\n".join(found)


def _together(shape: _Shape) -> str:
    """Source for a vector of columns of some rows: what lies in the buffer is loaded once for all rows."""
    high, wide = shape.kernel
    lines = [f"sums{r} = splat(blank, {shape.lanes})" for r in range(_TOGETHER)]
    for line in range(_TOGETHER + shape.dilation[0] * (high - 1)):
        met = [(r, kh) for r in range(_TOGETHER) for kh in range(high) if r + kh * shape.dilation[0] == line]
        for kw in range(wide if met else 0):
            lines.append(f"some = vload(buffer, place + {shape.at(line, kw)}, {shape.lanes})")
            lines += [f"sums{r} = vadd(sums{r}, vmul(weight{kh}_{kw}, some))" for r, kh in met]
    lines += [f"vstore(y, target + {r} * out_width, sums{r})" for r in range(_TOGETHER)]
    return "\n".join([" " * 20 + line for line in lines])


def _convolve(shape: _Shape) -> str:
    taps = _each(
        shape, 24, "weight = splat(load(w, weights + KW), 16)",
        "sums = vadd(sums, vmul(weight, vload(buffer, place + AT, 16)))",
    )  # fmt: skip
    filters = "\n".join(
        f"        weight{kh}_{kw} = splat(load(w, channel * HIGH * WIDE + {kh * shape.kernel[1] + kw}), LANES)"
        for kh in range(shape.kernel[0])
        for kw in range(shape.kernel[1])
    )
    return f"""def kernel(lo, hi, layout, y, x, w, bias):
{_START}
    for plane in range(i64(lo), i64(hi)):
        channel, end = plane % channels, (plane + 1) * out_height * out_width
        blank = T(0.0)
        if biased != 0:
            blank = load(bias, channel)
{filters}
        for first_row in range(0, out_height, rows):
{_FILL.replace("BESIDE", _ASK_OUTPUTS if shape.far else "")}
            whole = i64(0)
            if stride_height == 1 and out_width >= LANES:
                whole = some_rows // {_TOGETHER} * {_TOGETHER}
            for row in range(0, whole, {_TOGETHER}):
{_ASK_INPUTS if shape.far else ""}
                q = i64(0)
                while q < out_width:  # the last vector overlaps the one before: it must not reach into the next row
                    ow = min(q, out_width - LANES)
                    place = row * STRIDE * pitch + ow
                    target = (plane * out_height + first_row + row) * out_width + ow
{_together(shape)}
                    q += LANES
            for row in range(whole, some_rows):
                target = (plane * out_height + first_row + row) * out_width
                for ow in range(0, out_width, 16):
                    sums = splat(blank, 16)
                    for kh in range(HIGH):
                        weights = (channel * HIGH + kh) * WIDE
                        place = (row * stride_height + kh * DOWN) * STRIDE * pitch + ow
{taps}
                    if target + ow + 16 <= end:
                        vstore(y, target + ow, sums)
                    else:
                        vstore(spot, 0, sums)
                        for k in range(min(i64(16), out_width - ow)):
                            store(y, target + ow + k, scratch_load(spot, k))
"""


def _by_weight(shape: _Shape) -> str:
    def each(indent: int, *lines: str) -> str:
        return _each(shape, indent, *lines)

    return f"""def kernel(lo, hi, layout, result, x, g):
{_START}
    sums = stack_array(T, HIGH * WIDE * 16)
    for plane in range(i64(lo), i64(hi)):
        for k in range(HIGH * WIDE * 16):
            scratch_store(sums, k, T(0.0))
        for first_row in range(0, out_height, rows):
{_FILL.replace("BESIDE", "")}
            for kh in range(HIGH):
                mine = moved(sums, kh * WIDE * 16)
{each(16, "sumKW = vload(mine, KW * 16, 16)")}
                for row in range(some_rows):
                    source = (plane * out_height + first_row + row) * out_width
                    for ow in range(0, out_width, 16):
                        place = (row * stride_height + kh * DOWN) * STRIDE * pitch + ow
                        if out_width - ow >= 16:
                            given = vload(g, source + ow, 16)
                        else:
                            given = vload_between(g, source + ow, 0, out_width - ow, 16)
{each(24, "sumKW = vadd(sumKW, vmul(given, vload(buffer, place + AT, 16)))")}
{each(16, "vstore(mine, KW * 16, sumKW)")}
        for n in range(HIGH * WIDE):
            total = T(0.0)
            for k in range(16):
                total += scratch_load(sums, n * 16 + k)
            store(result, plane * HIGH * WIDE + n, total)
"""


@cache
def _loop(source: Callable[[_Shape], str], arrays: str, dtype: np.dtype, shape: _Shape) -> Callable[..., None]:
    text = source(shape)
    (high, wide), (down, _) = shape.kernel, shape.dilation
    sizes = {"HIGH": high, "WIDE": wide, "STRIDE": shape.stride, "DOWN": down, "BUFFER": BUFFER, "LANES": shape.lanes}
    sizes |= {"LINE": LINE // dtype.itemsize}
    for name, size in sizes.items():
        text = text.replace(name, str(size))
    return native.compiled(text, arrays, dtype)


def _lines(width: int, out: int, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> tuple[int, int]:
    """Rows of outputs that the buffer has room for (not positive: none), and columns of a part of it."""
    columns = -(-out // 16) * 16 + (kernel[1] - 1) * dilation[1] // stride[1]
    pitch = max(columns, (padding[1] + width) // stride[1] + 1)
    lines = BUFFER // (stride[1] * pitch) - dilation[0] * (kernel[0] - 1)
    return (lines - 1) // stride[0] + 1, pitch


def takes(
    x: np.ndarray, kernel: Sizes, out: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int, filters: int
) -> bool:
    """Is this a convolution of planes that lie one after the other, each with one filter of its own?"""
    return (
        x.ndim == 4
        and x.shape[1] == groups == filters
        and max(kernel) <= LARGEST
        and stride[1] <= 2
        and x.flags.c_contiguous
        and _lines(x.shape[3], out[1], kernel, stride, padding, dilation)[0] > 0
    )


def turned(kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> Sizes | None:
    """The padding with which the transpose of a convolution is one, too; None where it is not, for its stride or for
    padding beyond the filter's reach."""
    around = tuple([d * (k - 1) - p for k, p, d in zip(kernel, padding, dilation)])
    return around if max(stride) == 1 and min(around) >= 0 else None


def conv(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, out: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> np.ndarray:  # fmt: skip
    """`conv` for what `takes` says."""
    y = allocator.empty((*x.shape[:2], *out), x.dtype)
    added = np.zeros(1, x.dtype) if bias is None else np.ascontiguousarray(bias)
    arrays = y, x, np.ascontiguousarray(w), added
    _over(_convolve, "TTTT", arrays, x, w.shape[2:], out, stride, padding, dilation, bias is not None)
    return y


def conv_weight(
    x: np.ndarray, grad: np.ndarray, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> np.ndarray:
    """`conv_weight` for what `takes` says."""
    sums = np.empty((*x.shape[:2], *kernel), x.dtype)
    arrays = sums, x, np.ascontiguousarray(grad)
    _over(_by_weight, "TTT", arrays, x, kernel, grad.shape[2:], stride, padding, dilation, False)
    return sums.sum(axis=0)[:, None]


def _over(
    source: Callable[[_Shape], str], letters: str, arrays: tuple[np.ndarray, ...], x: np.ndarray, kernel: Sizes,
    out: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, biased: bool,
) -> None:  # fmt: skip
    n, channels, height, width = x.shape
    most, pitch = _lines(width, out[1], kernel, stride, padding, dilation)
    layout = (channels, height, width, *out, *padding, stride[0], min(most, out[0]), pitch, biased)
    far = source is _convolve and max(stride) == 1 and height * width >= WIDE_APART and x.nbytes >= FAR
    loop = _loop(source, letters, x.dtype, _Shape(kernel, stride[1], dilation, tile_of(x.dtype)[2], far))
    native.over(loop, n * channels, out[0] * out[1] * kernel[0] * kernel[1] // 4, layout, *arrays)
