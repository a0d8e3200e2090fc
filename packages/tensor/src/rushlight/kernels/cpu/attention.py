"""Scaled dot-product attention on numpy arrays, in blocks whose scores stay in the cache.

Scores and probabilities are never all in memory: the forward pass keeps one number per query (the logarithm of the sum
of exponentials), from which the backward pass makes the probabilities of a block again. Blocks of different samples run
on different threads.
"""

from __future__ import annotations

from math import prod

import numpy as np

from rushlight.kernels.cpu import allocator, flash, flash_backward, native
from rushlight.kernels.cpu.pool import get_num_threads, parallel_for

BLOCK_BYTES = 1 << 19  # scores of a block
FEW = 1 << 15  # products of queries and keys below which all of them are one block
_PARALLEL_BYTES = 1 << 20  # from so much on all scores together are worth waking other threads for


def _plan(q: np.ndarray, k: np.ndarray) -> tuple[int, int]:
    """Samples and query rows per block."""
    per_row = prod(q.shape[1:-2]) * max(k.shape[-2], 1) * q.itemsize
    rows = max(16, BLOCK_BYTES // max(per_row, 1))
    if rows < q.shape[-2]:
        return 1, rows
    return max(1, BLOCK_BYTES // max(per_row * q.shape[-2], 1)), max(q.shape[-2], 1)


def _run(body, samples: int, step: int, score_bytes: int) -> None:
    """Call `body(lo, hi)` for blocks of `step` samples, on all threads if there is enough to do."""
    blocks = -(-samples // step)

    def several(first: int, last: int) -> None:
        for block in range(first, last):
            body(block * step, min(samples, (block + 1) * step))

    if blocks > 1 and score_bytes >= _PARALLEL_BYTES and get_num_threads() > 1:
        parallel_for(several, blocks, 1)
    else:
        several(0, blocks)


# Row r of a block is query `first + r % rows`; when causal it sees the keys up to its own number, and the others get
# probability 0. `span` is what is computed: up to the next multiple of 64, which LLVM takes without a scalar rest.
_HEAD = """    wide_vectors()
    n = u64(load(layout, u64(0)))
    rows = u64(load(layout, u64(1)))
    first = u64(load(layout, u64(2)))
    causal = load(layout, u64(3))
    for row in range(lo, hi):
        at = row * n
        span = n
        if causal != i64(0):
            seen = min(n, first + row % rows + u64(1))
            span = min(n, (seen + u64(63)) // u64(64) * u64(64))
            for j in range(seen, span):
                scratch_store(x, at + j, T(-inf))
"""

_SOFTMAX = f"""def kernel(lo, hi, layout, x, log_sum):
{_HEAD}
        top = T(-inf)
        for j in range(span):
            top = fmax(top, scratch_load(x, at + j))
        base = select(top == T(-inf), T(0.0), top)
        total = T(0.0)
        for j in range(span):
            y = exp(scratch_load(x, at + j) - base)
            scratch_store(x, at + j, y)
            total = reassociable_add(total, y)
        scale = T(1.0) / select(total == T(0.0), T(1.0), total)
        for j in range(span):
            scratch_store(x, at + j, scratch_load(x, at + j) * scale)
        for j in range(span, n):
            scratch_store(x, at + j, T(0.0))
        store(log_sum, row, select(total == T(0.0), T(inf), base + T(log(total))))
"""

_PROBABILITIES = f"""def kernel(lo, hi, layout, x, log_sum):
{_HEAD}
        base = load(log_sum, row)
        for j in range(span):
            y = exp(scratch_load(x, at + j) - base)
            scratch_store(x, at + j, y)
        for j in range(span, n):
            scratch_store(x, at + j, T(0.0))
"""


def _scores(q: np.ndarray, k: np.ndarray, mask: np.ndarray | None, scale: float) -> np.ndarray:
    """Scores of a block; what the mask hides is -inf."""
    scores = np.matmul(q * scale, k.swapaxes(-1, -2))
    if mask is not None:
        if mask.dtype == bool:
            np.copyto(scores, scores.dtype.type(-np.inf), where=~mask)
        else:
            scores += mask
    return scores


def _hide_later(scores: np.ndarray, first: int) -> None:
    """-inf for the keys after each query."""
    hidden = np.arange(scores.shape[-1]) > np.arange(first, first + scores.shape[-2])[:, None]
    scores += np.where(hidden, scores.dtype.type(-np.inf), scores.dtype.type(0))


def _native(source: str, scores: np.ndarray, log_sum: np.ndarray, first: int, causal: bool) -> None:
    layout = (scores.shape[-1], scores.shape[-2], first, int(causal))
    native.over(native.compiled(source, "TT"), log_sum.size, scores.shape[-1], layout, scores, log_sum)


def _softmax(scores: np.ndarray, first: int, causal: bool) -> np.ndarray:
    """Turn scores into probabilities, in place; returns the log-sum of each row, inf where nothing is seen."""
    if native.worthwhile(scores):
        log_sum = np.empty((*scores.shape[:-1], 1), scores.dtype)
        _native(_SOFTMAX, scores, log_sum, first, causal)
        return log_sum
    if causal:
        _hide_later(scores, first)
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    np.copyto(top, 0, where=top == -np.inf)
    scores -= top
    np.exp(scores, out=scores)
    total = scores.sum(axis=-1, keepdims=True)
    empty = total == 0
    np.copyto(total, 1, where=empty)
    scores /= total
    top += np.log(total)
    np.copyto(top, np.inf, where=empty)
    return top


def _probabilities(scores: np.ndarray, log_sum: np.ndarray, first: int, causal: bool) -> None:
    """Turn scores into the probabilities that belong to their log-sums, in place."""
    if native.worthwhile(scores):
        _native(_PROBABILITIES, scores, np.ascontiguousarray(log_sum), first, causal)
        return
    if causal:
        _hide_later(scores, first)
    scores -= log_sum
    np.exp(scores, out=scores)


def _rows(mask: np.ndarray | None, lo: int, hi: int, first: int, last: int, keys: int) -> np.ndarray | None:
    """The part of a mask (of full shape, possibly with stride 0) that a block needs."""
    return None if mask is None else mask[lo:hi, ..., first:last, :keys]


def _empty(shape: tuple[int, ...], dtype: np.dtype, joined: bool) -> np.ndarray:
    """A result; `joined` lays out one with heads as `(N, rows, heads, features)`."""
    if len(shape) != 4 or not joined:
        return allocator.empty(shape, dtype)
    samples, heads, rows, features = shape
    return allocator.empty((samples, rows, heads, features), dtype).swapaxes(1, 2)


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, scale: float, causal: bool
) -> tuple[np.ndarray, np.ndarray]:
    """`softmax(q @ k.T * scale + mask) @ v` of arrays (N, *, rows, features), and the log-sum of each row (inf where
    all is masked)."""
    if prod(q.shape) * k.shape[-2] < FEW:
        scores = _scores(q, k, mask, scale)
        log_sum = _softmax(scores, 0, causal)
        return np.matmul(scores, v), log_sum
    out = _empty((*q.shape[:-1], v.shape[-1]), q.dtype, q.strides[-3] < q.strides[-2])
    log_sum = np.empty((*q.shape[:-1], 1), q.dtype)
    if flash.takes(q, k, v, mask):
        flash.attention(q, k, v, mask, scale, causal, out, log_sum)
        return out, log_sum
    step, rows = _plan(q, k)

    def body(lo: int, hi: int) -> None:
        for first in range(0, q.shape[-2], rows):
            last = min(q.shape[-2], first + rows)
            keys = min(last, k.shape[-2]) if causal else k.shape[-2]
            seen = _rows(mask, lo, hi, first, last, keys)
            p = _scores(q[lo:hi, ..., first:last, :], k[lo:hi, ..., :keys, :], seen, scale)
            log_sum[lo:hi, ..., first:last, :] = _softmax(p, first, causal)
            np.matmul(p, v[lo:hi, ..., :keys, :], out=out[lo:hi, ..., first:last, :])

    _run(body, q.shape[0], step, prod(q.shape[:-1]) * k.shape[-2] * q.itemsize)
    return out, log_sum


def _backward_of_few(grad, q, k, v, mask, out, log_sum, scale, causal):
    """`attention_backward` as a few loops over all of the scores."""
    p = _scores(q, k, mask, scale)
    _probabilities(p, log_sum, 0, causal)
    grad_v = np.matmul(p.swapaxes(-1, -2), grad)
    by_score = np.matmul(grad, v.swapaxes(-1, -2))
    by_score -= ((p * by_score) if out is None else (grad * out)).sum(axis=-1, keepdims=True)
    by_score *= p
    by_score *= scale
    return np.matmul(by_score, k), np.matmul(by_score.swapaxes(-1, -2), q), grad_v


def attention_backward(
    grad: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    mask: np.ndarray | None,
    out: np.ndarray | None,
    log_sum: np.ndarray,
    scale: float,
    causal: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of `attention` by q, k and v. Without `out` (rounded to a half type, say) the same sums come from the
    probabilities."""
    if prod(q.shape) * k.shape[-2] < FEW:
        return _backward_of_few(grad, q, k, v, mask, out, log_sum, scale, causal)
    grad_q, grad_k, grad_v = (_empty(x.shape, x.dtype, True) for x in (q, k, v))
    if out is not None and grad.dtype == q.dtype and flash.takes(q, k, v, mask) and grad.flags.aligned:
        grads = (grad_q, grad_k, grad_v)
        flash_backward.attention_backward(grad, q, k, v, mask, out, log_sum, scale, causal, grads)
        return grads
    grad_k[...] = grad_v[...] = 0
    step, rows = _plan(q, k)

    def body(lo: int, hi: int) -> None:
        for first in range(0, q.shape[-2], rows):
            last = min(q.shape[-2], first + rows)
            keys = min(last, k.shape[-2]) if causal else k.shape[-2]
            part = (slice(lo, hi), ..., slice(first, last), slice(None))
            seen = (slice(lo, hi), ..., slice(0, keys), slice(None))
            p = _scores(q[part], k[seen], _rows(mask, lo, hi, first, last, keys), scale)
            _probabilities(p, log_sum[part], first, causal)
            grad_v[seen] += np.matmul(p.swapaxes(-1, -2), grad[part])
            by_score = np.matmul(grad[part], v[seen].swapaxes(-1, -2))
            if out is None:
                along = np.einsum("...rk,...rk->...r", p, by_score)[..., None]
            else:
                along = np.einsum("...re,...re->...r", grad[part], out[part])[..., None]
            by_score -= along
            by_score *= p
            by_score *= q.dtype.type(scale)
            np.matmul(by_score, k[seen], out=grad_q[part])
            grad_k[seen] += np.matmul(by_score.swapaxes(-1, -2), q[part])

    _run(body, q.shape[0], step, prod(q.shape[:-1]) * k.shape[-2] * q.itemsize)
    return grad_q, grad_k, grad_v
