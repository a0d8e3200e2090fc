"""Gradients of scaled dot-product attention."""

from rushlight.autograd.rules.registry import vjp
from rushlight.autograd.rules.through import vjp_through_decomposition
from rushlight.ops.attention import attention_backward_op, attention_op


def _attention(g0, operands, ans0, ans1, causal):
    query, key, value, mask, scale = operands
    return [*attention_backward_op.apply((g0, query, key, value, mask, ans0, ans1, scale), (causal,)), None, None]


vjp(attention_op, all=_attention)
vjp_through_decomposition(attention_backward_op, outputs=3)
