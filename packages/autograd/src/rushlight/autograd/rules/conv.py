"""Gradients of convolutions: each of the three ops is the gradient of the other two."""

from rushlight.autograd.batches import whole
from rushlight.autograd.rules.batched import joined, split_off
from rushlight.autograd.rules.registry import batch, conj, vjp
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


def _each(op, operands, params, batched, groups, samples):
    """A product for all samples: as one batch of images, or, where each sample has filters of its own, as one image
    with the channels of all samples in as many groups more.
    """
    input, weight, bias = operands
    if not batched[1] and batched[2]:
        images = input if batched[0] else whole(input, samples)
        product = _each(op, (images, weight, None), params, (True, False, False), groups, samples)
        return product + bias.reshape(samples, 1, -1, *(1,) * (weight.ndim - 2))
    if not batched[1]:
        return split_off(op.apply((joined(input), weight, bias), (*params, groups)), samples)
    filters = joined(weight)
    if bias is not None:
        bias = (bias if batched[2] else whole(bias, samples)).reshape(-1)
    if not batched[0] and groups == 1 and op is conv_op:
        return split_off(op.apply((input, filters, bias), (*params, 1)), samples, 1)
    channels = joined(input if batched[0] else whole(input, samples), 1)
    return split_off(op.apply((channels, filters, bias), (*params, groups * samples)), samples, 1)


def _batched_conv(operands, batched, stride, padding, dilation, groups, samples):
    return _each(conv_op, operands, (stride, padding, dilation), batched, groups, samples)


def _batched_transpose(operands, batched, stride, padding, output_padding, dilation, groups, samples):
    params = (stride, padding, output_padding, dilation)
    return _each(conv_transpose_op, operands, params, batched, groups, samples)


def _batched_weight(op, operands, batched, kernel_size, stride, padding, dilation, groups, samples):
    """The channels of all samples side by side, in groups; gradients of one input are more channels only."""
    params = (kernel_size, stride, padding, dilation)
    input, grad = operands
    if not batched[0] and groups == 1:
        return split_off(op.apply((input, joined(grad, 1)), (*params, 1)), samples)
    channels, grads = [joined(x if b else whole(x, samples), 1) for x, b in zip(operands, batched)]
    return split_off(op.apply((channels, grads), (*params, groups * samples)), samples)


batch(conv_op, _batched_conv)
batch(conv_transpose_op, _batched_transpose)
batch(conv_weight_op, _batched_weight)
