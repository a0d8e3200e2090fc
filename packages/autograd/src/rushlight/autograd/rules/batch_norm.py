"""Gradients of batch_norm."""

from rushlight.autograd.rules.registry import vjp
from rushlight.autograd.rules.through import vjp_through_decomposition
from rushlight.ops.batch_norm import batch_norm_backward_op, batch_norm_op


def _batch_norm(g0, operands, ans1, ans2):
    input, weight, _, eps = operands
    return [*batch_norm_backward_op.apply((g0, input, weight, ans1, ans2, eps)), None]


vjp(batch_norm_op, all=_batch_norm)
vjp_through_decomposition(batch_norm_backward_op, outputs=3)
