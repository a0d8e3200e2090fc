"""batch_norm and what is written with it: group_norm, instance_norm."""

from __future__ import annotations

from math import prod

import numpy as np

from rushlight.core import checks
from rushlight.core.declare import structured
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.layout import kept_strides
from rushlight.core.meta import Meta, meta
from rushlight.core.native import of_loops
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import norm as cpu
from rushlight.ops.arithmetic import addcmul
from rushlight.ops.copy import kept_format
from rushlight.ops.normalization import wide

_X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 3, 4) ** 2

# batch_norm normalizes each channel (dimension 1) over all others; group_norm and instance_norm are batch_norm on
# reshaped input


def _channel_axes(ndim: int) -> tuple[int, ...]:
    return (0, *range(2, ndim))


def _infer_batch_norm(input: Meta, weight: Meta | None, bias: Meta | None, eps: Meta) -> tuple[Meta, Meta, Meta]:
    checks.floating("batch_norm", "input", input)
    channels = (input.shape[1],)
    checks.shape("batch_norm", "weight", weight, channels)
    checks.shape("batch_norm", "bias", bias, channels)
    each = meta(wide(input.dtype), channels, None, input.device)
    return meta(input.dtype, input.shape, kept_strides(input.shape, input), input.device), each, each


def _along_channels(x, ndim: int):
    """A vector of channels, shaped to broadcast with (N, C, *)."""
    return x if ndim < 2 else x.reshape((-1,) + (1,) * (ndim - 2))


def _batch_norm_parts(input, weight, bias, eps):
    """batch_norm and its statistics in simpler ops."""
    axes = _channel_axes(input.ndim)
    x = input.to(wide(input.dtype))
    mean = x.mean(axes)
    centred = x - _along_channels(mean, x.ndim)
    variance = (centred * centred).mean(axes)
    result = centred * _along_channels((variance + eps).rsqrt(), x.ndim)
    if weight is not None:
        result = result * _along_channels(weight, x.ndim)
    if bias is not None:
        result = result + _along_channels(bias, x.ndim)
    return result.to(input.dtype), mean, variance


def _reference_batch_norm(x, weight, bias, eps):
    axes = _channel_axes(x.ndim)
    mean, variance = x.mean(axis=axes), x.var(axis=axes)
    scale = (1 if weight is None else weight) / np.sqrt(variance + eps)
    result = (x - _along_channels(mean, x.ndim)) * _along_channels(scale, x.ndim)
    return result + (0 if bias is None else _along_channels(bias, x.ndim)), mean, variance


_CHANNELS = np.array([1, -2, 0.5], np.float32)

batch_norm_op = structured(
    "batch_norm",
    _infer_batch_norm,
    doc="Channels normalized to mean 0 and variance 1, scaled and shifted; also their means and (biased) variances.",
    samples=lambda: [Sample((_X, _CHANNELS, _CHANNELS, 1e-5)), Sample((_X, None, None, 1e-3))],
    errors=lambda: [ErrorSample((_X, _CHANNELS[:2], None, 1e-5), (), RuntimeError, "weight must have shape")],
    reference=_reference_batch_norm,
    decomposition=_batch_norm_parts,
)


@kernel(batch_norm_op, "cpu")
@of_loops
def _batch_norm(x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, eps: float):
    x = checks.widened(x)
    weight, bias = (None if v is None else checks.widened(v) for v in (weight, bias))
    result, mean, variance = cpu.batch_norm(x.reshape(*x.shape[:2], prod(x.shape[2:])), weight, bias, eps)
    return result.reshape(x.shape), mean, variance


def _infer_batch_norm_backward(
    grad: Meta, input: Meta, weight: Meta | None, mean: Meta, variance: Meta, eps: Meta
) -> tuple[Meta, Meta, Meta]:
    each = meta(input.dtype, (input.shape[1],), None, input.device)
    return meta(input.dtype, input.shape, kept_strides(input.shape, input), input.device), each, each


def _batch_norm_backward_parts(grad, input, weight, mean, variance, eps):
    """The gradients of batch_norm in simpler ops; the statistics are functions of the input, so they are made anew."""
    axes, ndim = _channel_axes(input.ndim), input.ndim
    normal, _, variance = _batch_norm_parts(input.to(mean.dtype), None, None, eps)
    grad = grad.to(mean.dtype)
    by_weight, by_bias = (grad * normal).sum(axes), grad.sum(axes)
    count = input.numel() // max(input.shape[1], 1)
    scale = (variance + eps).rsqrt() if weight is None else (variance + eps).rsqrt() * weight
    shared = _along_channels(by_bias / count, ndim) + normal * _along_channels(by_weight / count, ndim)
    by_input = (grad - shared) * _along_channels(scale, ndim)
    return by_input.to(input.dtype), by_weight.to(input.dtype), by_bias.to(input.dtype)


batch_norm_backward_op = structured(
    "batch_norm_backward",
    _infer_batch_norm_backward,
    doc="Gradients of `batch_norm` by input, weight and bias.",
    samples=lambda: [Sample((_X, _X, _CHANNELS, _X.mean((0, 2)), _X.var((0, 2)), 1e-5))],
    decomposition=_batch_norm_backward_parts,
)


@kernel(batch_norm_backward_op, "cpu")
@of_loops
def _batch_norm_backward(grad, x, weight, mean, variance, eps: float):
    grad, x = checks.widened(grad), checks.widened(x)
    weight = None if weight is None else checks.widened(weight)
    shape = (*x.shape[:2], prod(x.shape[2:]))
    by_input, by_weight, by_bias = cpu.batch_norm_backward(
        grad.reshape(shape), x.reshape(shape), weight, mean, variance, eps
    )
    return by_input.reshape(x.shape), by_weight, by_bias


# Functions


def _need_more_than_one(name: str, input: Tensor) -> None:
    if input.numel() == input.shape[1] != 0:
        raise ValueError(
            f"{name}: expected more than 1 value per channel when training, got input size {shape_text(input.shape)}"
        )


def _blend(running: Tensor | None, new: Tensor, momentum: float) -> None:
    """`running = (1 - momentum) * running + momentum * new`, in place."""
    if running is not None:
        running.mul_(1 - momentum).add_(new.to(running.dtype), alpha=momentum)


def _check_running(name: str, input: Tensor, **running: Tensor | None) -> None:
    for argument, value in running.items():
        channels = input.shape[min(1, input.ndim - 1)]
        if value is not None and value.shape != (channels,):
            raise RuntimeError(
                f"{name}: {argument} should contain {channels} elements, got shape {shape_text(value.shape)}"
            )


def batch_norm_training(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """`batch_norm` by the statistics of the batch, and these: mean and (biased) variance of each channel."""
    _check_running("batch_norm", input, running_mean=running_mean, running_var=running_var)
    if input.ndim < 2:
        raise RuntimeError(
            f"batch_norm: expected input with batch and channel dimensions, got shape {shape_text(input.shape)}"
        )
    if eps <= 0:
        raise ValueError(f"batch_norm: eps must be positive during training, got {eps}")
    _need_more_than_one("batch_norm", input)
    result, mean, variance = batch_norm_op.apply((input, weight, bias, eps))
    if (running_mean is not None or running_var is not None) and input.numel():
        count = input.numel() // max(input.shape[1], 1)
        _blend(running_mean, mean.detach(), momentum)
        _blend(running_var, variance.detach() * (count / (count - 1)), momentum)
    return result, mean, variance


@function(namespace="nn.functional", method=False, out=False, memo=True)
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`(input - mean) / sqrt(variance + eps) * weight + bias` for each channel.

    In training, mean and (biased) variance are those of the batch, and the running ones move towards them by `momentum`
    (with the unbiased
    variance); otherwise the running ones are used. Shapes: `(N, C, *)` -> the same. Raises ValueError for one value per
    channel in training,
    RuntimeError when sizes do not fit.
    """
    if training:
        return batch_norm_training(input, running_mean, running_var, weight, bias, momentum, eps)[0]
    _check_running("batch_norm", input, running_mean=running_mean, running_var=running_var)
    if running_mean is None or running_var is None:
        raise RuntimeError("batch_norm: expected running_mean and running_var to be defined when training=False")
    scale = (running_var + eps).rsqrt()
    if weight is not None:
        scale = scale * weight
    shift = -running_mean * scale if bias is None else addcmul(bias, running_mean, scale, value=-1)
    scale, shift = _along_channels(scale, input.ndim), _along_channels(shift, input.ndim)
    return addcmul(shift, input, scale).to(input.dtype)


@function(name="batch_norm", method=False, out=False)
def _batch_norm_root(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`nn.functional.batch_norm` with the arguments in another order. Raises as that does."""
    return batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@function(namespace="nn.functional", method=False, out=False)
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`batch_norm` for each sample by itself: `(N, C, *)` -> the same.

    The running statistics move towards the means over the batch. Raises ValueError for one value per channel,
    RuntimeError when sizes do not fit.
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    n, channels = input.shape[:2]
    if input.numel() == n * channels:
        raise ValueError(
            "instance_norm: expected more than 1 spatial element when training, got input size "
            f"{shape_text(input.shape)}"
        )
    _check_running("instance_norm", input, running_mean=running_mean, running_var=running_var)
    together = input.reshape((1, n * channels, *input.shape[2:]))
    result, mean, variance = batch_norm_op.apply((together, _tiled(weight, n), _tiled(bias, n), eps))
    if running_mean is not None or running_var is not None:
        count = input.numel() // (n * channels)
        _blend(running_mean, mean.detach().reshape(n, channels).mean(0), momentum)
        _blend(running_var, variance.detach().reshape(n, channels).mean(0) * (count / (count - 1)), momentum)
    return result.reshape(input.shape)


@function(name="instance_norm", method=False, out=False)
def _instance_norm_root(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`nn.functional.instance_norm` with the arguments in another order. Raises as that does."""
    return instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def _tiled(x: Tensor | None, times: int) -> Tensor | None:
    return None if x is None else x.unsqueeze(0).expand(times, x.shape[0]).reshape(-1)


def group_norm_parts(
    input: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The groups of channels normalized, and the mean and (biased) variance of each."""
    if input.ndim < 2:
        raise RuntimeError(f"group_norm: expected at least 2 dimensions for input, got {input.ndim}")
    n, channels = input.shape[:2]
    if num_groups <= 0 or channels % num_groups:
        raise RuntimeError(
            f"group_norm: expected the number of channels to be divisible by num_groups, got input of shape "
            f"{shape_text(input.shape)} and num_groups={num_groups}"
        )
    for argument, value in (("weight", weight), ("bias", bias)):
        if value is not None and value.shape != (channels,):
            raise RuntimeError(
                f"group_norm: expected {argument} to be a vector of size {channels}, got shape "
                f"{shape_text(value.shape)}"
            )
    grouped = input.reshape((1, n * num_groups, prod(input.shape[1:]) // num_groups))
    result, mean, variance = batch_norm_op.apply((grouped, None, None, eps))
    result = kept_format(input, result.reshape(input.shape))
    if weight is not None and bias is not None:
        result = addcmul(_along_channels(bias, input.ndim), result, _along_channels(weight, input.ndim))
    elif weight is not None:
        result = result * _along_channels(weight, input.ndim)
    elif bias is not None:
        result = result + _along_channels(bias, input.ndim)
    return result.to(input.dtype), mean.reshape(n, num_groups), variance.reshape(n, num_groups)


@function(namespace="nn.functional", method=False, out=False, memo=True)
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Each group of channels of each sample normalized, then every channel scaled and shifted: `(N, C, *)` -> the same.

    Raises RuntimeError unless `num_groups` divides the channels, ValueError for one value per group.
    """
    if input.ndim >= 2 and num_groups > 0 and input.numel() == num_groups and input.shape[0] == 1:
        raise ValueError(
            "group_norm: expected more than 1 value per channel when training, got input size "
            f"{shape_text(input.shape)}"
        )
    return group_norm_parts(input, num_groups, weight, bias, eps)[0]


@function(name="group_norm", method=False, out=False)
def _group_norm_root(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Each group of channels of each sample normalized. Raises RuntimeError unless `num_groups` divides the
    channels."""
    return group_norm_parts(input, num_groups, weight, bias, eps)[0]
