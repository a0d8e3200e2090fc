"""Normalisations that also return their statistics: native_layer_norm, native_group_norm, native_batch_norm."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops.batch_norm import batch_norm, batch_norm_training, group_norm_parts
from rushlight.ops.normalization import layer_norm_op, normalized_dims


@function(method=False, out=False)
def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`nn.functional.layer_norm`, the mean of each row and the reciprocal of its standard deviation.

    Shapes: `(*, *normalized_shape)` -> the same and twice `(*, 1, ...)`. Raises RuntimeError when the shapes do not
    end so, or for integer input.
    """
    dims = normalized_dims("native_layer_norm", input, normalized_shape)
    result, mean, rstd = layer_norm_op.apply((input, weight, bias, eps), (dims,))
    return result, mean.to(input.dtype), rstd.to(input.dtype)


@function(method=False, out=False)
def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`nn.functional.group_norm`, the mean of each group and the reciprocal of its standard deviation.

    Shapes: `(N, C, *)` with HxW elements a channel -> the same and twice `(N, group)`. Raises RuntimeError unless
    `group` divides C and the sizes are those of the input.
    """
    if input.numel() != N * C * HxW:
        raise RuntimeError(f"native_group_norm: expected {N * C * HxW} elements (N * C * HxW), got {input.numel()}")
    result, mean, variance = group_norm_parts(input, group, weight, bias, eps)
    if input.requires_grad:  # the statistics that the operation gives have no gradients
        groups = input.reshape(N, group, -1)
        mean, variance = groups.mean(-1), groups.var(-1, correction=0)
    return result, mean.to(input.dtype), (variance + eps).rsqrt().to(input.dtype)


@function(method=False)
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """`nn.functional.batch_norm`, the mean of each channel and the reciprocal of its standard deviation.

    Out of training the two are empty. Shapes: `(N, C, *)` -> the same and twice `(C,)`. Raises as `batch_norm` does.
    """
    if not training:
        result = batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
        return result, input.new_empty(0), input.new_empty(0)
    result, mean, variance = batch_norm_training(input, running_mean, running_var, weight, bias, momentum, eps)
    return result, mean.to(input.dtype), (variance + eps).rsqrt().to(input.dtype)
