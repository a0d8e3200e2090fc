"""Power-average pooling, and max_unpool."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops.avg_pool import avg_pool_nd
from rushlight.ops.conv import spatial
from rushlight.ops.pool import max_pool_nd, place_planes_op, planes


def _lp_pool(count: int, input: Tensor, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Tensor:
    kernel_size = spatial(f"lp_pool{count}d", "kernel_size", kernel_size, count)
    if math.isinf(norm_type):  # the limit: the largest, or smallest, magnitude
        sign = math.copysign(1.0, norm_type)
        return max_pool_nd(count, input.abs() * sign, kernel_size, stride, 0, 1, ceil_mode, False) * sign
    means = avg_pool_nd(count, input**norm_type, kernel_size, stride, 0, ceil_mode, True, None)
    return (means.sign() * means.abs().relu() * float(np.prod(kernel_size))) ** (1.0 / norm_type)


def _define_lp(count: int) -> None:
    def lp_pool(
        input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> Tensor:
        return _lp_pool(count, input, norm_type, kernel_size, stride, ceil_mode)

    lp_pool.__doc__ = (
        "`(sum of x ** norm_type) ** (1 / norm_type)` over each window; of an infinite `norm_type` the largest, or "
        "smallest, magnitude. Raises RuntimeError when the sizes do not fit."
    )
    function(name=f"lp_pool{count}d", namespace="nn.functional", method=False, out=False)(lp_pool)


for _count in (1, 2, 3):
    _define_lp(_count)


def _unpool_size(
    name: str, x: Tensor, kernel_size: tuple, stride: tuple, padding: tuple, output_size: Sequence[int] | None
) -> tuple:
    default = [(n - 1) * s + k - 2 * p for n, k, s, p in zip(x.shape[2:], kernel_size, stride, padding)]
    if output_size is None:
        return tuple(default)
    given = list(output_size)[-len(default) :]
    if len(output_size) not in (len(default), len(default) + 2, len(default) + 1):
        raise ValueError(
            f"{name}: output_size must have {len(default)} or {len(default) + 2} elements, got {len(output_size)}"
        )
    for have, base, s in zip(given, default, stride):
        if not base - s < have < base + s:
            raise ValueError(
                f"{name}: invalid output_size {given}; sizes must lie between "
                f"{[b - s + 1 for b, s in zip(default, stride)]} and "
                f"{[b + s - 1 for b, s in zip(default, stride)]}"
            )
    return tuple(int(n) for n in given)


def _define_unpool(count: int) -> None:
    name = f"max_unpool{count}d"

    def max_unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:
        if indices.dtype is not dtypes.int64:
            raise RuntimeError(f"{name}: elements in indices should be type int64 but got {indices.dtype.name}")
        if input.shape != indices.shape:
            raise RuntimeError(
                f"{name}: expected shape of indices to be that of input {shape_text(input.shape)}, got "
                f"{shape_text(indices.shape)}"
            )
        x, single = planes(name, input, count)
        if 0 in x.shape[1:]:
            raise RuntimeError(
                f"{name}: expected input to have non-zero size for non-batch dimensions, got {shape_text(x.shape)}"
            )
        kernel_size = spatial(name, "kernel_size", kernel_size, count)
        stride = kernel_size if stride in (None, (), []) else spatial(name, "stride", stride, count)
        if min(stride) < 1:
            raise RuntimeError(f"{name}: strides should be greater than zero, got {list(stride)}")
        size = _unpool_size(name, x, kernel_size, stride, spatial(name, "padding", padding, count), output_size)
        result = place_planes_op.apply((x, planes(name, indices, count)[0]), (size,))
        return result.squeeze(0) if single else result

    max_unpool.__doc__ = (
        "The elements put back to the positions that max pooling took them from, zeros elsewhere.\n\n"
        "    Raises RuntimeError when shapes do not fit or an index is out of range, ValueError for an impossible "
        "output_size."
    )
    autocast = "wide" if count > 1 else ""
    function(name=name, namespace="nn.functional", method=False, out=False, autocast=autocast)(max_unpool)


for _count in (1, 2, 3):
    _define_unpool(_count)
