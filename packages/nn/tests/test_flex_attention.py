"""Attention with scores and masks given by functions."""

from __future__ import annotations

import math

import pytest

import rushlight
from rushlight.nn import functional as F
from rushlight.nn.attention.bias import causal_lower_right, causal_upper_left
from rushlight.nn.attention.flex_attention import and_masks, create_block_mask, create_mask, flex_attention, or_masks


def causal(b, h, q, k):
    return q >= k


def near(b, h, q, k):
    return q - k < 3


def operands(heads=4, keys=6):
    rushlight.manual_seed(0)
    return rushlight.randn(2, 4, 6, 8), rushlight.randn(2, heads, keys, 8), rushlight.randn(2, heads, keys, 5)


@pytest.mark.parametrize("mask", [causal, and_masks(causal, near), or_masks(causal, near)])
def test_masks_by_functions_are_masks_by_tensors(mask):
    q, k, v = operands()
    found = flex_attention(q, k, v, block_mask=create_block_mask(mask, None, None, 6, 6))
    assert rushlight.allclose(found, F.scaled_dot_product_attention(q, k, v, create_mask(mask, 1, 1, 6, 6)), atol=1e-6)


def test_scores_by_functions_are_added_tensors_and_have_gradients():
    q, k, v = operands()
    table = rushlight.randn(4, 11, requires_grad=True)

    def relative(score, b, h, i, j):
        return score + table[h, i - j + 5]

    found, lse = flex_attention(q, k, v, relative, scale=0.3, return_lse=True)
    places = rushlight.arange(6)
    bias = table[:, places.view(6, 1) - places + 5]
    expected = F.scaled_dot_product_attention(q, k, v, bias, scale=0.3)
    assert rushlight.allclose(found, expected, atol=1e-6)
    assert rushlight.allclose(lse, (q @ k.mT * 0.3 + bias).logsumexp(-1), atol=1e-6)
    slopes = [rushlight.autograd.grad(y.square().sum(), table)[0] for y in (found, expected)]
    assert rushlight.allclose(*slopes, atol=1e-5)


def test_heads_share_keys():
    q, k, v = operands(heads=2)
    found = flex_attention(q, k, v, enable_gqa=True)
    assert rushlight.allclose(found, F.scaled_dot_product_attention(q, k, v, enable_gqa=True), atol=1e-6)
    with pytest.raises(ValueError, match="enable_gqa"):
        flex_attention(q, k, v)


def test_a_query_that_sees_nothing_gives_zeros():
    q, k, v = operands()
    q.requires_grad_()
    mask = create_block_mask(lambda b, h, i, j: (i > 2) & (j < 4), 2, 4, 6, 6, BLOCK_SIZE=2)
    found = flex_attention(q, k, v, block_mask=mask)
    assert not found[:, :, :3].any() and bool(found[:, :, 3:].all())
    found.sum().backward()
    assert bool(q.grad.isfinite().all())
    assert mask.to_dense()[0, 0].tolist() == [[0, 0, 0], [1, 1, 0], [1, 1, 0]]
    assert mask.sparsity() == pytest.approx(500 / 9) and "sparsity=55.56%" in repr(mask)
    with pytest.raises(ValueError, match="block_mask was made for"):
        flex_attention(q, k[:, :, :5], v[:, :, :5], block_mask=mask)
    with pytest.raises(ValueError, match="4-D"):
        flex_attention(q[0], k[0], v[0])


def test_causal_masks_of_different_lengths():
    for length, keys in ((2, 4), (4, 2), (3, 3)):
        upper, lower = causal_upper_left(length, keys), causal_lower_right(length, keys)
        assert all(upper[i, j].item() == (j <= i) for i in range(length) for j in range(keys))
        assert all(lower[i, j].item() == (j <= i + keys - length) for i in range(length) for j in range(keys))
    assert math.isfinite(F.scaled_dot_product_attention(*operands(keys=9), causal_lower_right(6, 9)).sum().item())
    with pytest.raises(RuntimeError, match="two sizes"):
        causal_upper_left(3)
