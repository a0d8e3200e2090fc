"""Transposed convolutions in 1 to 3 dimensions."""

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
from rushlight.ops.conv import check_conv, convolved_strides, is_batched, spatial

Sizes = int | tuple[int, ...]

_X = np.linspace(-1, 1, 2 * 2 * 5 * 4, dtype=np.float32).reshape(2, 2, 5, 4) ** 2
_W = np.linspace(-1, 1, 2 * 2 * 3 * 2, dtype=np.float32).reshape(2, 2, 3, 2)
_B = np.array([0.5, -1], np.float32)


def _infer_transpose(
    input: Meta,
    weight: Meta,
    bias: Meta | None,
    *,
    stride: tuple,
    padding: tuple,
    output_padding: tuple,
    dilation: tuple,
    groups: int,
) -> Meta:
    filters = weight.shape[1] * groups
    check_conv("conv_transpose", input, weight, bias, weight.shape[0], filters, stride, padding, dilation, groups)
    if min(output_padding) < 0 or any(o >= max(s, d) for o, s, d in zip(output_padding, stride, dilation)):
        raise RuntimeError(
            f"conv_transpose: output padding must be smaller than either stride or dilation, and not negative, got "
            f"output_padding={list(output_padding)}, stride={list(stride)}, dilation={list(dilation)}"
        )
    out = transposed_sizes(input.shape[2:], weight.shape[2:], stride, padding, output_padding, dilation)
    if any(n < 1 for n in out):
        raise RuntimeError(
            f"conv_transpose: the output size {list(out)} is too small for input {shape_text(input.shape)}, kernel "
            f"{list(weight.shape[2:])} and padding {list(padding)}"
        )
    shape = (input.shape[0], filters, *out)
    return meta(input.dtype, shape, convolved_strides(shape, input, weight), input.device)


def transposed_sizes(
    size: tuple, kernel: tuple, stride: tuple, padding: tuple, output_padding: tuple, dilation: tuple
) -> tuple[int, ...]:
    """Output sizes of a transposed convolution."""
    return tuple(
        [
            (n - 1) * s - 2 * p + d * (k - 1) + e + 1
            for n, k, s, p, e, d in zip(size, kernel, stride, padding, output_padding, dilation)
        ]
    )


conv_transpose_op = structured(
    "conv_transpose",
    _infer_transpose,
    doc="Transposed convolution: the gradient of `conv` by its input. Weights are `(C, F / groups, *kernel)`.",
    autocast="narrow",
    samples=lambda: [
        Sample((_X, _W, _B), ((1, 1), (0, 0), (0, 0), (1, 1), 1)),
        Sample((_X, _W, None), ((2, 3), (1, 1), (1, 2), (2, 1), 1)),
        Sample((_X, _W[:, :1], None), ((1, 2), (1, 0), (0, 0), (1, 1), 2)),
    ],
    errors=lambda: [ErrorSample((_X, _W, None), ((1, 1), (0, 0), (1, 1), (1, 1), 1), RuntimeError, "output padding")],
)


@kernel(conv_transpose_op, "cpu")
def _conv_transpose(
    x, w, bias, stride: tuple, padding: tuple, output_padding: tuple, dilation: tuple, groups: int
) -> np.ndarray:
    x, w = checks.widened(x), checks.widened(w)
    out = transposed_sizes(x.shape[2:], w.shape[2:], stride, padding, output_padding, dilation)
    bias = None if bias is None else checks.widened(bias)
    return cpu.conv_transpose(x, w, bias, out, stride, padding, dilation, groups)


def _transpose(
    name: str,
    count: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    batched = is_batched(name, input, weight, count)
    params = (
        spatial(name, "stride", stride, count),
        spatial(name, "padding", padding, count),
        spatial(name, "output_padding", output_padding, count),
        spatial(name, "dilation", dilation, count),
        groups,
    )
    if batched:
        return conv_transpose_op.apply((input, weight, bias), params)
    return conv_transpose_op.apply((input.unsqueeze(0), weight, bias), params).squeeze(0)


@function(method=False, out=False)
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Transposed convolution of sequences: `(N, C, L)`, `(C, F / groups, K)`, `(F,)` -> `(N, F, L')`.

    `L' = (L - 1) stride - 2 padding + dilation (K - 1) + output_padding + 1`. Raises RuntimeError when shapes, dtypes
    or sizes do not fit.
    """
    return _transpose("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@function(method=False, out=False)
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Transposed convolution of images: `(N, C, H, W)`, `(C, F / groups, KH, KW)`, `(F,)` -> `(N, F, H', W')`.

    Raises RuntimeError when shapes, dtypes or sizes do not fit.
    """
    return _transpose("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@function(method=False, out=False)
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Transposed convolution of volumes: `(N, C, D, H, W)`, `(C, F / groups, KD, KH, KW)`, `(F,)` -> `(N, F, D', H',
    W')`.

    Raises RuntimeError when shapes, dtypes or sizes do not fit.
    """
    return _transpose("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)
