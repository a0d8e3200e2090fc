"""Gradients of scaled dot-product attention."""

from rushlight.autograd.rules.batched import lead
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.autograd.rules.through import vjp_through_decomposition
from rushlight.ops.attention import attention_backward_op, attention_op, attention_parts
from rushlight.ops.matmul import matmul_op


def _attention(g0, operands, ans0, ans1, causal, needs):
    query, key, value, mask, scale = operands
    found = attention_backward_op.apply((g0, query, key, value, mask, ans0, ans1, scale), (causal,))
    return [*found, _mask(g0, operands, causal) if needs[3] else None, None]


def _mask(g, operands, causal):
    """The gradient of the mask, which few need: the probabilities are computed anew for it."""
    out, probabilities = attention_parts(*operands, causal)
    by_probability = matmul_op.apply((g, operands[2].transpose(-2, -1)))
    return (by_probability - (g * out).sum(-1, keepdim=True)) * probabilities


vjp(attention_op, all=_attention)
vjp_through_decomposition(attention_backward_op, outputs=3)

batch(attention_op, lead)
batch(attention_backward_op, lead)
