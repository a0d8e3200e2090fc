"""Scaled dot-product attention."""

from __future__ import annotations

import math

import numpy as np

from rushlight.core import checks, dtypes
from rushlight.core.declare import broadcast_shapes_of, structured
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.native import of_loops
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import attention as cpu
from rushlight.ops.allocation import full_op
from rushlight.ops.dropout import dropout
from rushlight.ops.matmul import matmul_op
from rushlight.ops.normalization import wide
from rushlight.ops.reduction import logsumexp_op
from rushlight.ops.softmax import softmax_op
from rushlight.ops.triangle import tril_op

_Q, _K = (np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4) ** p for p in (2, 3))
_MASK = np.array([[1, 1, 0], [0, 0, 0], [0, 1, 1]], bool)


def _result(like: Meta, shape: tuple[int, ...], joined: bool) -> Meta:
    """A result; `joined` lays out one with heads as `(N, L, H, E)`, so that joining them copies nothing. As in PyTorch
    that holds for gradients, and for the output where it holds for the query."""
    strides = None
    if len(shape) == 4 and joined:
        _, heads, rows, features = shape
        strides = (heads * rows * features, features, heads * features, 1)
    return meta(like.dtype, shape, strides, like.device)


def _infer_attention(
    query: Meta, key: Meta, value: Meta, mask: Meta | None, scale: Meta, *, causal: bool
) -> tuple[Meta, Meta]:
    name = "scaled_dot_product_attention"
    dtype = checks.same_dtype(name, query=query, key=key, value=value)
    checks.floating(name, "query", query)
    lead, rows, keys = query.shape[:-2], query.shape[-2], key.shape[-2]
    if (
        key.shape[:-2] != lead
        or value.shape[:-2] != lead
        or key.shape[-1] != query.shape[-1]
        or value.shape[-2] != keys
    ):
        raise RuntimeError(
            f"{name}: query {shape_text(query.shape)}, key {shape_text(key.shape)} and value "
            f"{shape_text(value.shape)} do not "
            "fit; expected (*, L, E), (*, S, E) and (*, S, Ev)"
        )
    if mask is not None:
        if mask.dtype is not dtypes.bool and mask.dtype is not dtype:
            raise RuntimeError(
                f"{name}: attn_mask must be bool or have the dtype of query, {dtype.name}, got {mask.dtype.name}"
            )
        if broadcast_shapes_of(name, [mask, meta(dtype, (*lead, rows, keys))]) != (*lead, rows, keys):
            raise RuntimeError(
                f"{name}: attn_mask of shape {shape_text(mask.shape)} does not broadcast to "
                f"{shape_text((*lead, rows, keys))}"
            )
    joined = len(lead) == 2 and query.strides[1] < query.strides[2]
    out = _result(query, (*lead, rows, value.shape[-1]), joined)
    return out, meta(wide(dtype), (*lead, rows, 1), None, query.device)


def _scores(query, key, mask, scale, causal: bool):
    """The scores, -inf where the mask is False, and the mask; half types compute in float32."""
    query, key = (x.to(wide(query.dtype)) for x in (query, key))
    scores = matmul_op.apply((query * scale, key.transpose(-2, -1)))
    if causal:
        mask = tril_op.apply((full_op.apply((True,), (tuple(scores.shape[-2:]), dtypes.bool, scores.device)),), (0,))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is dtypes.bool else scores + mask
    return scores, mask


def attention_parts(query, key, value, mask, scale, causal: bool, dropout_p: float = 0.0):
    """Attention and its probabilities in simpler ops."""
    scores, mask = _scores(query, key, mask, scale, causal)
    probabilities = softmax_op.apply((scores,), (scores.ndim - 1,))
    if mask is not None:  # rows without any key give zeros
        probabilities = probabilities.masked_fill((scores == -math.inf).all(-1, keepdim=True), 0.0)
    used = dropout(probabilities, dropout_p) if dropout_p else probabilities
    return matmul_op.apply((used, value.to(scores.dtype))).to(query.dtype), probabilities


def _parts(query, key, value, mask, scale, causal: bool):
    """Attention and the log-sum of each row's scores (inf for rows without any key) in simpler ops."""
    out, _ = attention_parts(query, key, value, mask, scale, causal)
    log_sum = logsumexp_op.apply((_scores(query, key, mask, scale, causal)[0],), ((query.ndim - 1,), True))
    return out, log_sum.masked_fill(log_sum == -math.inf, math.inf)


def _reference(q, k, v, mask, scale, causal):
    scores = q @ k.swapaxes(-1, -2) * scale
    if causal:
        mask = np.tri(*scores.shape[-2:], dtype=bool)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = np.nan_to_num(scores.max(-1, keepdims=True), neginf=0)
    total = np.exp(scores - top).sum(-1, keepdims=True)
    log_sum = np.where(total == 0, np.inf, top + np.log(np.where(total == 0, 1, total)))
    return np.exp(scores - log_sum) @ v, log_sum


attention_op = structured(
    "attention",
    _infer_attention,
    doc="`softmax(query @ key.T * scale + mask) @ value`, and the log-sum of each row's scores.",
    autocast="narrow",
    samples=lambda: [
        Sample((_Q, _K, _Q + _K, None, 0.5), (False,)),
        Sample((_Q, _K, _Q + _K, None, 0.5), (True,)),
        Sample((_Q, _K, _K, _MASK, 0.5), (False,)),
        Sample((_Q, _K, _K, _MASK.astype(np.float32), 1.0), (False,)),
    ],
    errors=lambda: [
        ErrorSample((_Q, _K[..., :3], _K, None, 0.5), (False,), RuntimeError, "do not fit"),
        ErrorSample((_Q, _K, _K, _MASK.astype(int), 0.5), (False,), RuntimeError, "attn_mask must be bool"),
    ],
    reference=_reference,
    decomposition=_parts,
)


def _spread(mask: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray | None:
    return None if mask is None else np.broadcast_to(checks.widened(mask), shape)


@kernel(attention_op, "cpu")
@of_loops
def _attention(q, k, v, mask, scale: float, causal: bool):
    shape = (*q.shape[:-1], k.shape[-2])
    q, k, v = (checks.widened(x)[None] for x in (q, k, v)) if q.ndim == 2 else map(checks.widened, (q, k, v))
    mask = _spread(mask, (*q.shape[:-1], k.shape[-2]))
    out, log_sum = cpu.attention(q, k, v, mask, scale, causal)
    return (out[0], log_sum[0]) if len(shape) == 2 else (out, log_sum)


def _infer_backward(
    grad: Meta,
    query: Meta,
    key: Meta,
    value: Meta,
    mask: Meta | None,
    out: Meta,
    log_sum: Meta,
    scale: Meta,
    *,
    causal: bool,
) -> tuple[Meta, Meta, Meta]:
    return tuple([_result(m, m.shape, True) for m in (query, key, value)])


def _backward_parts(grad, query, key, value, mask, out, log_sum, scale, causal: bool):
    """The gradients of attention in simpler ops; `out` and `log_sum` are functions of the others, so they are made
    anew."""
    dtype = query.dtype
    grad, query, key, value = (x.to(wide(dtype)) for x in (grad, query, key, value))
    out, p = attention_parts(query, key, value, mask, scale, causal)
    grad_v = matmul_op.apply((p.transpose(-2, -1), grad))
    by_score = (matmul_op.apply((grad, value.transpose(-2, -1))) - (grad * out).sum(-1, keepdim=True)) * p * scale
    grads = (matmul_op.apply((by_score, key)), matmul_op.apply((by_score.transpose(-2, -1), query)), grad_v)
    return tuple([g.to(dtype) for g in grads])


attention_backward_op = structured(
    "attention_backward",
    _infer_backward,
    doc="Gradients of `attention` by query, key and value.",
    samples=lambda: [
        Sample((_Q, _Q, _K, _K, None, *_reference(_Q, _K, _K, None, 0.5, True), 0.5), (True,)),
        Sample((_Q, _Q, _K, _K, _MASK, *_reference(_Q, _K, _K, _MASK, 0.5, False), 0.5), (False,)),
    ],
    decomposition=_backward_parts,
)


@kernel(attention_backward_op, "cpu")
@of_loops
def _attention_backward(grad, q, k, v, mask, out, log_sum, scale: float, causal: bool):
    flat, half = q.ndim == 2, q.dtype.itemsize == 2
    arrays = [checks.widened(x) for x in (grad, q, k, v, out, log_sum)]
    grad, q, k, v, out, log_sum = (x[None] for x in arrays) if flat else arrays
    mask = _spread(mask, (*q.shape[:-1], k.shape[-2]))
    grads = cpu.attention_backward(grad, q, k, v, mask, None if half else out, log_sum, scale, causal)
    return tuple([g[0] for g in grads]) if flat else grads


def _with_batch(x: Tensor, lead: tuple[int, ...]) -> Tensor:
    return x if x.shape[:-2] == lead else x.expand(*lead, *x.shape[-2:])


@function(namespace="nn.functional", method=False, out=False, memo=True)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`softmax(query @ key.T * scale + attn_mask) @ value`; scale is `1 / sqrt(E)` by default.

    Shapes: `(*, H, L, E)`, `(*, H, S, E)`, `(*, H, S, Ev)` -> `(*, H, L, Ev)`. A bool mask says what takes part;
    `is_causal` lets row i see
    keys 0 to i; `enable_gqa` repeats key and value heads. Raises RuntimeError when shapes or dtypes do not fit.
    """
    if is_causal and attn_mask is not None:
        raise RuntimeError("scaled_dot_product_attention: give attn_mask or is_causal=True, not both")
    if query.ndim < 2 or key.ndim < 2 or value.ndim < 2:
        raise RuntimeError(
            "scaled_dot_product_attention: expected query, key and value to have at least 2 dimensions, got "
            f"{query.ndim}, {key.ndim} and {value.ndim}"
        )
    if enable_gqa and query.ndim > 2:
        heads = query.shape[-3]
        key = key.repeat_interleave(heads // key.shape[-3], -3) if key.shape[-3] != heads else key
        value = value.repeat_interleave(heads // value.shape[-3], -3) if value.shape[-3] != heads else value
    if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        lead = broadcast_shapes_of(
            "scaled_dot_product_attention", [meta(x.dtype, x._meta.shape[:-2]) for x in (query, key, value)]
        )
        query, key, value = (_with_batch(x, lead) for x in (query, key, value))
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    if dropout_p or (attn_mask is not None and attn_mask.requires_grad):
        return attention_parts(query, key, value, attn_mask, scale, is_causal, dropout_p)[0]
    return attention_op.apply((query, key, value, attn_mask, scale), (is_causal,))[0]
