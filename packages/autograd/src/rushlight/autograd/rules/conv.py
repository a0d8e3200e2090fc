"""Gradients of convolutions: each of the three ops is the gradient of the other two."""

from rushlight.autograd.rules.registry import conj, vjp
from rushlight.ops.conv import conv_op, conv_weight_op
from rushlight.ops.conv_transpose import conv_transpose_op
from rushlight.ops.reduction import sum_op


def _bias(g):
    return sum_op.apply((g,), ((0, *range(2, g.ndim)), False, g.dtype))


def _back(g, weight, size, stride, padding, dilation, groups):
    """The gradient of a convolution by an input of the given spatial size."""
    base = [
        (o - 1) * s - 2 * p + d * (k - 1) + 1
        for o, s, p, d, k in zip(g.shape[2:], stride, padding, dilation, weight.shape[2:])
    ]
    missing = tuple([n - b for n, b in zip(size, base)])
    return conv_transpose_op.apply((g, conj(weight), None), (stride, padding, missing, dilation, groups))


def _forward(x, weight, size, stride, padding, dilation, groups):
    """A convolution cut to the given spatial size: output padding beyond a stride makes it larger."""
    result = conv_op.apply((x, weight, None), (stride, padding, dilation, groups))
    for d, n in enumerate(size, 2):
        if result.shape[d] != n:
            result = result.narrow(d, 0, n)
    return result


vjp(
    conv_op,
    linear=("input bias", "weight -bias"),
    input=lambda g, weight, input_meta, stride, padding, dilation, groups: _back(
        g, weight, input_meta.shape[2:], stride, padding, dilation, groups
    ),
    weight=lambda g, input, weight_meta, stride, padding, dilation, groups: conv_weight_op.apply(
        (conj(input), g), (weight_meta.shape[2:], stride, padding, dilation, groups)
    ),
    bias=_bias,
)

vjp(
    conv_transpose_op,
    linear=("input bias", "weight -bias"),
    input=lambda g, weight, input_meta, stride, padding, dilation, groups: _forward(
        g, conj(weight), input_meta.shape[2:], stride, padding, dilation, groups
    ),
    weight=lambda g, input, weight_meta, stride, padding, dilation, groups: conv_weight_op.apply(
        (g, conj(input)), (weight_meta.shape[2:], stride, padding, dilation, groups)
    ),
    bias=_bias,
)

vjp(
    conv_weight_op,
    linear=("input", "grad"),
    input=lambda g, grad, input_meta, stride, padding, dilation, groups: _back(
        conj(grad), conj(g), input_meta.shape[2:], stride, padding, dilation, groups
    ),
    grad=lambda g, input, grad_meta, stride, padding, dilation, groups: _forward(
        conj(input), g, grad_meta.shape[2:], stride, padding, dilation, groups
    ),
)
