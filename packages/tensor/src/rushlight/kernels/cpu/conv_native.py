"""Convolution by native loops: what `conv` takes for float32 and float64 arrays that are worth compiled code.

The windows are never copied to columns: a task needs a buffer of a few hundred KiB per thread, whatever the size of the
input. Arrays are read with the strides they have (channels last, gradients of sums).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from rushlight.kernels.cpu import allocator, conv_plan, depthwise_planes, gemm, native, winograd, winograd_weights
from rushlight.kernels.cpu.conv_loop import NOTHING, Sizes, loop, scratch, tile_of
from rushlight.kernels.cpu.conv_plan import laid_out
from rushlight.kernels.cpu.conv_source import BY_WEIGHT, CONVOLVE, DEPTHWISE, DEPTHWISE_TILE, PACK
from rushlight.kernels.cpu.pool import get_num_threads
from rushlight.kernels.cpu.team import run_kernel

# Channels from which on kernels of one element are matrix products: 0.6 to 0.9 of the time of the loops, from 64
# channels on 28 x 28 to 1024 on 14 x 14; with 32, 1.25 of it.
DEEP = 48
# Most elements of the weights' gradients of all samples that wait in memory to be added up; beyond that each product is
# added to the sum, call after call.
PRODUCTS = 1 << 20


def usable(x: np.ndarray, products: int) -> bool:
    """Is there a native loop for such arrays, and enough work?"""
    return (
        products >= native.WORTH
        and 3 <= x.ndim <= 5
        and x.dtype in (np.float32, np.float64)
        and all(step % x.itemsize == 0 for step in x.strides)
    )


def conv(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, out: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes,
    groups: int,
) -> np.ndarray:  # fmt: skip
    """Cross-correlation of `x` with `w`: (N, F, *out)."""
    if _is_product(x, w, w.shape[2:], stride, padding, groups) and x.shape[1] >= DEEP:
        return _product(w.reshape(w.shape[:2]), x, bias)
    if winograd.pays(x, w.shape[1], w.shape[0] // groups, w.shape[2:], out, stride, dilation):
        y = winograd.conv(x, w, bias, out, stride[0], padding, groups)
        if y is not None:
            return y
    if depthwise_planes.takes(x, w.shape[2:], out, stride, padding, dilation, groups, w.shape[0]):
        return depthwise_planes.conv(x, w, bias, out, stride, padding, dilation)
    y = allocator.empty((x.shape[0], w.shape[0], *out), x.dtype)
    return _correlate(conv_plan.forward, x, w, bias, y, stride, padding, dilation, groups)


def conv_transpose(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, out: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes,
    groups: int,
) -> np.ndarray:  # fmt: skip
    """The transpose of `conv` as a map of its input: (N, C, *out)."""
    if _is_product(x, w, w.shape[2:], stride, padding, groups) and x.shape[1] >= DEEP and x.shape[2:] == out:
        return _product(w.reshape(w.shape[:2]).T, x, bias)
    if max(stride) == 1 and winograd.pays(x, w.shape[0] // groups, w.shape[1], w.shape[2:], out, stride, dilation):
        around = tuple([k - 1 - p for k, p in zip(w.shape[2:], padding)])
        y = winograd.conv(x, w, bias, out, 1, around, groups, transposed=True)
        if y is not None:
            return y
    around = depthwise_planes.turned(w.shape[2:], stride, padding, dilation)
    if around and depthwise_planes.takes(x, w.shape[2:], out, stride, around, dilation, groups, w.shape[1] * groups):
        return depthwise_planes.conv(x, w[..., ::-1, ::-1], bias, out, stride, around, dilation)
    y = allocator.empty((x.shape[0], w.shape[1] * groups, *out), x.dtype)
    return _correlate(conv_plan.transposed, x, w, bias, y, stride, padding, dilation, groups)


def _is_product(x: np.ndarray, other: np.ndarray, kernel: Sizes, stride: Sizes, padding: Sizes, groups: int) -> bool:
    """Is every output of the products of one matrix and the channels of the input's elements?"""
    plain = prod(kernel) == max(stride) == groups == 1 and not any(padding)
    return plain and x.flags.c_contiguous and gemm.takes(x, other)


def _product(w: np.ndarray, x: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    y = gemm.multiply(w, x.reshape(*x.shape[:2], -1), added=None if bias is None else bias[:, None])
    return y.reshape(x.shape[0], w.shape[0], *x.shape[2:])


def _product_by_weight(x: np.ndarray, grad: np.ndarray, kernel: Sizes) -> np.ndarray:
    """The sum over samples of `grad @ x.T`."""
    left, right = (y.reshape(*y.shape[:2], -1) for y in (grad, x))
    if left.shape[0] * left.shape[1] * right.shape[1] <= PRODUCTS:
        result = gemm.multiply(left, right.swapaxes(1, 2)).sum(axis=0)
    else:
        result = gemm.multiply(left[0], right[0].T)
        for a, b in zip(left[1:], right[1:]):
            gemm.multiply(a, b.T, result, result)
    return result.reshape(*result.shape, *kernel)


def _correlate(
    planned: Callable[..., conv_plan.Plan], x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, y: np.ndarray,
    stride: Sizes, padding: Sizes, dilation: Sizes, groups: int,
) -> np.ndarray:  # fmt: skip
    dtype, threads = x.dtype, get_num_threads()
    where = laid_out(x), laid_out(w), laid_out(y)
    params = stride, padding, dilation, groups
    added = NOTHING if bias is None else np.ascontiguousarray(bias)
    if x.shape[1] == groups:
        plan = planned(*where, *params, DEPTHWISE_TILE, threads, bias is not None)
        convolve = loop(DEPTHWISE, "TTTiiTiTi", dtype, DEPTHWISE_TILE)
        weights = w, plan.weights, plan.packing
    else:
        plan = planned(*where, *params, tile_of(dtype), threads, bias is not None)
        packed = allocator.empty((plan.packed,), dtype)
        pack = loop(PACK, "TTi", dtype)
        run_kernel(pack, plan.packed // max(1, plan.per_block), plan.pack_grain, plan.packing, packed, w, plan.weights)
        convolve = loop(CONVOLVE, "TTTTiTi", dtype)
        weights = (packed,)
    memory = scratch(plan.slot, threads, dtype)
    run_kernel(convolve, plan.tasks, plan.grain, plan.layout, y, x, *weights, added, plan.table, *memory)
    return y


def conv_weight(
    x: np.ndarray, grad: np.ndarray, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> np.ndarray:
    """The transpose of `conv` as a map of its weight: (F, C / groups, *kernel)."""
    same = x.shape[2:] == grad.shape[2:] and grad.flags.c_contiguous and len(x) > 0
    if same and _is_product(x, grad, kernel, stride, padding, groups):
        return _product_by_weight(x, grad, kernel)
    if depthwise_planes.takes(x, kernel, grad.shape[2:], stride, padding, dilation, groups, grad.shape[1]):
        return depthwise_planes.conv_weight(x, grad, kernel, stride, padding, dilation)
    if winograd_weights.pays(x, x.shape[1] // groups, grad, groups, kernel, stride, dilation):
        return winograd_weights.conv_weight(x, grad, padding, groups)
    dtype = x.dtype
    where, threads = (laid_out(x), laid_out(grad)), get_num_threads()
    plan = conv_plan.by_weight(*where, kernel, stride, padding, dilation, groups, tile_of(dtype), threads)
    shape = (grad.shape[1], x.shape[1] // groups, *kernel)
    result = allocator.empty((plan.chunks, *shape), dtype)
    sums = loop(BY_WEIGHT, "TTTiTi", dtype)
    run_kernel(
        sums, plan.tasks, plan.grain, plan.layout, result, x, grad, plan.table, *scratch(plan.slot, threads, dtype)
    )
    return result[0] if plan.chunks == 1 else result.sum(axis=0)
