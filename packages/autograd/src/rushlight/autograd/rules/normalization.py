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


def _batched_backward(case: Case) -> Run:
    """The fused op adds up the gradients of weights over all rows; those of each sample are sums over its own."""
    if case.batched != (True, True, False, True, True, False):
        return through(layer_norm_backward_op.decomposition)(case)
    (dims,) = case.params
    rows = tuple(range(1, 1 + case.metas[1].ndim - dims))
    _, by_weight, by_bias = layer_norm_backward_op.infer(*case.metas, *case.params)

    def run(grad, input, weight, mean, rstd, eps):
        by_input = layer_norm_backward_op.apply((grad, input, weight, mean, rstd, eps), (dims,))[0]
        products = grad * ((input - mean) * rstd)
        sums = [x.sum(rows) if rows else x for x in (products, grad)]
        return by_input, sums[0].to(by_weight.dtype), sums[1].to(by_bias.dtype)

    return run


batch(layer_norm_backward_op, _batched_backward)
