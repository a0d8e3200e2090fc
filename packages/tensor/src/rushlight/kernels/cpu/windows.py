"""Native loops over the windows of images: scattering to planes, columns for convolution.

Tasks are planes (one channel of one sample). `layout` holds sizes and, per dimension, kernel, stride, padding and
dilation.
"""

from __future__ import annotations

from math import prod

import numpy as np

from rushlight.kernels.cpu import allocator, native

HEAD = """    height = load(layout, u64(0))
    width = load(layout, u64(1))
    out_height = load(layout, u64(2))
    out_width = load(layout, u64(3))
    kernel_height = load(layout, u64(4))
    kernel_width = load(layout, u64(5))
    stride_height = load(layout, u64(6))
    stride_width = load(layout, u64(7))
    pad_height = load(layout, u64(8))
    pad_width = load(layout, u64(9))
    step_height = load(layout, u64(10))
    step_width = load(layout, u64(11))
"""

# Indices are checked here; `bad` becomes 1 when one lies outside of its plane.
_SCATTER = """def kernel(lo, hi, layout, out, bad, values, indices):
    area = load(layout, u64(0))
    count = load(layout, u64(1))
    for plane in range(lo, hi):
        base = i64(plane) * area
        first = i64(plane) * count
        for k in range(area):
            scratch_store(out, u64(base + k), T(0.0))
        for k in range(count):
            index = load(indices, u64(first + k))
            if index >= 0 and index < area:
                at = u64(base + index)
                scratch_store(out, at, scratch_load(out, at) + load(values, u64(first + k)))
            else:
                store(bad, u64(0), i64(1))
"""


def _in_chunks(indent: int) -> str:
    """A loop that copies a row, its body written out 8 and 4 times: short rows become a vector instruction or two.

    (A plain loop is made for long rows: it takes 32 elements at a time and the rest one by one.)
    """
    lines = ["ow = i64(0)"]
    for width in (8, 4, 1):
        lines.append(f"while ow + i64({width - 1}) < out_width:")
        lines += [f"    v{k} = load(x, u64(source + ow + i64({k})))" for k in range(width)]
        lines += [f"    store(columns, u64(row + ow + i64({k})), v{k})" for k in range(width)]
        lines.append(f"    ow += i64({width})")
    return "\n".join(" " * indent + line for line in lines)


# The columns of plane (n, c) of padded `x`: taps of the kernel are `tap_step` elements apart, samples `sample_step`.
_COLUMNS = f"""def kernel(lo, hi, layout, columns, x):
{HEAD}
    channels = load(layout, u64(12))
    sample_step = load(layout, u64(13))
    tap_step = load(layout, u64(14))
    first_plane = load(layout, u64(15))
    for plane in range(lo, hi):
        sample = i64(plane) // channels
        channel = i64(plane) - sample * channels
        base = (i64(plane) + first_plane) * height * width
        target = sample * sample_step + channel * kernel_height * kernel_width * tap_step
        for i in range(kernel_height):
            for j in range(kernel_width):
                for oh in range(out_height):
                    row = target + oh * out_width
                    source = base + (oh * stride_height + i * step_height) * width + j * step_width
                    if stride_width == i64(1):
{_in_chunks(24)}
                    else:
                        for ow in range(out_width):
                            store(columns, u64(row + ow), load(x, u64(source + ow * stride_width)))
                target += tap_step
"""

# The transpose: columns of samples from `first_plane` on added up in a padded image.
_ADD_COLUMNS = f"""def kernel(lo, hi, layout, out, columns):
    wide_vectors()
{HEAD}
    first_plane = load(layout, u64(12))
    area = out_height * out_width
    for plane in range(lo, hi):
        base = (i64(plane) + first_plane) * height * width
        row = i64(plane) * kernel_height * kernel_width * area
        for k in range(height * width):
            scratch_store(out, u64(base + k), T(0.0))
        for i in range(kernel_height):
            for j in range(kernel_width):
                for oh in range(out_height):
                    target = base + (oh * stride_height + i * step_height) * width + j * step_width
                    if stride_width == i64(1):
                        for ow in range(out_width):
                            at = u64(target + ow)
                            scratch_store(out, at, scratch_load(out, at) + load(columns, u64(row + ow)))
                    else:
                        for ow in range(out_width):
                            at = u64(target + ow * stride_width)
                            scratch_store(out, at, scratch_load(out, at) + load(columns, u64(row + ow)))
                    row += out_width
"""

Sizes = tuple[int, ...]


def usable(x: np.ndarray, elements: int) -> bool:
    """Can native code walk these planes (1-D or 2-D, float32, contiguous), and is there enough work?"""
    return 3 <= x.ndim <= 4 and elements >= native.WORTH and x.dtype == np.float32 and x.flags.c_contiguous


def layout_of(
    size: Sizes, out: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> tuple[int, ...]:
    """The numbers that `HEAD` reads; a signal is an image of one row."""
    pairs = [size, out, kernel, stride, padding, dilation]
    if len(size) == 1:
        pairs = [(fill, *pair) for fill, pair in zip((1, 1, 1, 1, 0, 1), pairs)]
    return tuple([n for pair in pairs for n in pair])


def scatter(values: np.ndarray, indices: np.ndarray, size: Sizes) -> np.ndarray | None:
    """Planes with values added at flat positions; None when a position is out of range."""
    out, bad = allocator.empty((*values.shape[:2], *size), values.dtype), np.zeros(1, np.int64)
    planes = values.shape[0] * values.shape[1]
    count = prod(values.shape[2:])
    native.over(
        native.compiled(_SCATTER, "TiTi"), planes, prod(size) + count, (prod(size), count), out, bad, values, indices
    )
    return None if bad[0] else out


def columns(
    xp: np.ndarray, lo: int, hi: int, by_tap: bool, kernel: Sizes, out: Sizes, stride: Sizes, dilation: Sizes
) -> np.ndarray:
    """The windows of samples lo..hi of a padded input as columns: (hi - lo, C * K, L), or (C * K, (hi - lo) * L) when
    `by_tap`."""
    channels, length, samples = xp.shape[1], prod(out), hi - lo
    depth = channels * prod(kernel)
    result = allocator.empty((depth, samples * length) if by_tap else (samples, depth, length), xp.dtype)
    steps = (length, samples * length) if by_tap else (depth * length, length)
    layout = (*layout_of(xp.shape[2:], out, kernel, stride, (0,) * len(out), dilation), channels, *steps, lo * channels)
    native.over(native.compiled(_COLUMNS, "TT"), samples * channels, prod(kernel) * length, layout, result, xp)
    return result


def add_columns(
    padded: np.ndarray,
    lo: int,
    hi: int,
    columns: np.ndarray,
    kernel: Sizes,
    size: Sizes,
    stride: Sizes,
    dilation: Sizes,
) -> None:
    """Set samples lo..hi of a padded image to the sums of columns (hi - lo, C * K, L) where they came from."""
    channels = padded.shape[1]
    layout = (*layout_of(padded.shape[2:], size, kernel, stride, (0,) * len(size), dilation), lo * channels)
    native.over(
        native.compiled(_ADD_COLUMNS, "TT"), (hi - lo) * channels, prod(kernel) * prod(size), layout, padded, columns
    )
