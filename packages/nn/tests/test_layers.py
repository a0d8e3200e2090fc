"""Layers: shapes, starting values, and behaviour in training and evaluation."""

from __future__ import annotations

import math

import pytest

import rushlight
from rushlight import nn
from rushlight.nn import functional as F


def test_linear_starts_within_its_bound():
    layer = nn.Linear(16, 400)
    assert layer.weight.abs().max().item() <= 1 / math.sqrt(16) and layer.weight.std().item() == pytest.approx(
        0.25 / math.sqrt(3), rel=0.05
    )


def test_convolution_with_same_padding_keeps_the_size():
    assert nn.Conv2d(2, 3, 5, padding="same")(rushlight.zeros(1, 2, 7, 6)).shape == (1, 3, 7, 6)
    assert nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular")(rushlight.zeros(1, 2, 7)).shape == (1, 3, 7)
    with pytest.raises(ValueError, match="divisible"):
        nn.Conv2d(3, 4, 1, groups=2)


def test_transposed_convolution_undoes_the_shape():
    x = rushlight.zeros(1, 2, 9)
    y = nn.Conv1d(2, 3, 3, stride=2)(x)
    assert nn.ConvTranspose1d(3, 2, 3, stride=2)(y, output_size=(9,)).shape == x.shape


def test_batch_norm_learns_statistics_in_training_only():
    norm = nn.BatchNorm1d(2, momentum=0.5)
    x = rushlight.tensor([[1.0, 10.0], [3.0, 30.0]])
    y = norm(x)
    assert y.mean(0).abs().max().item() < 1e-5
    assert rushlight.allclose(norm.running_mean, rushlight.tensor([1.0, 10.0])) and norm.num_batches_tracked.item() == 1
    norm.eval()
    norm(x)
    assert norm.num_batches_tracked.item() == 1
    with pytest.raises(ValueError, match="2D or 3D"):
        norm(rushlight.zeros(1, 2, 3, 4))


def test_dropout_keeps_the_mean_and_rests_in_evaluation():
    layer, x = nn.Dropout(0.25), rushlight.ones(10_000)
    dropped = layer(x)
    assert dropped.mean().item() == pytest.approx(1, abs=0.05)
    assert dropped.unique().tolist() == pytest.approx([0, 4 / 3])
    assert rushlight.equal(layer.eval()(x), x)
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.Dropout(2)


def test_embedding_gives_no_gradient_to_the_padding_row():
    table = nn.Embedding(4, 2, padding_idx=0)
    assert table.weight[0].tolist() == [0, 0]
    table(rushlight.tensor([0, 1, 1])).sum().backward()
    assert table.weight.grad.tolist() == [[0, 0], [2, 2], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    "layer, text",
    [
        (nn.Conv2d(1, 2, 3, padding=1), "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))"),
        (nn.MaxPool2d(2), "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"),
        (nn.Dropout(0.1), "Dropout(p=0.1, inplace=False)"),
        (nn.LayerNorm(4), "LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)"),
        (nn.GELU("tanh"), "GELU(approximate='tanh')"),
        (nn.Softmax(dim=1), "Softmax(dim=1)"),
        (nn.Embedding(3, 4, padding_idx=-1), "Embedding(3, 4, padding_idx=2)"),
    ],
)
def test_layers_print_as_users_know_them(layer, text):
    assert repr(layer) == text


@pytest.mark.parametrize("reduction, shape", [("none", (3,)), ("mean", ()), ("sum", ())])
def test_losses_reduce(reduction, shape):
    logits, target = rushlight.randn(3, 5), rushlight.tensor([0, 1, 4])
    assert nn.CrossEntropyLoss(reduction=reduction)(logits, target).shape == shape
    assert nn.NLLLoss(reduction=reduction)(F.log_softmax(logits, 1), target).shape == shape


def test_older_reduction_flags_still_work():
    assert nn.MSELoss(size_average=False).reduction == "sum" and nn.MSELoss(reduce=False).reduction == "none"


def test_functional_tells_what_it_has_not():
    with pytest.raises(AttributeError, match="no_such_function"):
        F.no_such_function  # noqa: B018
