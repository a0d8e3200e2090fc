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
