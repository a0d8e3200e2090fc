"""Gradients of matrix products."""

import math

from rushlight.autograd.rules.batched import Case, Run, in_rank, through
from rushlight.autograd.rules.registry import batch, conj, vjp
from rushlight.ops.matmul import linear_op, linear_weight_op, matmul_op
from rushlight.ops.reduction import sum_op


def _transposed(x):
    return x.permute(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)


# 1-D operands are matrices with one row or column; what broadcasting repeated is summed by the tape.


def _matmul_input(g, other, input_meta):
    if other.ndim == 1:
        return g.unsqueeze(-1) * conj(other)
    if input_meta.ndim == 1:
        return matmul_op.apply((conj(other), g.unsqueeze(-1))).squeeze(-1)
    return matmul_op.apply((g, _transposed(conj(other))))


def _matmul_other(g, input, other_meta):
    if input.ndim == 1:
        return (
            (input.conj() if input.dtype.is_complex else input).unsqueeze(-1) * g.unsqueeze(-2)
            if other_meta.ndim > 1
            else conj(input) * g
        )
    if other_meta.ndim == 1:
        return matmul_op.apply((g.unsqueeze(-2), conj(input))).squeeze(-2)
    if other_meta.ndim == 2 and input.ndim > 2:
        return linear_weight_op.apply((g, conj(input)))
    return matmul_op.apply((_transposed(conj(input)), g))


vjp(matmul_op, linear=("input", "other"), input=_matmul_input, other=_matmul_other)


def _linear_input(g, weight):
    return g.unsqueeze(-1) * conj(weight) if weight.ndim == 1 else matmul_op.apply((g, conj(weight)))


def _linear_weight(g, input, weight_meta):
    if weight_meta.ndim == 1:
        return g.unsqueeze(-1) * conj(input)
    if input.ndim == 1:
        return g.unsqueeze(-1) * conj(input)
    return linear_weight_op.apply((conj(input), g))


def _linear_bias(g, bias_meta):
    if bias_meta.ndim == 1 and g.ndim > 1 and bias_meta.shape[0] == g._meta.shape[-1]:
        return sum_op.apply((g,), (tuple(range(g.ndim - 1)), False, g.dtype))
    return g


vjp(linear_op, linear=("input bias", "weight -bias"), input=_linear_input, weight=_linear_weight, bias=_linear_bias)
vjp(
    linear_weight_op,
    linear=("input", "grad"),
    input=lambda g, grad: matmul_op.apply((conj(grad), g)),
    grad=lambda g, input: linear_op.apply((conj(input), g, None)),
)


def _batched_product(operands, batched, metas):
    a, b = operands
    first, second = metas
    if not batched[1] and second.ndim <= 2 or not batched[0] and first.ndim <= 2 < second.ndim + 1:
        if batched[0] or second.ndim > 1:
            return matmul_op.apply((a, b))  # the batch is a leading dimension like any other
        return matmul_op.apply((b, a.mT if first.ndim == 2 else a))
    a = a.unsqueeze(-2) if first.ndim == 1 else a
    b = b.unsqueeze(-1) if second.ndim == 1 else b
    ndim = max(first.ndim, second.ndim, 2)
    a, b = [in_rank(x, ndim) if is_batched else x for x, is_batched in zip((a, b), batched)]
    product = matmul_op.apply((a, b))
    product = product.squeeze(-2) if first.ndim == 1 else product
    return product.squeeze(-1) if second.ndim == 1 else product


def _affine(input, weight, bias):
    product = matmul_op.apply((input, weight.mT if weight.ndim > 1 else weight))
    return product if bias is None else product + bias


def _outer(input, grad):
    """`grad.T @ input`, over all rows."""
    count = math.prod(grad.shape[:-1])
    rows, columns = grad.reshape(count, grad.shape[-1]), input.reshape(count, input.shape[-1])
    return rows.mT * columns if rows.shape[0] == 1 else matmul_op.apply((rows.mT, columns))


def _batched_linear(case: Case) -> Run:
    """One product for all samples, unless they have weights of their own."""
    return through(_affine)(case) if any(case.batched[1:]) else lambda *operands: linear_op.apply(operands)


batch(matmul_op, _batched_product)
batch(linear_op, _batched_linear)
batch(linear_weight_op, through(_outer))
