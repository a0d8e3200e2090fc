"""Functions of nn.functional that this package makes of others."""

from __future__ import annotations

import pytest

import rushlight
from rushlight import nn
from rushlight.nn import functional as F


def test_gumbel_softmax_chooses_with_a_gradient():
    logits = rushlight.zeros(5000, 3, requires_grad=True)
    with rushlight.no_grad():
        logits[:, 0] += 1
    chosen = F.gumbel_softmax(logits, hard=True)
    assert chosen.sum(1).allclose(rushlight.ones(5000)) and set(chosen.detach().round().unique().tolist()) == {0.0, 1.0}
    wanted = logits.detach()[0].softmax(0)
    assert rushlight.allclose(chosen.detach().mean(0), wanted, atol=0.05)
    (chosen * rushlight.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert logits.grad.abs().sum() > 0


def test_rrelu_draws_slopes_in_training_and_takes_the_mean_after():
    x = -rushlight.ones(1000)
    drawn = F.rrelu(x, 0.25, 0.5, training=True)
    assert -0.5 <= drawn.min().item() < drawn.max().item() <= -0.25
    assert F.rrelu(x, 0.25, 0.5).unique().tolist() == [-0.375]
    assert F.rrelu_(x) is x and x[0].item() < 0
    with pytest.raises(RuntimeError, match="lower bound"):
        F.rrelu(x, 0.5, 0.25)


def test_linear_cross_entropy_is_cross_entropy_of_linear():
    layer = nn.LinearCrossEntropyLoss(3, 4, out_features=(2,), bias=True)
    x, target = rushlight.randn(5, 3), rushlight.randint(0, 4, (5, 2))
    scores = layer.linear(x).reshape(5, 4, 2)
    assert rushlight.allclose(layer(x, target), F.cross_entropy(scores, target))
    with pytest.raises(RuntimeError, match="in_features"):
        layer(rushlight.randn(5, 4), target)
    with pytest.raises(ValueError, match="batch_size"):
        layer(x, target[:4])


def test_grouped_products():
    a, b, ends = rushlight.randn(6, 4), rushlight.randn(2, 4, 3), rushlight.tensor([2, 6])
    assert rushlight.allclose(F.grouped_mm(a, b, offs=ends), rushlight.cat((a[:2] @ b[0], a[2:] @ b[1])))
    assert F.grouped_mm(rushlight.randn(2, 5, 6), rushlight.randn(6, 7), offs=rushlight.tensor([3, 7])).shape == (5, 7)
    assert F.grouped_mm(rushlight.randn(5, 6), rushlight.randn(6, 7), offs=ends).shape == (2, 5, 7)
    with pytest.raises(RuntimeError, match="offs"):
        F.grouped_mm(a, b)
