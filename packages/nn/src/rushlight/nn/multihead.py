"""`multi_head_attention_forward`: attention with several heads, projections included."""

from __future__ import annotations

import math

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F


def _float_mask(name: str, mask: Tensor | None, dtype: rushlight.dtype) -> Tensor | None:
    """A mask to add to the scores: True becomes -inf."""
    if mask is None or mask.is_floating_point():
        return mask
    if mask.dtype is not rushlight.bool:
        raise AssertionError(f"only bool and floating types of {name} are supported, got {mask.dtype}")
    return rushlight.zeros(mask.shape, dtype=dtype).masked_fill(mask, float("-inf"))


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Project, attend with `num_heads` heads, project back (Vaswani et al. 2017).

    Shapes: query `(l, n, e)`, key and value `(s, n, *)` -> `(l, n, e)` and, when `need_weights`, the weights averaged
    over heads `(n, l, s)`
    or each head's `(n, h, l, s)`; without batch all lose `n`. Raises AssertionError or RuntimeError for shapes that do
    not fit.
    """
    batched = query.ndim == 3
    if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
        raise AssertionError(
            f"query, key and value must all be 2-D or all 3-D, got {query.ndim}-D, {key.ndim}-D and {value.ndim}-D"
        )
    if not batched:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, width = query.shape
    if key.shape[:2] != value.shape[:2] or key.shape[1] != batch:
        raise AssertionError(
            f"key's sequence and batch dims {tuple(key.shape[:2])} do not match value's {tuple(value.shape[:2])} and "
            f"query's batch of {batch}"
        )
    if key_padding_mask is not None and tuple(key_padding_mask.shape) != (batch, key.shape[0]):
        raise AssertionError(
            f"expected key_padding_mask of shape {(batch, key.shape[0])}, got {tuple(key_padding_mask.shape)}"
        )
    if width != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    head = width // num_heads
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else in_proj_weight.chunk(3)
    q, k, v = (F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))
    attn_mask = _float_mask("attn_mask", attn_mask, q.dtype)
    key_padding_mask = _float_mask("key_padding_mask", key_padding_mask, q.dtype)
    if attn_mask is not None:
        if attn_mask.ndim == 2:
            attn_mask = attn_mask.unsqueeze(0)
        wanted = ((1, length, key.shape[0]), (batch * num_heads, length, key.shape[0]))
        if tuple(attn_mask.shape) not in wanted:
            raise RuntimeError(
                f"the shape of attn_mask is {tuple(attn_mask.shape)}, but should be {wanted[0][1:]} or {wanted[1]}"
            )
    added = 0
    if bias_k is not None:
        k, v = rushlight.cat((k, bias_k.expand(1, batch, width))), rushlight.cat((v, bias_v.expand(1, batch, width)))
        added += 1

    def heads(x: Tensor) -> Tensor:
        """`(l, n, e)` to `(n * h, l, e / h)`."""
        return x.reshape(x.shape[0], batch * num_heads, head).transpose(0, 1)

    q = heads(q)
    k, v = (heads(x) if static is None else static for x, static in ((k, static_k), (v, static_v)))
    if add_zero_attn:
        zero = rushlight.zeros(batch * num_heads, 1, head, dtype=k.dtype)
        k, v = rushlight.cat((k, zero), 1), rushlight.cat((v, zero), 1)
        added += 1
    if added:
        attn_mask = None if attn_mask is None else F.pad(attn_mask, (0, added))
        key_padding_mask = None if key_padding_mask is None else F.pad(key_padding_mask, (0, added))
    if key_padding_mask is not None:
        spread = (
            key_padding_mask.view(batch, 1, 1, -1).expand(batch, num_heads, 1, -1).reshape(batch * num_heads, 1, -1)
        )
        attn_mask = spread if attn_mask is None else attn_mask + spread
    drop = dropout_p if training else 0.0
    if not need_weights:
        mask = None if attn_mask is None else attn_mask.expand(batch * num_heads, length, -1)
        attended = F.scaled_dot_product_attention(q, k, v, mask, drop)
        scores = None
    else:
        raw = (q * math.sqrt(1.0 / head)) @ k.transpose(1, 2)
        scores = F.softmax(raw if attn_mask is None else raw + attn_mask, -1)
        scores = F.dropout(scores, drop) if drop else scores
        attended = scores @ v
    output = F.linear(attended.transpose(0, 1).reshape(length, batch, width), out_proj_weight, out_proj_bias)
    if scores is not None:
        scores = scores.view(batch, num_heads, length, -1)
        scores = scores.mean(1) if average_attn_weights else scores
        scores = scores if batched else scores.squeeze(0)
    return (output if batched else output.squeeze(1)), scores
