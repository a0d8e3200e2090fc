"""Gradients of cross_entropy and nll_loss."""

from rushlight.autograd.rules.registry import vjp
from rushlight.autograd.rules.through import vjp_through_decomposition
from rushlight.ops.cross_entropy import cross_entropy_backward_op, cross_entropy_op, nll_loss_backward_op, nll_loss_op

vjp(
    nll_loss_op,
    linear="input",
    input=lambda g, target, weight, input_meta, ignore_index, reduction: nll_loss_backward_op.apply(
        (g, target, weight), (input_meta.shape, ignore_index, reduction)
    ),
)
vjp(
    nll_loss_backward_op,
    linear="grad",
    grad=lambda g, target, weight, ignore_index, reduction: nll_loss_op.apply(
        (g, target, weight), (ignore_index, reduction)
    ),
)

# The second result only serves the gradient.
vjp(
    cross_entropy_op,
    input=lambda g0, input, target, weight, ans1, ignore_index, reduction: cross_entropy_backward_op.apply(
        (g0, input, target, weight, ans1), (ignore_index, reduction)
    ),
)
vjp_through_decomposition(cross_entropy_backward_op)
