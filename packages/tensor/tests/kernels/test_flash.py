"""Attention in one native call gives what the definition gives in float64, forward and backward."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.kernels.cpu import flash, pool
from rushlight.kernels.cpu.attention import attention, attention_backward

RNG = np.random.default_rng(0)
# (heads, queries, keys, features, features of values): several blocks, odd sizes, fewer keys than queries
SHAPES = [(3, 150, 300, 16, 24), (2, 290, 70, 33, 7), (5, 64, 64, 64, 64)]


def definition(q, k, v, hidden, added, scale, grad):
    """Result and gradients in float64."""
    q, k, v, grad = (x.astype(np.float64) for x in (q, k, v, grad))
    scores = np.where(hidden, -np.inf, q @ k.swapaxes(-1, -2) * scale + added)
    top = scores.max(-1, keepdims=True)
    p = np.exp(scores - np.where(np.isneginf(top), 0, top))
    p /= np.maximum(p.sum(-1, keepdims=True), 1e-300)
    out = p @ v
    by_score = p * (grad @ v.swapaxes(-1, -2) - (grad * out).sum(-1, keepdims=True)) * scale
    return out, by_score @ k, by_score.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ grad


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["", "causal", "bool", "float"])
def test_blocks_give_what_the_definition_gives(shape, kind):
    heads, queries, keys, features, width = shape
    q, k, v, grad = (
        RNG.standard_normal((heads, rows, size), np.float32)
        for rows, size in ((queries, features), (keys, features), (keys, width), (queries, width))
    )
    k = np.asfortranarray(k)
    hidden, added, mask = np.zeros((queries, keys), bool), np.zeros((queries, keys)), None
    if kind == "causal":
        hidden = ~np.tri(queries, keys, dtype=bool)
    elif kind:
        hidden = RNG.random((queries, keys)) > 0.5
        hidden[3] = True
        added = RNG.standard_normal((queries, keys)) * (kind == "float")
        mask = ~hidden if kind == "bool" else np.where(hidden, -np.inf, added).astype(np.float32)
        mask = np.broadcast_to(mask, (heads, queries, keys))
    assert flash.takes(q, k, v, mask)
    results = []
    for threads in (1, 2):
        before = pool.get_num_threads()
        pool.set_num_threads(threads)
        try:
            out, log_sum = attention(q, k, v, mask, 0.3, kind == "causal")
            results.append((out, *attention_backward(grad, q, k, v, mask, out, log_sum, 0.3, kind == "causal")))
        finally:
            pool.set_num_threads(before)
    for one, two, expected in zip(*results, definition(q, k, v, hidden, added, 0.3, grad), strict=True):
        assert np.array_equal(one, two), "sums must not depend on the number of threads"
        np.testing.assert_allclose(one, expected, rtol=1e-4, atol=2e-5)
    if mask is not None:
        assert not results[0][0][:, 3].any() and not results[0][1][:, 3].any(), "a query that sees nothing gets zeros"


def test_heads_lie_ready_to_be_joined():
    joined = RNG.standard_normal((2, 150, 3, 16), np.float32)
    apart = joined.swapaxes(1, 2)
    out, log_sum = attention(apart, apart, apart, None, 0.3, True)
    plain, plain_sum = attention(*[np.ascontiguousarray(apart)] * 3, None, 0.3, True)
    assert out.swapaxes(1, 2).flags.c_contiguous and plain.flags.c_contiguous
    assert np.array_equal(out, plain)
    grads = attention_backward(out, apart, apart, apart, None, out, log_sum, 0.3, True)
    assert all(grad.swapaxes(1, 2).flags.c_contiguous for grad in grads)
    again = attention_backward(plain, *[np.ascontiguousarray(apart)] * 3, None, plain, plain_sum, 0.3, True)
    assert all(map(np.array_equal, grads, again))
