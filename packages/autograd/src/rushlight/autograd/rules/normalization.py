"""Gradients of normalization."""

from rushlight.autograd.rules.batched import Case, Run, same, through
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.autograd.rules.through import vjp_through_decomposition
from rushlight.ops.normalization import layer_norm_backward_op, layer_norm_op


def _layer_norm(g0, operands, ans1, ans2, dims):
    input, weight, _, eps = operands
    return [*layer_norm_backward_op.apply((g0, input, weight, ans1, ans2, eps), (dims,)), None]


vjp(layer_norm_op, all=_layer_norm)
vjp_through_decomposition(layer_norm_backward_op, outputs=3)


def _batched(case: Case) -> Run:
    """Weights that all samples share may stay as they are."""
    shared = case.batched == (True, False, False, False)
    return same(case) if shared else through(layer_norm_op.decomposition)(case)


batch(layer_norm_op, _batched)
