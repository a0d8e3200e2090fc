"""Winograd's convolution on tiles of 6 x 6 elements: a quarter of the multiplications for 3 x 3 filters.

A task transforms some tiles of the images to 36 matrices (channels, tiles), multiplies each by its matrix of filters on
the tiles of `gemm`, and transforms the products to outputs. Tiles are counted through rows and images, so that small
images leave no lanes empty. Nothing is kept in memory but the transformed filters.

With a stride of 2, outputs are sums over four images of a quarter of the size, of the elements at even and at odd
places: 7 x 7 filters are 4 x 4 filters on four times as many channels.

See `winograd_tiles` for the arithmetic and its error. An infinity or NaN would spread over its tiles, so the loop tells
whether it met one, and then sums over windows say which outputs it reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from rushlight.kernels.cpu import allocator, gemm_kernels, native, winograd_source
from rushlight.kernels.cpu.conv_loop import NOTHING, Sizes, scratch, tile_of
from rushlight.kernels.cpu.conv_plan import GRAIN
from rushlight.kernels.cpu.copy import assign
from rushlight.kernels.cpu.pool import get_num_threads
from rushlight.kernels.cpu.team import run_kernel

# Elements of the transformed input of a task, and of the products at a time.
TRANSFORMED, PRODUCTS = 288 << 10, 10 << 10
# Tiles of a task: fewer would read the filters too often (256 channels and filters: 37 ms with 128, 44 with 32).
FEWEST, MOST = 96, 128
# The length of sums that a tile of `gemm` adds up before it writes them.
DEPTH = 256
# Elements of images that are copied at a time where they lie otherwise (channels last): 8 MiB.
COPIED = 1 << 21


class _Plan(NamedTuple):
    layout: np.ndarray
    tasks: int
    grain: int
    slot: int


class _Sizes(NamedTuple):
    """What a convolution is, apart from the images."""

    filters: int
    channels: int  # of a group
    groups: int
    kernel: int
    stride: int
    transposed: bool  # filters come as (channels, filters), turned around

    @property
    def taps(self) -> int:
        """Taps of a filter along an image of every `stride`-th element."""
        return -(-self.kernel // self.stride)

    @property
    def deep(self) -> int:
        """Elements that the sums of one point have."""
        return self.channels * self.stride * self.stride


@lru_cache(maxsize=512)
def _plan(x: tuple[Sizes, Sizes], sizes: _Sizes, out: Sizes, padding: Sizes, threads: int, biased: bool) -> _Plan:
    (samples, _, height, width), x_steps = x
    dtype = np.dtype(np.float32)
    _, columns = gemm_kernels.tile_shape(dtype)
    groups, channels, stride, deep = sizes.groups, sizes.channels, sizes.stride, sizes.deep
    filters, outputs = sizes.filters // groups, 7 - sizes.taps
    down, across = -(-out[0] // outputs), -(-out[1] // outputs)
    tiles = samples * down * across
    count = min(max(FEWEST, min(MOST, TRANSFORMED // (36 * deep))), -(-tiles * groups // (4 * threads)))
    count = -(-count // columns) * columns
    tasks = -(-tiles // count) * groups
    parts = max(1, min(filters // 24, 2 * threads // tasks))
    together = -(-filters // parts)
    together = min(together, max(12, PRODUCTS // (36 * count)))
    # A line holds the elements of some tiles side by side and those that reach beyond the last, for each row of tiles.
    line = count * outputs + 6 * min(count, count // across + 2) + 2 * columns
    # A power of two between the points would put them all in the same places of the cache.
    input_pitch, pitch = count * deep + 16, together * count + 16
    filter_pitch = _between(filters * deep)
    filter_row, filter_depth = (1, filters) if sizes.transposed else (deep, 1)
    slot = -(-(6 * stride * line + 36 * (input_pitch + pitch)) // 16) * 16
    words = (
        groups, channels, filters, height, width, *x_steps, *out, -padding[0], -padding[1], deep, down, across, tiles,
        count, together, parts, line, input_pitch, 36 * filter_pitch, filter_pitch, filter_row, filter_depth,
        pitch, gemm_kernels.row(dtype), slot, slot * threads, biased,
    )  # fmt: skip
    work = 36 * count * deep * filters // parts
    return _Plan(np.array(words, np.int64), tasks * parts, max(1, GRAIN // work), slot)


def _between(size: int) -> int:
    """Elements between what is at one point and at the next."""
    return size + 16


@cache
def _loop(stride: int, outputs: int) -> Callable[..., None]:
    dtype = np.dtype(np.float32)
    (rows, columns), lanes = gemm_kernels.tile_shape(dtype), tile_of(dtype)[2]
    names = {"STRIDE": stride, "OUTPUTS": outputs, "ROWS": rows, "COLUMNS": columns, "LANES": lanes, "DEPTH": DEPTH}
    names |= {"LINE": gemm_kernels.LINE // dtype.itemsize}
    names |= {"TILES": MOST + columns, "PIECES": 5 * (MOST + columns), "EDGE": 4 * outputs * lanes}
    constants = "".join(f"{name} = {value}\n" for name, value in names.items())
    return native.compiled(constants + winograd_source.convolve(stride), "TTTTTi", dtype)


@cache
def _filter_loop(kernel: int, stride: int, turned: bool) -> Callable[..., None]:
    dtype, taps = np.dtype(np.float32), -(-kernel // stride)
    some = winograd_source.SOME
    names = {"KERNEL": kernel, "STRIDE": stride, "TAPS": taps, "TURNED": int(turned), "PLACES": taps * taps}
    names |= {"ROOM": (kernel * kernel + 1) * some, "ORDERED": 36 * some, "LANES": tile_of(dtype)[2]}
    constants = "".join(f"{name} = {value}\n" for name, value in names.items())
    return native.compiled(constants + winograd_source.FILTERS, "TT", dtype)


def _transformed(w: np.ndarray, sizes: _Sizes) -> np.ndarray:
    """For each group and point the filters as a matrix, as `w` has them: (filters, channels), or transposed."""
    weights = sizes.filters // sizes.groups * sizes.channels
    pitch = _between(weights * sizes.stride**2)
    result = allocator.empty((sizes.groups, 36, pitch), w.dtype)
    tasks = sizes.groups * -(-weights // winograd_source.SOME)
    loop = _filter_loop(sizes.kernel, sizes.stride, sizes.transposed)
    layout = np.array([weights, pitch, 36 * pitch], np.int64)
    run_kernel(loop, tasks, 8, layout, result, np.ascontiguousarray(w))
    return result


# Cycles of a core, measured on Zen 3: for a product of a tile and a filter at all points and an element of the sum, and
# besides for each tile, filter and element; to transform a filter; for a multiply-add of the plain loops.
PRODUCT, OUTPUT, INPUT, FILTER, PLAIN = 2.6, 34.0, 13.0, 52.0, 1 / 12.8


def pays(x: np.ndarray, channels: int, filters: int, kernel: Sizes, out: Sizes, stride: Sizes, dilation: Sizes) -> bool:
    """Is this way open, and faster than sums over windows? `channels` and `filters` are those of a group."""
    if x.dtype != np.float32 or len(kernel) != 2 or kernel[0] != kernel[1] or dilation != (1, 1):
        return False
    if stride[0] != stride[1] or stride[0] > 2 or -(-kernel[0] // stride[0]) not in (3, 4):
        return False
    sizes = _Sizes(filters, channels, 1, kernel[0], stride[0], False)
    outputs = 7 - sizes.taps
    tiles = -(-x.shape[0] * -(-out[0] // outputs) * -(-out[1] // outputs) // 16) * 16
    each = PRODUCT * sizes.deep * filters + OUTPUT * filters + INPUT * sizes.deep
    plain = PLAIN * x.shape[0] * prod(out) * filters * channels * prod(kernel)
    return tiles * each + FILTER * filters * sizes.deep < 0.9 * plain


def conv(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, out: Sizes, stride: int, padding: Sizes, groups: int,
    transposed: bool = False,
) -> np.ndarray | None:  # fmt: skip
    """`conv` with square filters; `transposed`: with those of `conv_transpose`, stride 1, `padding` around `x`. None
    where something is not finite."""
    threads, finite = get_num_threads(), True
    if transposed:
        sizes = _Sizes(w.shape[1] * groups, w.shape[0] // groups, groups, w.shape[-1], stride, transposed)
    else:
        sizes = _Sizes(w.shape[0], w.shape[1], groups, w.shape[-1], stride, transposed)
    y = allocator.empty((x.shape[0], sizes.filters, *out), x.dtype)
    filters, added = _transformed(w, sizes), NOTHING if bias is None else np.ascontiguousarray(bias)
    for first, last in samples_at_a_time(x):
        images = by_rows(x[first:last])
        plan = _plan(places(images), sizes, out, padding, threads, bias is not None)
        memory, words = scratch(plan.slot, threads, x.dtype)
        run_kernel(
            _loop(stride, 7 - sizes.taps), plan.tasks, plan.grain, plan.layout, y[first:last], images, filters, added,
            memory, words,
        )  # fmt: skip
        finite &= not words[2]
    return y if finite else None


def samples_at_a_time(*arrays: np.ndarray) -> Iterator[tuple[int, int]]:
    """All samples, or so many that the copies of arrays whose rows do not lie along the memory stay small."""
    samples = arrays[0].shape[0]
    copied = sum([x.size for x in arrays if x.strides[-1] != x.itemsize])
    step = max(1, samples * COPIED // max(copied, COPIED))
    for first in range(0, samples, step):
        yield first, min(first + step, samples)


def by_rows(x: np.ndarray) -> np.ndarray:
    """The array, copied where its rows do not lie along the memory."""
    if x.strides[-1] == x.itemsize:
        return x
    result = allocator.empty(x.shape, x.dtype)
    assign(result, x)
    return result


def places(x: np.ndarray) -> tuple[Sizes, Sizes]:
    """Shape and element strides but for the last."""
    return x.shape, tuple([step // x.itemsize for step in x.strides[:3]])
