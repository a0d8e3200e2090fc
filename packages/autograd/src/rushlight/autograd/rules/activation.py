"""Gradients of activation functions."""

import math

from rushlight.autograd.rules.registry import conj, vjp
from rushlight.autograd.rules.rounding import zeros
from rushlight.ops import prims
from rushlight.ops.activation import relu_backward, sigmoid, softplus_op
from rushlight.ops.activation_gated import gelu_backward, gelu_tanh_backward, silu_backward
from rushlight.ops.exponential import exp
from rushlight.ops.selection import clamp_max_op, where_op
from rushlight.ops.trigonometric import tanh

_DENSITY = 1 / math.sqrt(2 * math.pi)  # of the normal distribution at 0
_RATE, _CUBE = math.sqrt(2 / math.pi), 0.044715


def _elu(g, input, alpha, scale, input_scale):
    below = exp(clamp_max_op(input, 0) * input_scale) * (
        alpha * scale * input_scale
    )  # no overflow where it is not used
    return where_op(input <= 0, g * below, g * scale)


def _gelu_twice(g, grad, input):
    square = input * input
    return g * grad * (exp(square * -0.5) * (2 - square) * _DENSITY)


def _gelu_tanh_twice(g, grad, input):
    square = input * input
    t = tanh(input * (square * _CUBE + 1) * _RATE)
    rest, slope = 1 - t * t, (square * (3 * _CUBE) + 1) * _RATE
    return g * grad * (rest * slope + input * rest * (input * (3 * _CUBE * _RATE) - t * slope * slope))


def _silu_twice(g, grad, input):
    gate = sigmoid(input)
    return conj(g) * grad * conj(gate * (1 - gate) * (input * (1 - gate * 2) + 2))


def _mish(g, input):
    t = tanh(softplus_op(input, 1.0, 20.0))
    return g * (t + input * (1 - t * t) * sigmoid(input))


def _softplus(g, input, beta, threshold):
    scaled = input * beta
    return where_op(scaled > threshold, g, g * sigmoid(scaled))


def _hardswish(g, input):
    return where_op(input <= -3, 0, where_op(input < 3, g * (input / 3 + 0.5), g))


vjp(prims.relu, input=lambda g, ans: relu_backward(g, ans))
vjp(prims.relu_backward, grad=lambda g, result: relu_backward(g, result), result=zeros)
vjp(prims.sigmoid, input=lambda g, ans: g * conj((1 - ans) * ans))
vjp(prims.hardtanh, input=lambda g, input, min_val, max_val: where_op((input <= min_val) | (input >= max_val), 0, g))
vjp(prims.elu, input=_elu)
vjp(
    prims.leaky_relu,
    input=lambda g, input, negative_slope: where_op(input > 0, g, g * negative_slope),
    negative_slope=lambda g, input: where_op(input > 0, 0, g * input),
)
vjp(prims.gelu, input=lambda g, input: gelu_backward(g, input))
vjp(prims.gelu_backward, grad=lambda g, input: gelu_backward(g, input), input=_gelu_twice)
vjp(prims.gelu_tanh, input=lambda g, input: gelu_tanh_backward(g, input))
vjp(prims.gelu_tanh_backward, grad=lambda g, input: gelu_tanh_backward(g, input), input=_gelu_tanh_twice)
vjp(prims.silu, input=lambda g, input: silu_backward(g, input))
vjp(prims.silu_backward, grad=lambda g, input: silu_backward(g, conj(input)), input=_silu_twice)
vjp(prims.mish, input=_mish)
vjp(prims.softplus, input=_softplus)
vjp(prims.logsigmoid, input=lambda g, input: g * sigmoid(-input))
vjp(prims.threshold, input=lambda g, input, threshold: where_op(input <= threshold, 0, g))
vjp(prims.softshrink, input=lambda g, input, lambd: where_op(input.abs() <= lambd, 0, g))
vjp(prims.hardshrink, input=lambda g, input, lambd: where_op(input.abs() <= lambd, 0, g))
vjp(prims.hardsigmoid, input=lambda g, input: where_op(input.abs() < 3, g / 6, 0))
vjp(prims.hardswish, input=_hardswish)
