"""Activation functions that weigh each element by a gate: gelu, silu, mish, glu."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.core.declare import elementwise
from rushlight.core.errors import check_dim
from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops.activation import F, check_inexact, run, sigmoid

_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)  # of the normal distribution at 0
_RATE, _CUBE = math.sqrt(2.0 / math.pi), 0.044715


@elementwise(method=False, public=False, supports="float", name="gelu")
def gelu_op(input):
    """Gaussian error linear unit: `input * Phi(input)`."""
    return input * s.normal_cdf(input)


@elementwise(method=False, public=False, supports="float")
def gelu_backward(grad, input):
    """The gradient of gelu: `grad * (Phi(input) + input * phi(input))`."""
    return grad * (s.normal_cdf(input) + input * s.gaussian(input) * _DENSITY)


@elementwise(method=False, public=False, supports="float", name="gelu_tanh")
def gelu_tanh_op(input):
    """Gaussian error linear unit with the distribution function approximated by tanh.

    `(1 + tanh(u)) / 2` is `sigmoid(2 u)`, which keeps its digits where tanh is near -1.
    """
    return input * s.sigmoid(2.0 * _RATE * (input + _CUBE * (input * input * input)))


@elementwise(method=False, public=False, supports="float")
def gelu_tanh_backward(grad, input):
    """The gradient of gelu_tanh."""
    square = input * input
    gate = s.sigmoid(2.0 * _RATE * (input + _CUBE * (square * input)))
    slope = 2.0 * _RATE * (1.0 + 3.0 * _CUBE * square)
    return grad * (gate + input * gate * (1.0 - gate) * slope)


@function(namespace=F, method=False)
def gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    """Gaussian error linear unit: `input * Phi(input)`, Phi the normal distribution function or its `"tanh"`
    approximation.

    Raises RuntimeError for another `approximate`. Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.

    Example:
        >>> import rushlight
        >>> rushlight.nn.functional.gelu(rushlight.tensor([-1.0, 1.0]))
        tensor([-0.1587,  0.8413])
    """
    check_inexact("gelu", input)
    if approximate == "none":
        return gelu_op(input)
    if approximate != "tanh":
        raise RuntimeError(f"gelu: approximate argument must be either none or tanh, got {approximate!r}")
    return gelu_tanh_op(input)


def _silu(x: Any) -> Any:
    return x / (np.exp(np.negative(x)) + 1)


@elementwise(numpy=_silu, method=False, public=False, supports="inexact", name="silu")
def silu_op(input):
    """Sigmoid linear unit: `input * sigmoid(input)`."""
    return input / (1.0 + s.exp(-input))


@elementwise(method=False, public=False, supports="inexact")
def silu_backward(grad, input):
    """The gradient of silu: `grad * s * (1 + input * (1 - s))` with `s = sigmoid(input)`."""
    gate = s.sigmoid(input)
    slope = gate * (1.0 + input * (1.0 - gate))
    return grad * (s.conj(slope) if s.is_complex(input) else slope)


@function(namespace=F, method=False, out=False)
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Sigmoid linear unit (swish): `input * sigmoid(input)`."""
    return run(silu_op, inplace, input)


@elementwise(
    numpy=lambda x: x * np.tanh(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))),
    method=False,
    public=False,
    supports="float",
    name="mish",
)
def mish_op(input):
    """`input * tanh(softplus(input))`."""
    return input * s.tanh(s.maximum(input, 0) + s.log1p(s.exp(-s.abs(input))))


@function(namespace=F, method=False, out=False)
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Mish: `input * tanh(log(1 + exp(input)))`.

    Source: Misra, Mish: A Self Regularized Non-Monotonic Activation Function, 2019.
    """
    return run(mish_op, inplace, input)


@function(namespace=F, method=False)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Gated linear unit: the first half along `dim` times the sigmoid of the second.

    Shapes: size `2 n` along `dim` -> `n`. Raises RuntimeError when the size is odd or the input has no dimensions.
    Source: Dauphin et al., Language Modeling with Gated Convolutional Networks, 2016.
    """
    if input.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors; give it a dimension to halve")
    d = check_dim("glu", dim, input.ndim)
    size = input.shape[d]
    if size % 2:
        raise RuntimeError(f"glu: Halving dimension must be even, but dimension {d} is size {size}")
    return input.narrow(d, 0, size // 2) * sigmoid(input.narrow(d, size // 2, size // 2))
