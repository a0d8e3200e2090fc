"""Gradients of activation functions."""

import math

from rushlight.autograd.rules.registry import conj, vjp
from rushlight.ops import prims
from rushlight.ops.activation import sigmoid, softplus_op
from rushlight.ops.exponential import exp
from rushlight.ops.gamma import erf
from rushlight.ops.selection import clamp_max_op, where_op
from rushlight.ops.trigonometric import tanh

_SQRT_HALF = math.sqrt(0.5)
_DENSITY = 1 / math.sqrt(2 * math.pi)  # of the normal distribution at 0


def _elu(g, input, alpha, scale, input_scale):
    below = exp(clamp_max_op(input * input_scale, 0)) * (alpha * scale * input_scale)  # no overflow where it is not used
    return where_op(input <= 0, g * below, g * scale)


def _gelu(g, input):
    distribution = (erf(input * _SQRT_HALF) + 1) * 0.5
    return g * (distribution + input * exp(input * input * -0.5) * _DENSITY)


def _gelu_tanh(g, input):
    rate = math.sqrt(2 / math.pi)
    square = input * input
    t = tanh(input * (square * 0.044715 + 1) * rate)
    inner_slope = (square * (3 * 0.044715) + 1) * rate
    return g * ((t + 1) * 0.5 + input * (1 - t * t) * inner_slope * 0.5)


def _silu(g, input):
    gate = sigmoid(input)
    return g * conj(gate * (input * (1 - gate) + 1))


def _mish(g, input):
    t = tanh(softplus_op(input, 1.0, 20.0))
    return g * (t + input * (1 - t * t) * sigmoid(input))


def _softplus(g, input, beta, threshold):
    scaled = input * beta
    return where_op(scaled > threshold, g, g * sigmoid(scaled))


def _hardswish(g, input):
    return where_op(input <= -3, 0, where_op(input < 3, g * (input / 3 + 0.5), g))


vjp(prims.relu, input=lambda g, ans: where_op(ans <= 0, 0, g))
vjp(prims.sigmoid, input=lambda g, ans: g * conj((1 - ans) * ans))
vjp(prims.hardtanh, input=lambda g, input, min_val, max_val: where_op((input <= min_val) | (input >= max_val), 0, g))
vjp(prims.elu, input=_elu)
vjp(prims.leaky_relu,
    input=lambda g, input, negative_slope: where_op(input > 0, g, g * negative_slope),
    negative_slope=lambda g, input: where_op(input > 0, 0, g * input))
vjp(prims.gelu, input=_gelu)
vjp(prims.gelu_tanh, input=_gelu_tanh)
vjp(prims.silu, input=_silu)
vjp(prims.mish, input=_mish)
vjp(prims.softplus, input=_softplus)
vjp(prims.logsigmoid, input=lambda g, input: g * sigmoid(-input))
vjp(prims.threshold, input=lambda g, input, threshold: where_op(input <= threshold, 0, g))
vjp(prims.softshrink, input=lambda g, input, lambd: where_op(input.abs() <= lambd, 0, g))
vjp(prims.hardshrink, input=lambda g, input, lambd: where_op(input.abs() <= lambd, 0, g))
vjp(prims.hardsigmoid, input=lambda g, input: where_op(input.abs() < 3, g / 6, 0))
vjp(prims.hardswish, input=_hardswish)
