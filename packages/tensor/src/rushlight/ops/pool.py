"""Pooling over windows: max_pool, avg_pool, lp_pool, max_unpool."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight.core import checks, dtypes
from rushlight.core.declare import structured
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.layout import kept_strides
from rushlight.core.meta import Meta, meta
from rushlight.core.native import of_loops
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import pool_window as cpu
from rushlight.ops.conv import spatial

Sizes = int | tuple[int, ...]

_X = (np.arange(40, dtype=np.float32) * 7 % 40).reshape(1, 2, 5, 4)


def pooled_sizes(
    name: str, size: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool
) -> tuple[int, ...]:
    """Output sizes of pooling; RuntimeError when the window or the padding does not fit."""
    if min(kernel) < 1 or min(stride) < 1 or min(dilation) < 1:
        raise RuntimeError(
            f"{name}: kernel_size, stride and dilation should be greater than zero, got kernel_size={list(kernel)}, "
            f"stride={list(stride)}, dilation={list(dilation)}; stride should not be zero"
        )
    out = []
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation):
        if not 0 <= p <= (d * (k - 1) + 1) // 2:
            raise RuntimeError(
                f"{name}: pad should be non-negative and at most half of effective kernel size, but got padding={p}, "
                f"kernel_size={k} and dilation={d}"
            )
        room = n + 2 * p - d * (k - 1) - 1
        o = -(-room // s) + 1 if ceil_mode else room // s + 1
        if ceil_mode and (o - 1) * s >= n + p:  # the last window must begin inside the input or the left padding
            o -= 1
        out.append(o)
    if any(n < 1 for n in out):
        raise RuntimeError(f"{name}: given input size {list(size)}, the calculated output size {out} is too small")
    return tuple(out)


# max_pool and its gradient: values move between planes and windows by flat positions


def _infer_max_pool(
    input: Meta, *, kernel_size: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool
) -> tuple[Meta, Meta]:
    if input.dtype.is_complex or input.dtype is dtypes.bool:
        raise RuntimeError(f"max_pool: not defined for {input.dtype.name}")
    out = pooled_sizes("max_pool", input.shape[2:], kernel_size, stride, padding, dilation, ceil_mode)
    if 0 in input.shape[1:]:
        raise RuntimeError(
            f"max_pool: expected non-empty channels and spatial dimensions, got shape {shape_text(input.shape)}"
        )
    shape = (*input.shape[:2], *out)
    strides = kept_strides(shape, input)
    return meta(input.dtype, shape, strides, input.device), meta(dtypes.int64, shape, strides, input.device)


max_pool_op = structured(
    "max_pool",
    _infer_max_pool,
    doc="Largest element of each window of `(N, C, *size)`, and its flat position in its plane.",
    samples=lambda: [
        Sample((_X,), ((2, 2), (2, 2), (0, 0), (1, 1), False)),
        Sample((_X,), ((3, 2), (1, 2), (1, 1), (2, 1), True)),
    ],
    errors=lambda: [
        ErrorSample((_X,), ((9, 9), (1, 1), (0, 0), (1, 1), False), RuntimeError, "too small"),
        ErrorSample((_X,), ((2, 2), (1, 1), (2, 0), (1, 1), False), RuntimeError, "at most half"),
        ErrorSample((_X,), ((2, 2), (0, 1), (0, 0), (1, 1), False), RuntimeError, "stride should not be zero"),
    ],
)


@kernel(max_pool_op, "cpu")
@of_loops
def _max_pool(x: np.ndarray, kernel_size: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil_mode: bool):
    x = checks.widened(x)
    out = pooled_sizes("max_pool", x.shape[2:], kernel_size, stride, padding, dilation, ceil_mode)
    return cpu.max_pool(x, kernel_size, out, stride, padding, dilation)


def _infer_scatter(input: Meta, indices: Meta, *, size: tuple[int, ...]) -> Meta:
    checks.shape("scatter_planes", "indices", indices, input.shape)
    shape = (*input.shape[:2], *size)
    return meta(input.dtype, shape, kept_strides(shape, input) if input.ndim == 4 else None, input.device)


scatter_planes_op = structured(
    "scatter_planes",
    _infer_scatter,
    doc="Planes of `size` with the elements of `(N, C, *)` added at the given flat positions.",
    samples=lambda: [
        Sample((_X[:, :, :2, :2], np.array([0, 5, 5, 3]).reshape(1, 1, 2, 2) + np.zeros((1, 2, 1, 1), int)), ((2, 3),))
    ],
    errors=lambda: [ErrorSample((_X[:, :, :1, :1], np.full((1, 2, 1, 1), 6)), ((2, 3),), RuntimeError, "out of range")],
)


def _check_positions(name: str, indices: np.ndarray, area: int) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= area):
        raise RuntimeError(
            f"{name}: found an invalid index, {int(indices.min())} to {int(indices.max())} is out of range for a plane "
            f"of {area} elements"
        )


@kernel(scatter_planes_op, "cpu")
def _scatter(values: np.ndarray, indices: np.ndarray, size: tuple) -> np.ndarray:
    result = cpu.scatter_planes(checks.widened(values), indices, size)
    if result is None:
        _check_positions("scatter_planes", indices, prod(size))
    return result


place_planes_op = structured(
    "place_planes",
    _infer_scatter,
    doc="Zero planes of `size` with the elements of `(N, C, *)` stored at the given flat positions.",
    samples=lambda: [
        Sample((_X[:, :, :2, :2], np.array([0, 5, 5, 3]).reshape(1, 1, 2, 2) + np.zeros((1, 2, 1, 1), int)), ((2, 3),))
    ],
    errors=lambda: [ErrorSample((_X[:, :, :1, :1], np.full((1, 2, 1, 1), 6)), ((2, 3),), RuntimeError, "out of range")],
)


@kernel(place_planes_op, "cpu")
def _place(values: np.ndarray, indices: np.ndarray, size: tuple) -> np.ndarray:
    _check_positions("place_planes", indices, prod(size))
    result = np.zeros((*values.shape[:2], prod(size)), values.dtype)
    flat = (*values.shape[:2], prod(values.shape[2:]))
    np.put_along_axis(result, indices.reshape(flat), values.reshape(flat), 2)
    return result.reshape(*values.shape[:2], *size)


def _infer_gather(input: Meta, indices: Meta) -> Meta:
    return meta(input.dtype, indices.shape, None, input.device)


gather_planes_op = structured(
    "gather_planes",
    _infer_gather,
    doc="The elements of each plane of `(N, C, *size)` at the given flat positions.",
    samples=lambda: [Sample((_X, np.array([0, 5, 19, 3]).reshape(1, 1, 2, 2) + np.zeros((1, 2, 1, 1), int)))],
    errors=lambda: [ErrorSample((_X, np.full((1, 2, 1, 1), 20)), (), RuntimeError, "out of range")],
)


@kernel(gather_planes_op, "cpu")
def _gather(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    _check_positions("gather_planes", indices, prod(x.shape[2:]))
    flat = x.reshape(*x.shape[:2], prod(x.shape[2:]))
    where = indices.reshape(*indices.shape[:2], prod(indices.shape[2:]))
    return np.take_along_axis(flat, where, 2).reshape(indices.shape)


# Functions


def planes(name: str, input: Tensor, count: int) -> tuple[Tensor, bool]:
    """The input with a batch dimension, and whether it had none; RuntimeError for other numbers of dimensions."""
    if input.ndim == count + 2:
        return input, False
    if input.ndim != count + 1:
        raise RuntimeError(
            f"{name}: expected {count + 1}D or {count + 2}D input, got {input.ndim}D of shape {shape_text(input.shape)}"
        )
    return input.unsqueeze(0), True


def max_pool_nd(
    count: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    """`max_pool1d` to `max_pool3d`, for a number of dimensions."""
    name = f"max_pool{count}d"
    kernel_size = spatial(name, "kernel_size", kernel_size, count)
    stride = kernel_size if stride is None or stride == () or stride == [] else spatial(name, "stride", stride, count)
    params = (
        kernel_size,
        stride,
        spatial(name, "padding", padding, count),
        spatial(name, "dilation", dilation, count),
        bool(ceil_mode),
    )
    if input.ndim == count + 2:
        values, indices = max_pool_op.apply((input,), params)
    else:
        values, indices = (x.squeeze(0) for x in max_pool_op.apply((planes(name, input, count)[0],), params))
    return (values, indices) if return_indices else values


def _define_max_pool(count: int) -> None:
    shapes = {
        1: "`(N, C, L)` -> `(N, C, L')`",
        2: "`(N, C, H, W)` -> `(N, C, H', W')`",
        3: "`(N, C, D, H, W)` -> `(N, C, D', H', W')`",
    }[count]

    def max_pool(
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        return max_pool_nd(count, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)

    def max_pool_with_indices(
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:
        return max_pool_nd(count, input, kernel_size, stride, padding, dilation, ceil_mode, True)

    def root_max_pool(
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> Tensor:
        return max_pool_nd(count, input, kernel_size, stride, padding, dilation, ceil_mode, False)

    text = (
        f"Largest element of each window, {shapes}; `return_indices` adds its flat position in the plane.\n\n"
        "    Windows reach into `padding` (which never wins) and, with `ceil_mode`, over the end. Raises "
        "RuntimeError when sizes do not fit."
    )
    autocast = "wide" if count == 3 else ""
    for name, body, namespace in (
        (f"max_pool{count}d", max_pool, "nn.functional"),
        (f"max_pool{count}d_with_indices", max_pool_with_indices, "nn.functional"),
        (f"max_pool{count}d", root_max_pool, ""),
    ):
        body.__doc__ = text
        function(name=name, namespace=namespace, method=False, out=False, memo=True, autocast=autocast)(body)
    if count == 1:
        function(name="max_pool1d_with_indices", method=False, out=False)(max_pool_with_indices)


for _count in (1, 2, 3):
    _define_max_pool(_count)
