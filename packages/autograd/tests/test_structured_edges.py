"""Gradients at the points where a formula must choose: exactly 0, equal values, edges."""

from __future__ import annotations

import pytest

import rushlight
from rushlight.core.front import EXPORTS


def gradient(function, *values, at: int = 0):
    tensors = [rushlight.tensor(v, dtype=rushlight.float64, requires_grad=True) for v in values]
    function(*tensors).sum().backward()
    return tensors[at].grad.tolist()


def test_bce_with_logits_at_zero():
    """Written with clamps, the slope at exactly 0 would be that of one side."""
    target = rushlight.tensor([0.0, 1.0], dtype=rushlight.float64)
    loss = EXPORTS["nn.functional.binary_cross_entropy_with_logits"]
    assert gradient(lambda x: loss(x, target, reduction="sum"), [0.0, 0.0]) == [0.5, -0.5]


@pytest.mark.parametrize("order", [1.0, 1.5, 2.0, 3.5, float("inf")])
def test_norm_at_zero_has_gradient_zero(order):
    assert gradient(lambda x: rushlight.linalg.vector_norm(x, order), [0.0, 0.0]) == [0.0, 0.0]


def test_largest_of_equal_values_share_the_gradient_of_the_infinity_norm():
    assert gradient(lambda x: rushlight.linalg.vector_norm(x, float("inf")), [2.0, -2.0, 1.0]) == [0.5, -0.5, 0.0]


def test_cdist_of_equal_rows_has_gradient_zero():
    assert gradient(lambda a, b: rushlight.cdist(a, b), [[1.0, 2.0]], [[1.0, 2.0]]) == [[0.0, 0.0]]


def test_max_pool_gives_ties_to_the_first():
    pool = EXPORTS["nn.functional.max_pool2d"]
    assert gradient(lambda x: pool(x, 2), [[[[3.0, 3.0], [3.0, 1.0]]]]) == [[[[1.0, 0.0], [0.0, 0.0]]]]


def test_determinant_of_a_singular_matrix():
    """The adjugate: no inverse is needed."""
    got = gradient(rushlight.linalg.det, [[1.0, 2.0], [2.0, 4.0]])
    assert [[round(v, 10) for v in row] for row in got] == [[4.0, -2.0], [-2.0, 1.0]]


def test_moving_a_sample_beyond_the_border_changes_nothing():
    image = rushlight.tensor([[[[1.0, 2.0], [3.0, 5.0]]]], dtype=rushlight.float64)
    sample = EXPORTS["nn.functional.grid_sample"]
    got = gradient(lambda g: sample(image, g, padding_mode="border", align_corners=True), [[[[1.0, 0.0]]]])
    assert got[0][0][0][0] == 0.0 and got[0][0][0][1] != 0.0


def test_attention_rows_that_see_nothing_pass_no_gradient():
    attention = EXPORTS["nn.functional.scaled_dot_product_attention"]
    mask = rushlight.tensor([[True], [False]])
    got = gradient(lambda q, k, v: attention(q, k, v, mask), [[1.0], [2.0]], [[1.0]], [[1.0]], at=2)
    assert got == [[1.0]]
