"""Convolutions in 1 to 3 dimensions."""

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
from rushlight.kernels.cpu import conv as cpu
from rushlight.ops.padding import pad_constant

Sizes = int | tuple[int, ...]

_X = np.linspace(-1, 1, 2 * 2 * 5 * 4, dtype=np.float32).reshape(2, 2, 5, 4) ** 2
_W = np.linspace(-1, 1, 2 * 2 * 3 * 2, dtype=np.float32).reshape(2, 2, 3, 2)
_B = np.array([0.5, -1], np.float32)


def spatial(name: str, argument: str, value: Any, count: int) -> tuple[int, ...]:
    """An int or a sequence of one or `count` ints, as `count` ints."""
    if isinstance(value, int):
        return (int(value),) * count
    try:
        sizes = tuple([int(v.__index__()) for v in value])
    except (TypeError, AttributeError):
        raise TypeError(f"{name}: {argument} must be an int or {count} ints, got {value!r}") from None
    if len(sizes) == 1:
        return sizes * count
    if len(sizes) != count:
        raise RuntimeError(
            f"{name}: expected {argument} to be a single integer value or a list of {count} values, got {list(sizes)}"
        )
    return sizes


# Ops


def check_conv(
    name: str,
    input: Meta,
    weight: Meta,
    bias: Meta | None,
    channels: int,
    filters: int,
    stride: tuple,
    padding: tuple,
    dilation: tuple,
    groups: int,
) -> None:
    """Refuse operands and params that do not fit each other."""
    checks.same_dtype(name, input=input, weight=weight, bias=bias)
    for argument, values, least in (("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1)):
        if min(values) < least:
            raise RuntimeError(
                f"{name}: {argument} must be at least {least}, got {list(values)}; "
                f"{'negative' if least == 0 else 'non-positive'} {argument} is not supported"
            )
    if groups < 1:
        raise RuntimeError(f"{name}: non-positive groups is not supported, got {groups}")
    if input.shape[1] != channels:
        raise RuntimeError(
            f"{name}: with groups={groups}, weight of shape {shape_text(weight.shape)} expects an input with "
            f"{channels} "
            f"channels, but input {shape_text(input.shape)} has {input.shape[1]} channels instead"
        )
    if weight.shape[0] % groups or not weight.shape[0]:
        raise RuntimeError(f"{name}: weight of shape {shape_text(weight.shape)} cannot be split into groups={groups}")
    if min(weight.shape[2:]) < 1:
        raise RuntimeError(f"{name}: kernel sizes must be positive, got weight of shape {shape_text(weight.shape)}")
    if bias is not None and bias.shape != (filters,):
        raise RuntimeError(
            f"{name}: expected bias to be 1-dimensional with {filters} elements, got shape {shape_text(bias.shape)}"
        )


def conv_sizes(size: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple) -> tuple[int, ...]:
    """Output sizes of a convolution."""
    return tuple(
        [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(size, kernel, stride, padding, dilation)]
    )


def _infer_conv(
    input: Meta, weight: Meta, bias: Meta | None, *, stride: tuple, padding: tuple, dilation: tuple, groups: int
) -> Meta:
    check_conv(
        "conv", input, weight, bias, weight.shape[1] * groups, weight.shape[0], stride, padding, dilation, groups
    )
    size, kernel_size = input.shape[2:], weight.shape[2:]
    out = conv_sizes(size, kernel_size, stride, padding, dilation)
    if any(n < 1 for n in out):
        full = [n + 2 * p for n, p in zip(size, padding)]
        raise RuntimeError(
            f"conv: calculated padded input size per channel: {full}. Kernel size {list(kernel_size)} with dilation "
            f"{list(dilation)} can't be greater than actual input size"
        )
    shape = (input.shape[0], weight.shape[0], *out)
    return meta(input.dtype, shape, convolved_strides(shape, input, weight), input.device)


def convolved_strides(shape: tuple[int, ...], input: Meta, weight: Meta) -> tuple[int, ...] | None:
    """Channels last if the input or the weight is; but row-major, as in PyTorch, for volumes in float64."""
    if input.ndim == 5 and input.dtype is dtypes.float64:
        return None
    return kept_strides(shape, input, weight)


def _reference_conv(x, w, b, stride, padding, dilation, groups):
    xp = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in padding])
    out = conv_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation)
    result = np.zeros((x.shape[0], w.shape[0], *out))
    step, filters = w.shape[1], w.shape[0] // groups
    for at in np.ndindex(*out):
        part = xp[
            (..., *[slice(o * s, o * s + d * (k - 1) + 1, d) for o, s, d, k in zip(at, stride, dilation, w.shape[2:])])
        ]
        for f in range(w.shape[0]):
            group = f // filters
            result[(slice(None), f, *at)] = (part[:, group * step : (group + 1) * step] * w[f]).sum(
                tuple(range(1, x.ndim))
            )
    return result + (0 if b is None else b.reshape(-1, *(1,) * len(out)))


conv_op = structured(
    "conv",
    _infer_conv,
    doc="Cross-correlation over the spatial dimensions of `(N, C, *size)` with filters `(F, C / groups, *kernel)`.",
    autocast="narrow",
    samples=lambda: [
        Sample((_X, _W, _B), ((1, 1), (0, 0), (1, 1), 1)),
        Sample((_X, _W, None), ((2, 1), (1, 2), (2, 1), 1)),
        Sample((_X, _W[:, :1], _B), ((1, 2), (1, 0), (1, 1), 2)),
        Sample((_X[:, :, 0], _W[:, :, 0], None), ((1,), (1,), (1,), 1)),
    ],
    errors=lambda: [
        ErrorSample((_X, _W[:, :1], None), ((1, 1), (0, 0), (1, 1), 1), RuntimeError, "channels"),
        ErrorSample((_X, _W, None), ((0, 1), (0, 0), (1, 1), 1), RuntimeError, "non-positive stride"),
        ErrorSample((_X, _W, _B[:1]), ((1, 1), (0, 0), (1, 1), 1), RuntimeError, "bias"),
        ErrorSample((_X, _W, None), ((1, 1), (0, 0), (3, 1), 1), RuntimeError, "greater than actual input size"),
    ],
    reference=_reference_conv,
)


@kernel(conv_op, "cpu")
@of_loops
def _conv(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, stride: tuple, padding: tuple, dilation: tuple, groups: int
) -> np.ndarray:
    x, w = checks.widened(x), checks.widened(w)
    out = conv_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation)
    bias = None if bias is None else checks.widened(bias)
    return cpu.conv(x, w, bias, out, stride, padding, dilation, groups)


def _infer_weight(
    input: Meta, grad: Meta, *, kernel_size: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int
) -> Meta:
    return meta(input.dtype, (grad.shape[1], input.shape[1] // groups, *kernel_size), None, input.device)


conv_weight_op = structured(
    "conv_weight_grad",
    _infer_weight,
    doc="The gradient of `conv` by its weight.",
    samples=lambda: [
        Sample((_X, _X[:, :, :3, :3]), ((3, 2), (1, 1), (0, 0), (1, 1), 1)),
        Sample((_X, _X[:, :, :3, :2]), ((3, 2), (2, 2), (1, 0), (1, 1), 2)),
    ],
)


@kernel(conv_weight_op, "cpu")
@of_loops
def _conv_weight(
    x, grad, kernel_size: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int
) -> np.ndarray:
    return cpu.conv_weight(checks.widened(x), checks.widened(grad), kernel_size, stride, padding, dilation, groups)


# Functions


def is_batched(name: str, input: Tensor, weight: Tensor, count: int) -> bool:
    """Has the input a batch dimension? RuntimeError for a wrong number of dimensions."""
    if weight.ndim != count + 2:
        raise RuntimeError(
            f"{name}: expected {count + 2}D weight, got {weight.ndim}D of shape {shape_text(weight.shape)}"
        )
    if input.ndim not in (count + 1, count + 2):
        raise RuntimeError(
            f"{name}: expected {count + 1}D (unbatched) or {count + 2}D (batched) input, got {input.ndim}D of shape "
            f"{shape_text(input.shape)}"
        )
    return input.ndim == count + 2


def _same_padding(
    name: str, input: Tensor, weight: Tensor, stride: tuple, dilation: tuple
) -> tuple[Tensor, tuple[int, ...]]:
    """Input and padding for 'same': what does not split evenly is padded on the far side first."""
    if any(s != 1 for s in stride):
        raise RuntimeError(
            f"{name}: padding='same' is not supported for strided convolutions, got stride={list(stride)}"
        )
    total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
    if any(t % 2 for t in total):
        input = pad_constant(input, [amount for t in reversed(total) for amount in (0, t % 2)])
    return input, tuple([t // 2 for t in total])


def _convolve(
    name: str,
    count: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Tensor:
    batched = is_batched(name, input, weight, count)
    stride = spatial(name, "stride", stride, count)
    dilation = spatial(name, "dilation", dilation, count)
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise RuntimeError(f"{name}: invalid padding string {padding!r}; it must be 'same' or 'valid'")
        padding = (0,) * count if padding == "valid" else padding
    if padding == "same":
        input, padding = _same_padding(name, input, weight, stride, dilation)
    else:
        padding = spatial(name, "padding", padding, count)
    if batched:
        return conv_op.apply((input, weight, bias), (stride, padding, dilation, groups))
    return conv_op.apply((input.unsqueeze(0), weight, bias), (stride, padding, dilation, groups)).squeeze(0)


@function(method=False, out=False, memo=True)
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution (cross-correlation) of sequences.

    Shapes: `(N, C, L)`, `(F, C / groups, K)`, `(F,)` -> `(N, F, L')`, `L' = (L + 2 padding - dilation (K - 1) - 1) //
    stride + 1`; N may be
    missing. `padding` may be 'same' or 'valid'. Raises RuntimeError when shapes, dtypes or sizes do not fit.
    """
    return _convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@function(method=False, out=False, memo=True)
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution (cross-correlation) of images.

    Shapes: `(N, C, H, W)`, `(F, C / groups, KH, KW)`, `(F,)` -> `(N, F, H', W')`; N may be missing. `padding` may be
    'same' or 'valid'.
    Raises RuntimeError when shapes, dtypes or sizes do not fit.

    Example:
        >>> import rushlight
        >>> rushlight.conv2d(rushlight.ones(1, 1, 3, 3), rushlight.ones(1, 1, 2, 2))
        tensor([[[[4., 4.],
                  [4., 4.]]]])
    """
    return _convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@function(method=False, out=False, memo=True)
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution (cross-correlation) of volumes: `(N, C, D, H, W)`, `(F, C / groups, KD, KH, KW)` -> `(N, F, D', H',
    W')`.

    Raises RuntimeError when shapes, dtypes or sizes do not fit.
    """
    return _convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@function(method=False, out=False)
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolution of sequences with time first: `(T, N, C)`, `(K, C, F)`, `(F,)` -> `(T', N, F)`.

    Raises RuntimeError when shapes, dtypes or sizes do not fit.
    """
    if input.ndim != 3 or weight.ndim != 3:
        raise RuntimeError(
            f"conv_tbc: expected input (T, N, C) and weight (K, C, F), got {shape_text(input.shape)} and "
            f"{shape_text(weight.shape)}"
        )
    result = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return result.permute(2, 0, 1)
