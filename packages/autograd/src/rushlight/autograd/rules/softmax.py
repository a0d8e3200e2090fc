"""Gradients of softmax and log_softmax."""

from rushlight.autograd.rules.batched import shift
from rushlight.autograd.rules.registry import batch, jvp, vjp
from rushlight.ops.softmax import log_softmax_backward_op, log_softmax_op, softmax_backward_op, softmax_op

vjp(softmax_op, input=lambda g, ans, dim: softmax_backward_op.apply((g, ans), (dim,)))
jvp(softmax_op, lambda d_input, ans, dim: softmax_backward_op.apply((d_input.to(ans.dtype), ans), (dim,)))
vjp(
    softmax_backward_op,
    grad=lambda g, output, dim: softmax_backward_op.apply((g, output), (dim,)),
    output=lambda g, grad, output, dim: (
        g * (grad - (grad * output).sum(dim, keepdim=True)) - grad * (g * output).sum(dim, keepdim=True)
    ),
)

vjp(log_softmax_op, input=lambda g, ans, dim: log_softmax_backward_op.apply((g, ans), (dim,)))
jvp(log_softmax_op, lambda d_input, ans, dim: d_input - (d_input * ans.exp()).sum(dim, keepdim=True))
vjp(
    log_softmax_backward_op,
    grad=lambda g, output, dim: g - (g * output.exp()).sum(dim, keepdim=True),
    output=lambda g, grad, output, dim: -g * output.exp() * grad.sum(dim, keepdim=True),
)

for _op in (softmax_op, softmax_backward_op, log_softmax_op, log_softmax_backward_op):
    batch(_op, shift("dim"))
