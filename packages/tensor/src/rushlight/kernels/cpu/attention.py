"""Scaled dot-product attention on numpy arrays, in blocks whose scores stay in the cache.

Scores and probabilities are never all in memory: the forward pass keeps one number per query (the logarithm of the sum of exponentials),
from which the backward pass makes the probabilities of a block again. Blocks of different samples run on different threads.
"""

from __future__ import annotations

from math import prod

import numpy as np

from rushlight.kernels.cpu import allocator
from rushlight.kernels.cpu.pool import get_num_threads, parallel_for

BLOCK_BYTES = 1 << 19  # scores of a block
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


def _scores(q: np.ndarray, k: np.ndarray, mask: np.ndarray | None, scale: float, first: int, causal: bool) -> np.ndarray:
    """Scores of query rows from `first` on with the given keys; what is masked is -inf."""
    scores = np.matmul(q * q.dtype.type(scale), k.swapaxes(-1, -2))
    if causal:
        hidden = np.arange(k.shape[-2]) > np.arange(first, first + q.shape[-2])[:, None]
        scores += np.where(hidden, scores.dtype.type(-np.inf), scores.dtype.type(0))
    if mask is not None:
        if mask.dtype == bool:
            np.copyto(scores, scores.dtype.type(-np.inf), where=~mask)
        else:
            scores += mask
    return scores


def _rows(mask: np.ndarray | None, lo: int, hi: int, first: int, last: int, keys: int) -> np.ndarray | None:
    """The part of a mask (of full shape, possibly with stride 0) that a block needs."""
    return None if mask is None else mask[lo:hi, ..., first:last, :keys]


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, scale: float,
              causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """`softmax(q @ k.T * scale + mask) @ v` of arrays (N, *, rows, features), and the log-sum of each row (inf where all is masked)."""
    out = allocator.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    log_sum = np.empty((*q.shape[:-1], 1), q.dtype)
    step, rows = _plan(q, k)

    def body(lo: int, hi: int) -> None:
        for first in range(0, q.shape[-2], rows):
            last = min(q.shape[-2], first + rows)
            keys = min(last, k.shape[-2]) if causal else k.shape[-2]
            p = _scores(q[lo:hi, ..., first:last, :], k[lo:hi, ..., :keys, :], _rows(mask, lo, hi, first, last, keys), scale, first, causal)
            top = p.max(axis=-1, keepdims=True, initial=-np.inf)
            top[np.isneginf(top)] = 0
            p -= top
            np.exp(p, out=p)
            total = p.sum(axis=-1, keepdims=True)
            empty = total == 0
            total[empty] = 1
            p /= total
            np.matmul(p, v[lo:hi, ..., :keys, :], out=out[lo:hi, ..., first:last, :])
            top += np.log(total)
            top[empty] = np.inf
            log_sum[lo:hi, ..., first:last, :] = top

    _run(body, q.shape[0], step, prod(q.shape[:-1]) * k.shape[-2] * q.itemsize)
    return out, log_sum


def attention_backward(grad: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, out: np.ndarray,
                       log_sum: np.ndarray, scale: float, causal: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of `attention` by q, k and v."""
    grad_q = allocator.empty(q.shape, q.dtype)
    grad_k, grad_v = np.zeros(k.shape, k.dtype), np.zeros(v.shape, v.dtype)
    step, rows = _plan(q, k)

    def body(lo: int, hi: int) -> None:
        for first in range(0, q.shape[-2], rows):
            last = min(q.shape[-2], first + rows)
            keys = min(last, k.shape[-2]) if causal else k.shape[-2]
            part = (slice(lo, hi), ..., slice(first, last), slice(None))
            seen = (slice(lo, hi), ..., slice(0, keys), slice(None))
            p = _scores(q[part], k[seen], _rows(mask, lo, hi, first, last, keys), scale, first, causal)
            p -= log_sum[part]
            np.exp(p, out=p)
            grad_v[seen] += np.matmul(p.swapaxes(-1, -2), grad[part])
            along = np.einsum("...re,...re->...r", grad[part], out[part])[..., None]
            by_score = np.matmul(grad[part], v[seen].swapaxes(-1, -2))
            by_score -= along
            by_score *= p
            by_score *= q.dtype.type(scale)
            np.matmul(by_score, k[seen], out=grad_q[part])
            grad_k[seen] += np.matmul(by_score.swapaxes(-1, -2), q[part])

    _run(body, q.shape[0], step, prod(q.shape[:-1]) * k.shape[-2] * q.itemsize)
    return grad_q, grad_k, grad_v
