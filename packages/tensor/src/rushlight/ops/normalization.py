"""Normalization by rows: layer_norm, rms_norm, local_response_norm, normalize. By channels: see batch_norm.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rushlight.core import checks, dtypes
from rushlight.core.declare import structured
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.native import of_loops
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.out import assign_out
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import norm as cpu
from rushlight.ops.avg_pool import avg_pool_op
from rushlight.ops.padding import pad_constant

_X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 3, 4) ** 2
_W, _B = np.array([1, 2, -1, 0.5], np.float32), np.array([0, 1, 2, -1], np.float32)


def wide(dtype: dtypes.dtype) -> dtypes.dtype:
    """The dtype in which statistics of this dtype are kept."""
    return dtypes.float32 if dtype in dtypes.HALF else dtype


# layer_norm: the mean and the reciprocal standard deviation of each row are kept for the gradient


def _infer_layer_norm(
    input: Meta, weight: Meta | None, bias: Meta | None, eps: Meta, *, dims: int
) -> tuple[Meta, Meta, Meta]:
    checks.floating("layer_norm", "input", input)
    shape = input.shape[input.ndim - dims :]
    checks.shape("layer_norm", "weight", weight, shape)
    checks.shape("layer_norm", "bias", bias, shape)
    rows = meta(wide(input.dtype), input.shape[: input.ndim - dims] + (1,) * dims, None, input.device)
    return meta(input.dtype, input.shape, None, input.device), rows, rows


def _layer_norm_parts(input, weight, bias, eps, dims: int):
    """layer_norm and its statistics in simpler ops."""
    dim = tuple(range(-dims, 0))
    x = input.to(wide(input.dtype))
    mean = x.mean(dim, keepdim=True)
    centred = x - mean
    rstd = ((centred * centred).mean(dim, keepdim=True) + eps).rsqrt()
    result = centred * rstd
    if weight is not None:
        result = result * weight
    if bias is not None:
        result = result + bias
    return result.to(input.dtype), mean, rstd


def _reference_layer_norm(x, weight, bias, eps, dims):
    axes = tuple(range(x.ndim - dims, x.ndim))
    mean, var = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
    result = (x - mean) / np.sqrt(var + eps) * (1 if weight is None else weight) + (0 if bias is None else bias)
    return result, mean, 1 / np.sqrt(var + eps)


layer_norm_op = structured(
    "layer_norm",
    _infer_layer_norm,
    doc="Rows over the last `dims` dimensions normalized to mean 0 and variance 1, then scaled and shifted.",
    samples=lambda: [Sample((_X, _W, _B, 1e-5), (1,)), Sample((_X, None, None, 1e-3), (2,))],
    errors=lambda: [ErrorSample((_X, _W[:2], None, 1e-5), (1,), RuntimeError, "weight must have shape")],
    reference=_reference_layer_norm,
    decomposition=_layer_norm_parts,
)


@kernel(layer_norm_op, "cpu")
@of_loops
def _layer_norm(x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, eps: float, dims: int):
    return cpu.layer_norm(x, weight, bias, eps, dims)


def _infer_layer_norm_backward(
    grad: Meta, input: Meta, weight: Meta | None, mean: Meta, rstd: Meta, eps: Meta, *, dims: int
) -> tuple[Meta, Meta, Meta]:
    row = meta(input.dtype, input.shape[input.ndim - dims :], None, input.device)
    return meta(input.dtype, input.shape, None, input.device), row, row


def _layer_norm_backward_parts(grad, input, weight, mean, rstd, eps, dims: int):
    """The gradients of layer_norm in simpler ops; the statistics are functions of the input, so they are made anew."""
    dim = tuple(range(-dims, 0))
    lead = tuple(range(input.ndim - dims))
    normal, _, rstd = _layer_norm_parts(input.to(mean.dtype), None, None, eps, dims)
    grad = grad.to(mean.dtype)
    scaled = grad if weight is None else grad * weight
    centred = scaled - scaled.mean(dim, keepdim=True) - normal * (scaled * normal).mean(dim, keepdim=True)
    by_weight, by_bias = grad * normal, grad
    if lead:
        by_weight, by_bias = by_weight.sum(lead), by_bias.sum(lead)
    return (centred * rstd).to(input.dtype), by_weight.to(input.dtype), by_bias.to(input.dtype)


layer_norm_backward_op = structured(
    "layer_norm_backward",
    _infer_layer_norm_backward,
    doc="Gradients of `layer_norm` by input, weight and bias.",
    samples=lambda: [Sample((_X, _X, _W, _X.mean(2, keepdims=True), 1 / _X.std(2, keepdims=True), 0.0), (1,))],
    decomposition=_layer_norm_backward_parts,
)


@kernel(layer_norm_backward_op, "cpu")
@of_loops
def _layer_norm_backward(grad, x, weight, mean, rstd, eps, dims: int):
    return cpu.layer_norm_backward(grad, x, weight, mean, rstd, dims)


def normalized_dims(name: str, input: Tensor, normalized_shape: Sequence[int] | int) -> int:
    """How many trailing dimensions are normalized; RuntimeError unless they have that shape."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape:
        raise RuntimeError(f"{name}: expected normalized_shape to be at least 1-dimensional, got []")
    if input._meta.shape[-len(shape) :] != shape or input._meta.ndim < len(shape):
        raise RuntimeError(
            f"{name}: given normalized_shape={list(shape)}, expected input with shape [*, "
            f"{', '.join(map(str, shape))}], but got "
            f"{shape_text(input.shape)}"
        )
    return len(shape)


@function(name="layer_norm", method=False, out=False)
def _layer_norm_root(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """`(input - mean) / sqrt(variance + eps) * weight + bias` over the trailing dimensions `normalized_shape`.

    Raises RuntimeError when the shapes do not end so, or for integer input.
    """
    dims = normalized_dims("layer_norm", input, normalized_shape)
    return layer_norm_op.apply((input, weight, bias, eps), (dims,))[0]


@function(namespace="nn.functional", method=False, out=False, memo=True)
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """`(input - mean) / sqrt(variance + eps) * weight + bias` over the trailing dimensions `normalized_shape`.

    Shapes: `(*, *normalized_shape)` -> the same. Raises RuntimeError when the shapes do not end so, or for integer
    input.

    Example:
        >>> import rushlight
        >>> rushlight.nn.functional.layer_norm(rushlight.tensor([1.0, 3.0]), (2,))
        tensor([-1.0000,  1.0000])
    """
    dims = normalized_dims("layer_norm", input, normalized_shape)
    return layer_norm_op.apply((input, weight, bias, eps), (dims,))[0]


@function(method=False, out=False, memo=True)
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """`input / sqrt(mean(input ** 2) + eps) * weight` over the trailing dimensions `normalized_shape`; eps is the
    dtype's by default.

    Raises RuntimeError when the shapes do not end so.
    """
    dims = normalized_dims("rms_norm", input, normalized_shape)
    if weight is not None and weight.shape != input.shape[input.ndim - dims :]:
        raise RuntimeError(
            f"rms_norm: expected weight of shape {shape_text(input.shape[input.ndim - dims :])}, got "
            f"{shape_text(weight.shape)}"
        )
    x = input.to(wide(input.dtype))
    eps = dtypes.finfo(x.dtype).eps if eps is None else eps
    result = x * ((x * x).mean(tuple(range(-dims, 0)), keepdim=True) + eps).rsqrt()
    return (result if weight is None else result * weight).to(input.dtype)


@function(namespace="nn.functional", method=False, out=False)
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """`input / (k + alpha * mean of squares over size neighbouring channels) ** beta`: `(N, C, *)` -> the same.

    Raises ValueError for fewer than 3 dimensions.
    """
    if input.ndim < 3:
        raise ValueError(
            f"local_response_norm: expected 3D or higher dimensionality input, got {input.ndim} dimensions"
        )
    if not input.numel():
        return input
    squares = (input * input).reshape(input.shape[0], 1, input.shape[1], -1)
    padded = pad_constant(squares, (0, 0, size // 2, (size - 1) // 2))
    means = avg_pool_op.apply((padded,), ((size, 1), (1, 1), (0, 0), False, True, 0))
    return input / (means.reshape(input.shape) * alpha + k) ** beta


@function(namespace="nn.functional", method=False, out=False, memo=True)
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """`input / max(norm of order p along dim, eps)`. Raises IndexError for a dimension out of range."""
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps)
    result = input / norm
    return result if out is None else assign_out("normalize", out, result)
