"""Gradients of normalization."""

from rushlight.autograd.rules.registry import vjp
from rushlight.autograd.rules.through import vjp_through_decomposition
from rushlight.ops.normalization import layer_norm_backward_op, layer_norm_op


def _layer_norm(g0, operands, ans1, ans2, dims):
    input, weight, _, eps = operands
    return [*layer_norm_backward_op.apply((g0, input, weight, ans1, ans2, eps), (dims,)), None]


vjp(layer_norm_op, all=_layer_norm)
vjp_through_decomposition(layer_norm_backward_op, outputs=3)
