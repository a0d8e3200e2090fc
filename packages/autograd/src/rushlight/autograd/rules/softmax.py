"""Gradients of softmax and log_softmax."""

from rushlight.autograd.rules.registry import vjp
from rushlight.ops.softmax import log_softmax_backward_op, log_softmax_op, softmax_backward_op, softmax_op

vjp(softmax_op, input=lambda g, ans, dim: softmax_backward_op.apply((g, ans), (dim,)))
vjp(
    softmax_backward_op,
    grad=lambda g, output, dim: softmax_backward_op.apply((g, output), (dim,)),
    output=lambda g, grad, output, dim: (
        g * (grad - (grad * output).sum(dim, keepdim=True)) - grad * (g * output).sum(dim, keepdim=True)
    ),
)

vjp(log_softmax_op, input=lambda g, ans, dim: log_softmax_backward_op.apply((g, ans), (dim,)))
vjp(
    log_softmax_backward_op,
    grad=lambda g, output, dim: g - (g * output.exp()).sum(dim, keepdim=True),
    output=lambda g, grad, output, dim: -g * output.exp() * grad.sum(dim, keepdim=True),
)
