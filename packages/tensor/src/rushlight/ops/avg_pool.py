"""Average pooling over windows."""

from __future__ import annotations

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
from rushlight.ops.pool import planes, pooled_sizes

Sizes = int | tuple[int, ...]

_X = (np.arange(40, dtype=np.float32) * 7 % 40).reshape(1, 2, 5, 4)


def _divisors(
    size: tuple, kernel: tuple, out: tuple, stride: tuple, padding: tuple, count_include_pad: bool, divisor: int
) -> list[np.ndarray]:
    """Per dimension what each place contributes to its window's divisor: they are multiplied."""
    if divisor:
        return [np.full(out[0], divisor), *[np.ones(o, int) for o in out[1:]]]
    result = []
    for n, k, o, s, p in zip(size, kernel, out, stride, padding):
        start = np.arange(o) * s - p
        end = np.minimum(start + k, n + p)
        result.append(end - start if count_include_pad else np.minimum(end, n) - np.maximum(start, 0))
    return result


def _infer_avg_pool(
    input: Meta,
    *,
    kernel_size: tuple,
    stride: tuple,
    padding: tuple,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int,
) -> Meta:
    checks.floating("avg_pool", "input", input) if input.dtype is not dtypes.int64 else None
    out = pooled_sizes("avg_pool", input.shape[2:], kernel_size, stride, padding, (1,) * len(kernel_size), ceil_mode)
    if 0 in input.shape[1:]:
        raise RuntimeError(
            f"avg_pool: expected non-empty channels and spatial dimensions, got shape {shape_text(input.shape)}"
        )
    shape = (*input.shape[:2], *out)
    return meta(input.dtype, shape, kept_strides(shape, input) if input.ndim == 4 else None, input.device)


avg_pool_op = structured(
    "avg_pool",
    _infer_avg_pool,
    doc="Mean of each window of `(N, C, *size)`; `divisor` other than 0 replaces the window's size.",
    samples=lambda: [
        Sample((_X,), ((2, 2), (2, 2), (0, 0), False, True, 0)),
        Sample((_X,), ((3, 2), (1, 2), (1, 1), True, False, 0)),
        Sample((_X,), ((3, 3), (2, 2), (1, 1), True, True, 5)),
    ],
    errors=lambda: [ErrorSample((_X,), ((9, 9), (1, 1), (0, 0), False, True, 0), RuntimeError, "too small")],
)


@kernel(avg_pool_op, "cpu")
@of_loops
def _avg_pool(
    x: np.ndarray,
    kernel_size: tuple,
    stride: tuple,
    padding: tuple,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int,
):
    x = checks.widened(x)
    size = x.shape[2:]
    out = pooled_sizes("avg_pool", size, kernel_size, stride, padding, (1,) * len(size), ceil_mode)
    by = _divisors(size, kernel_size, out, stride, padding, count_include_pad, divisor)
    if x.dtype.kind != "f":
        return cpu.avg_pool(x.astype(np.float64), kernel_size, out, stride, padding, by)
    return cpu.avg_pool(x, kernel_size, out, stride, padding, by)


def _infer_avg_pool_transpose(
    grad: Meta, *, size: tuple, kernel_size: tuple, stride: tuple, padding: tuple, count_include_pad: bool, divisor: int
) -> Meta:
    shape = (*grad.shape[:2], *size)
    return meta(grad.dtype, shape, kept_strides(shape, grad) if grad.ndim == 4 else None, grad.device)


avg_pool_transpose_op = structured(
    "avg_pool_transpose",
    _infer_avg_pool_transpose,
    doc="The gradient of `avg_pool`: each element spread evenly over its window.",
    samples=lambda: [Sample((_X[:, :, :2, :2],), ((5, 4), (2, 2), (2, 2), (0, 0), True, 0))],
)


@kernel(avg_pool_transpose_op, "cpu")
@of_loops
def _avg_pool_transpose(
    grad: np.ndarray,
    size: tuple,
    kernel_size: tuple,
    stride: tuple,
    padding: tuple,
    count_include_pad: bool,
    divisor: int,
):
    grad = checks.widened(grad)
    by = _divisors(size, kernel_size, grad.shape[2:], stride, padding, count_include_pad, divisor)
    return cpu.avg_pool_transpose(grad, size, kernel_size, stride, padding, by)


# Functions


def avg_pool_nd(
    count: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    """Average pooling over the last `count` dimensions."""
    name = f"avg_pool{count}d"
    kernel_size = spatial(name, "kernel_size", kernel_size, count)
    stride = kernel_size if stride is None or stride == () or stride == [] else spatial(name, "stride", stride, count)
    if divisor_override == 0:
        raise RuntimeError(f"{name}: divisor must be not zero")
    x, single = planes(name, input, count)
    result = avg_pool_op.apply(
        (x,),
        (
            kernel_size,
            stride,
            spatial(name, "padding", padding, count),
            bool(ceil_mode),
            bool(count_include_pad),
            divisor_override or 0,
        ),
    )
    return result.squeeze(0) if single else result


@function(method=False, out=False, memo=True)
def avg_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Mean of each window: `(N, C, L)` -> `(N, C, L')`. Raises RuntimeError when sizes do not fit."""
    return avg_pool_nd(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@function(namespace="nn.functional", method=False, memo=True)
def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Mean of each window: `(N, C, H, W)` -> `(N, C, H', W')`. Raises RuntimeError when sizes do not fit.

    `divisor_override` replaces the number of elements; `count_include_pad=False` does not count padding.
    """
    return avg_pool_nd(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@function(namespace="nn.functional", method=False, memo=True, autocast="wide")
def avg_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Mean of each window: `(N, C, D, H, W)` -> `(N, C, D', H', W')`. Raises RuntimeError when sizes do not fit."""
    return avg_pool_nd(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
