"""Windows as columns and back: nn.functional.unfold, fold; pixel_shuffle and its like."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import checks
from rushlight.core.declare import structured
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import conv as cpu
from rushlight.ops.conv import conv_sizes, spatial
from rushlight.ops.copy import kept_format

_X = np.linspace(-1, 1, 40, dtype=np.float32).reshape(1, 2, 5, 4)


def _infer_im2col(input: Meta, *, kernel_size: tuple, dilation: tuple, padding: tuple, stride: tuple) -> Meta:
    out = conv_sizes(input.shape[2:], kernel_size, stride, padding, dilation)
    if any(n < 1 for n in out):
        raise RuntimeError(
            f"unfold: given input {shape_text(input.shape)}, kernel_size={list(kernel_size)}, "
            f"dilation={list(dilation)}, "
            f"padding={list(padding)}, the calculated shape of the array of sliding blocks {list(out)} must be at "
            "least one"
        )
    channels = input.shape[1] * kernel_size[0] * kernel_size[1]
    return meta(input.dtype, (input.shape[0], channels, out[0] * out[1]), None, input.device)


im2col_op = structured(
    "im2col",
    _infer_im2col,
    doc="The windows of images `(N, C, H, W)` as columns `(N, C * KH * KW, L)`.",
    samples=lambda: [Sample((_X,), ((2, 3), (1, 1), (0, 0), (1, 1))), Sample((_X,), ((2, 2), (2, 1), (1, 0), (1, 2)))],
    errors=lambda: [ErrorSample((_X,), ((6, 2), (1, 1), (0, 0), (1, 1)), RuntimeError, "at least one")],
)


@kernel(im2col_op, "cpu")
def _im2col(x: np.ndarray, kernel_size: tuple, dilation: tuple, padding: tuple, stride: tuple) -> np.ndarray:
    out = conv_sizes(x.shape[2:], kernel_size, stride, padding, dilation)
    windows = cpu.windows(cpu.padded(x, padding), kernel_size, out, stride, dilation)
    return windows.reshape(x.shape[0], x.shape[1] * kernel_size[0] * kernel_size[1], out[0] * out[1])


def _infer_col2im(
    input: Meta, *, size: tuple, kernel_size: tuple, dilation: tuple, padding: tuple, stride: tuple
) -> Meta:
    area = kernel_size[0] * kernel_size[1]
    if input.shape[1] % area:
        raise RuntimeError(
            "fold: expected size of input's dimension 1 to be divisible by the product of kernel_size "
            f"{list(kernel_size)}, got "
            f"input {shape_text(input.shape)}"
        )
    out = conv_sizes(size, kernel_size, stride, padding, dilation)
    if out[0] * out[1] != input.shape[2] or any(n < 1 for n in out):
        raise RuntimeError(
            f"fold: given output_size={list(size)}, kernel_size={list(kernel_size)}, dilation={list(dilation)}, "
            "padding="
            f"{list(padding)}, stride={list(stride)}, expected size of input's dimension 2 to match the calculated "
            "number of "
            f"sliding blocks {out[0]} * {out[1]}, got input {shape_text(input.shape)}"
        )
    return meta(input.dtype, (input.shape[0], input.shape[1] // area, *size), None, input.device)


col2im_op = structured(
    "col2im",
    _infer_col2im,
    doc="The transpose of `im2col`: columns added up where they came from.",
    samples=lambda: [Sample((np.ones((1, 8, 12), np.float32),), ((5, 4), (2, 2), (1, 1), (0, 0), (1, 1)))],
    errors=lambda: [
        ErrorSample(
            (np.ones((1, 8, 11), np.float32),), ((5, 4), (2, 2), (1, 1), (0, 0), (1, 1)), RuntimeError, "sliding blocks"
        )
    ],
)


@kernel(col2im_op, "cpu")
def _col2im(
    columns: np.ndarray, size: tuple, kernel_size: tuple, dilation: tuple, padding: tuple, stride: tuple
) -> np.ndarray:
    columns = checks.widened(columns)
    out = conv_sizes(size, kernel_size, stride, padding, dilation)
    channels = columns.shape[1] // (kernel_size[0] * kernel_size[1])
    return cpu.overlap_add(
        columns.reshape(columns.shape[0], channels, *kernel_size, *out), size, stride, padding, dilation
    )


def _params(name: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> tuple:
    values = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
    params = tuple([spatial(name, argument, value, 2) for argument, value in values.items()])
    for (argument, _), value in zip(values.items(), params):
        if min(value) < (0 if argument == "padding" else 1):
            raise RuntimeError(
                f"{name}: {argument} should be {'non-negative' if argument == 'padding' else 'greater than zero'}, "
                f"got {list(value)}"
            )
    return params


@function(namespace="nn.functional", method=False, out=False)
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The sliding windows of images as columns: `(N, C, H, W)` -> `(N, C * KH * KW, L)`; N may be missing.

    Raises RuntimeError when no window fits or the input is not 3D or 4D.
    """
    params = _params("unfold", kernel_size, dilation, padding, stride)
    if input.ndim not in (3, 4) or 0 in input.shape[input.ndim - 3 :]:
        raise RuntimeError(
            f"unfold: expected 3D or 4D input with non-zero sizes (but the batch's), got {shape_text(input.shape)}"
        )
    if input.ndim == 3:
        return im2col_op.apply((input.unsqueeze(0),), params).squeeze(0)
    return im2col_op.apply((input,), params)


@function(namespace="nn.functional", method=False, out=False)
def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Columns added up to images where `unfold` takes them from: `(N, C * KH * KW, L)` -> `(N, C, *output_size)`; N may
    be missing.

    Raises RuntimeError when the sizes do not fit.
    """
    params = (spatial("fold", "output_size", output_size, 2), *_params("fold", kernel_size, dilation, padding, stride))
    if input.ndim not in (2, 3):
        raise RuntimeError(f"fold: expected 2D or 3D (batch mode) tensor for input, got {shape_text(input.shape)}")
    if input.ndim == 2:
        return col2im_op.apply((input.unsqueeze(0),), params).squeeze(0)
    return col2im_op.apply((input,), params)


# Rearrangements of channels and pixels: only reshape and permute


def _check_image(name: str, input: Tensor, factor: int, argument: str) -> None:
    if input.ndim < 3:
        raise RuntimeError(f"{name}: expects input to have at least 3 dimensions, got {input.ndim}")
    if factor <= 0:
        raise RuntimeError(f"{name}: expects a positive {argument}, got {factor}")


@function(method=False, out=False)
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels spread over pixels: `(*, C * r * r, H, W)` -> `(*, C, H * r, W * r)`. Raises RuntimeError when the sizes
    do not fit."""
    r = upscale_factor
    _check_image("pixel_shuffle", input, r, "upscale_factor")
    *lead, channels, height, width = input.shape
    if channels % (r * r):
        raise RuntimeError(
            f"pixel_shuffle: expects its input's channels {channels} to be divisible by the square of upscale_factor "
            f"{r}"
        )
    if r == 1:
        return input.clone()
    n = len(lead)
    parts = input.reshape(*lead, channels // (r * r), r, r, height, width)
    shuffled = parts.permute(*range(n + 1), n + 3, n + 1, n + 4, n + 2).reshape(
        *lead, channels // (r * r), height * r, width * r
    )
    return kept_format(input, shuffled)


@function(method=False, out=False)
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Pixels gathered into channels: `(*, C, H * r, W * r)` -> `(*, C * r * r, H, W)`. Raises RuntimeError when the
    sizes do not fit."""
    r = downscale_factor
    _check_image("pixel_unshuffle", input, r, "downscale_factor")
    *lead, channels, height, width = input.shape
    if height % r or width % r:
        raise RuntimeError(
            f"pixel_unshuffle: expects height {height} and width {width} to be divisible by downscale_factor {r}"
        )
    if r == 1:
        return input.clone()
    n = len(lead)
    parts = input.reshape(*lead, channels, height // r, r, width // r, r)
    gathered = parts.permute(*range(n + 1), n + 2, n + 4, n + 1, n + 3).reshape(
        *lead, channels * r * r, height // r, width // r
    )
    return kept_format(input, gathered)


@function(method=False, out=False)
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels dealt out between `groups`: `(N, C, *)` -> the same. Raises RuntimeError when groups do not divide the
    channels."""
    if input.ndim < 3:
        raise RuntimeError(f"channel_shuffle: expects input with more than 2 dimensions, got {input.ndim}")
    channels = input.shape[1]
    if groups <= 0 or channels % groups:
        raise RuntimeError(
            f"channel_shuffle: number of channels {channels} must be divisible by a positive groups, got {groups}"
        )
    parts = input.reshape(input.shape[0], groups, channels // groups, *input.shape[2:])
    return kept_format(input, parts.transpose(1, 2).reshape(input.shape))


@function(name="native_channel_shuffle", method=False, out=False)
def _native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """`channel_shuffle`. Raises RuntimeError when groups do not divide the channels."""
    return channel_shuffle(input, groups)
