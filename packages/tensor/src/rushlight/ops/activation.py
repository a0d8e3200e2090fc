"""Activation functions. Those that PyTorch has in `nn.functional` alone stand there, with their `inplace` argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.core.declare import elementwise
from rushlight.core.errors import shape_text
from rushlight.core.front import export, function
from rushlight.core.op import INPLACE
from rushlight.core.pointwise import beside
from rushlight.core.tensor import Tensor
from rushlight.ops.arithmetic import Number, is_one
from rushlight.ops.like import empty_like
from rushlight.ops.selection import bounds

F = "nn.functional"


def run(declared: Any, inplace: bool, *operands: Any) -> Tensor:
    """Call a declared elementwise op, or its twin that overwrites the first operand."""
    return INPLACE[declared.op].apply(operands) if inplace else declared(*operands)


def export_inplace(name: str, declared: Callable, *namespaces: str) -> None:
    """Export the form that overwrites its input, under a name of its own."""

    def inplace(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return declared(input, *args, inplace=True, **kwargs)

    for namespace in namespaces:
        export(name, inplace, namespace)


def check_inexact(name: str, input: Tensor) -> None:
    """Refuse tensors whose dtype has no fractions."""
    if not input.dtype.is_inexact:
        raise RuntimeError(f"{name}: not defined for {input.dtype.name}; convert the tensor to floating point")


@elementwise(numpy=beside(np.maximum, 0), supports="real_number")
def relu(input):
    """Rectified linear unit of each element: `max(input, 0)`; NaN stays.

    Example:
        >>> import rushlight
        >>> rushlight.relu(rushlight.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    return s.maximum(input, 0)


@elementwise(numpy=lambda grad, result: np.where(result <= 0, 0, grad), method=False, public=False,
             supports="real_number")
def relu_backward(grad, result):
    """The gradient of relu, from its result: `grad` where that is positive or NaN, else 0."""
    return s.select(result <= 0, 0, grad)


def _sigmoid(x: Any) -> Any:
    return np.reciprocal(np.exp(np.negative(x)) + 1)


@elementwise(numpy=_sigmoid, promote="float")
def sigmoid(input):
    """Logistic function of each element: `1 / (1 + exp(-input))`.

    Example:
        >>> import rushlight
        >>> rushlight.sigmoid(rushlight.tensor([0.0, 100.0]))
        tensor([0.5000, 1.0000])
    """
    return s.sigmoid(input)


@function(name="relu", namespace=F, method=False, out=False)
def _relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Rectified linear unit of each element: `max(input, 0)`; `inplace` overwrites the input."""
    return run(relu, inplace, input)


@elementwise(
    numpy=lambda x, low, high: np.minimum(np.maximum(x, low), high),
    name="hardtanh",
    method=False,
    public=False,
    supports="real_number",
)
def hardtanh_op(input, min_val, max_val):
    """Each element cut off at `min_val` and `max_val`, where its gradient is 0."""
    return s.minimum(s.maximum(input, min_val), max_val)


@function(namespace=F, method=False, out=False)
def hardtanh(input: Tensor, min_val: Number = -1.0, max_val: Number = 1.0, inplace: bool = False) -> Tensor:
    """Each element cut off at `min_val` and `max_val`. Raises ValueError for `min_val > max_val`.

    Example:
        >>> import rushlight
        >>> rushlight.nn.functional.hardtanh(rushlight.tensor([-3.0, 0.5]))
        tensor([-1.0000,  0.5000])
    """
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val must not exceed max_val, got {min_val} and {max_val}")
    if not input.dtype.is_inexact:
        min_val, max_val = bounds("hardtanh", input, int(min_val), int(max_val))
    return run(hardtanh_op, inplace, input, min_val, max_val)


@function(namespace=F, method=False, out=False)
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Each element cut off at 0 and 6: `min(max(input, 0), 6)`."""
    return run(hardtanh_op, inplace, input, 0, 6)


def _elu(x: Any, alpha: Any, scale: Any, rate: Any) -> Any:
    below = np.expm1(x if is_one(rate) else x * rate)
    factor = alpha * scale
    return np.where(x > 0, x if is_one(scale) else x * scale, below if is_one(factor) else below * factor)


@elementwise(numpy=_elu, name="elu", method=False, public=False, supports="float")
def elu_op(input, alpha, scale, input_scale):
    """`scale * input` above zero, `scale * alpha * (exp(input_scale * input) - 1)` below: elu, celu and selu."""
    return s.select(input > 0, input * scale, s.expm1(input * input_scale) * (alpha * scale))


@function(namespace=F, method=False, out=False)
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Exponential linear unit: `input` above zero, `alpha * (exp(input) - 1)` below.

    Source: Clevert et al., Fast and Accurate Deep Network Learning by Exponential Linear Units, 2015.
    """
    check_inexact("elu", input)
    return run(elu_op, inplace, input, alpha, 1.0, 1.0)


def _celu(input: Tensor, alpha: float, inplace: bool) -> Tensor:
    check_inexact("celu", input)
    if alpha == 0:
        raise RuntimeError("celu: ZeroDivisionError: alpha cannot be 0 for CELU")
    return run(elu_op, inplace, input, alpha, 1.0, 1.0 / alpha)


@function(inplace=True, method=False)
def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Continuously differentiable elu: `max(0, input) + min(0, alpha * (exp(input / alpha) - 1))`.

    Raises RuntimeError for `alpha = 0`. Source: Barron, Continuously Differentiable Exponential Linear Units, 2017.
    """
    return _celu(input, alpha, False)


@function(name="celu", namespace=F, method=False, out=False)
def _celu_functional(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Continuously differentiable elu, as `rushlight.celu`; `inplace` overwrites the input."""
    return _celu(input, alpha, inplace)


# The fixed point of mean 0 and variance 1 under random layers, as derived by Klambauer et al.
_SELU = (1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0)


@function(method=False)
def selu(input: Tensor) -> Tensor:
    """Scaled elu, which keeps mean 0 and variance 1: `1.0507 * (max(0, input) + min(0, 1.6733 * (exp(input) - 1)))`.

    Source: Klambauer et al., Self-Normalizing Neural Networks, 2017.
    """
    check_inexact("selu", input)
    return elu_op(input, *_SELU)


@function(name="selu", namespace=F, method=False, out=False)
def _selu_functional(input: Tensor, inplace: bool = False) -> Tensor:
    """Scaled elu, as `rushlight.selu`; `inplace` overwrites the input."""
    check_inexact("selu", input)
    return run(elu_op, inplace, input, *_SELU)


@elementwise(
    numpy=lambda x, slope: np.where(x > 0, x, x * slope),
    name="leaky_relu",
    method=False,
    public=False,
    supports="float",
)
def leaky_relu_op(input, negative_slope):
    """`input` above zero, `negative_slope * input` below."""
    return s.select(input > 0, input, input * negative_slope)


@function(namespace=F, method=False, out=False)
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Leaky rectified linear unit: `input` above zero, `negative_slope * input` below."""
    check_inexact("leaky_relu", input)
    return run(leaky_relu_op, inplace, input, negative_slope)


@function(out=False, autocast="narrow")
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Rectified linear unit with a learned slope: `input` above zero, `weight * input` below.

    Shapes: `(N, C, *)` with `weight` `(C)` or `(1)`; a 0-dim or 1-dim input takes one weight. Raises RuntimeError when
    they do not fit.
    """
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, got {weight.ndim} dimensions")
    if input.dtype is not weight.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported, got input {input.dtype.name} and weight {weight.dtype.name}"
        )
    if weight.numel() != 1:
        if input.ndim == 0:
            raise RuntimeError("prelu: Not allow zero-dim input tensor with more than one weight")
        channels = input.shape[1] if input.ndim > 1 else 1
        if channels != weight.numel():
            raise RuntimeError(
                f"prelu: Mismatch of parameter numbers and input channel size: {weight.numel()} weights, {channels} "
                f"channels in the input of shape {shape_text(input.shape)}"
            )
    if weight.ndim and input.ndim != 1:
        weight = weight.reshape((1, -1, *(1,) * (input.ndim - 2)) if input.ndim > 1 else ())
    return leaky_relu_op(input, weight)


def _softplus(x: Any, beta: Any, threshold: Any) -> Any:
    if is_one(beta):
        return np.where(x > threshold, x, np.log1p(np.exp(x)))
    scaled = x * beta
    return np.where(scaled > threshold, x, np.log1p(np.exp(scaled)) / beta)


@elementwise(numpy=_softplus, method=False, public=False, supports="float", name="softplus")
def softplus_op(input, beta, threshold):
    """`log(1 + exp(beta * input)) / beta`, and `input` itself where `beta * input > threshold`."""
    scaled = input * beta
    return s.select(scaled > threshold, input, s.log1p(s.exp(scaled)) / beta)


@function(namespace=F, method=False)
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """A smooth relu: `log(1 + exp(beta * input)) / beta`, and `input` itself where `beta * input > threshold`."""
    check_inexact("softplus", input)
    return softplus_op(input, beta, threshold)


@elementwise(
    numpy=lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
    method=False,
    public=False,
    supports="float",
    name="logsigmoid",
)
def logsigmoid_op(input):
    """Logarithm of the logistic function: `-log(1 + exp(-input))`, without overflow."""
    return s.minimum(input, 0) - s.log1p(s.exp(-s.abs(input)))


@function(namespace=F, method=False)
def logsigmoid(input: Tensor) -> Tensor:
    """Logarithm of the logistic function: `-log(1 + exp(-input))`, without overflow."""
    return logsigmoid_op(input)


@function(namespace=F, method=False, out=False)
def softsign(input: Tensor) -> Tensor:
    """`input / (1 + abs(input))`."""
    return input / (input.abs() + 1)


@function(namespace=F, method=False, out=False)
def tanhshrink(input: Tensor) -> Tensor:
    """What tanh takes away: `input - tanh(input)`."""
    return input - input.tanh()


@elementwise(method=False, public=False, supports="float", name="hardsigmoid")
def hardsigmoid_op(input):
    """`min(max(input + 3, 0), 6) / 6`."""
    return s.minimum(s.maximum(input + 3, 0), 6) / 6


@function(namespace=F, method=False, out=False)
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """A sigmoid of three straight pieces: `min(max(input + 3, 0), 6) / 6`."""
    return run(hardsigmoid_op, inplace, input)


@elementwise(
    numpy=lambda x: x * np.minimum(np.maximum(x + 3, 0), 6) / 6, method=False, public=False, supports="float",
    name="hardswish")  # fmt: skip
def hardswish_op(input):
    """`input * min(max(input + 3, 0), 6) / 6`."""
    return input * s.minimum(s.maximum(input + 3, 0), 6) / 6


@function(namespace=F, method=False, out=False)
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """A swish of straight pieces: `input * min(max(input + 3, 0), 6) / 6`. Source: Howard et al., MobileNetV3, 2019."""
    return run(hardswish_op, inplace, input)


@function(method=False, out=False)
def rrelu(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Tensor:
    """Leaky relu with a slope drawn for each element from [lower, upper) in training, their mean otherwise.

    Raises RuntimeError for `lower > upper`. Source: Xu et al., Empirical Evaluation of Rectified Activations, 2015.
    """
    check_inexact("rrelu", input)
    if lower > upper:
        raise RuntimeError(
            f"rrelu: lower bound should be less than or equal to the upper bound, got {lower} and {upper}"
        )
    if not training:
        return leaky_relu_op(input, (lower + upper) / 2)
    return leaky_relu_op(input, empty_like(input.detach()).uniform_(lower, upper))


@function(name="rrelu", namespace=F, method=False, out=False)
def _rrelu_functional(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Leaky relu with a random slope, as `rushlight.rrelu`; `inplace` overwrites the input."""
    result = rrelu(input, lower, upper, training)
    return input.copy_(result) if inplace else result


for _name, _declared, _namespaces in (
    ("leaky_relu_", leaky_relu, (F,)),
    ("elu_", elu, (F,)),
    ("hardtanh_", hardtanh, (F,)),
    ("selu_", _selu_functional, (F, "")),
    ("celu_", _celu_functional, (F, "")),
    ("rrelu_", _rrelu_functional, (F, "")),
    ("relu_", _relu, (F,)),
):
    export_inplace(_name, _declared, *_namespaces)
