"""Batch normalisation folded into the layer before it, for inference."""

from __future__ import annotations

import copy
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter


def _require_eval(*modules: Module) -> None:
    if any(m.training for m in modules):
        raise AssertionError("Fusion only for eval: call .eval() on both layers first")


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of a convolution that computes what it and a batch normalisation after it do. AssertionError in training
    mode."""
    _require_eval(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the fused convolution; `transpose` for a transposed one, whose outputs are in dimension 1."""
    scale, shift = _affine(conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
    return Parameter(weight.detach(), conv_w.requires_grad), Parameter(
        shift.to(conv_w.dtype).detach(), conv_w.requires_grad
    )


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of a Linear that computes what it and a batch normalisation after it do.

    AssertionError in training mode, or when the features do not match.
    """
    _require_eval(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            f"To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got {linear.out_features} and "
            f"{bn.num_features}"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        linear.weight, linear.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the fused Linear."""
    scale, shift = _affine(linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    weight = (linear_w * scale.unsqueeze(-1)).to(linear_w.dtype)
    made = Parameter(weight.detach(), linear_w.requires_grad)
    return made, Parameter(shift.to(linear_w.dtype).detach(), linear_w.requires_grad)


def _affine(
    bias: Tensor | None, mean: Tensor, variance: Tensor, eps: float, weight: Tensor | None, shift: Tensor | None
) -> tuple[Tensor, Tensor]:
    """What the normalisation multiplies outputs by, and the bias that the fused layer needs."""
    with rushlight.no_grad():
        scale = (variance + eps).rsqrt()
        scale = scale if weight is None else scale * weight
        moved = ((0 if bias is None else bias) - mean) * scale
        return scale, moved if shift is None else moved + shift
