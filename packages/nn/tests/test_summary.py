"""The table that `summary` makes of a model."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight
from rushlight import nn
from rushlight.nn.utils import summary


class Net(nn.Module):
    """Branches, a module under two names that runs twice, a tied weight, a lazy layer, buffers and dropout."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.body = nn.Sequential(nn.Flatten(), nn.LazyLinear(6), nn.Dropout(0.5))
        self.first = nn.Linear(6, 6)
        self.second = self.first
        self.third = nn.Linear(6, 6)
        self.third.weight = self.first.weight

    def forward(self, x):
        x = self.body(self.norm(self.conv(x)))
        return {"out": self.third(self.second(self.first(x)) @ rushlight.ones(6, 6))}


def by_name(found):
    return {row.name: row for row in found.rows}


def test_counts_of_nested_shared_and_lazy_layers():
    found = summary(Net(), (2, 1, 5, 5))
    rows = by_name(found)
    assert rows["conv"].multiply_adds == 2 * 4 * 25 * 9 and rows["conv"].outputs == [(2, 4, 5, 5)]
    assert rows["body.1"].multiply_adds == 2 * 100 * 6 == rows["body"].multiply_adds
    assert rows["first"].calls == 2 and rows["first"].multiply_adds == 2 * 2 * 36
    assert rows["second"].shared_with == "first"
    assert found.multiply_adds == 1800 + 1200 + 144 + 72 + 72  # the last: a product of the model's own
    assert found.parameters == (36 + 4) + 8 + (600 + 6) + (36 + 6) + 6
    assert found.input_bytes == 200 and found.state_bytes == 4 * found.parameters + 4 * 8 + 8
    assert "(is first)" in str(found) and "2 calls" in str(found)


def test_leaves_everything_as_it_was():
    net = Net()
    net(rushlight.ones(1, 1, 5, 5))
    net.body.eval()
    net.conv.register_forward_hook(lambda module, args, output: None)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    modes = [module.training for module in net.modules()]
    hooks = [[len(m._forward_hooks), len(m._forward_pre_hooks)] for m in net.modules()]
    random = rushlight.get_rng_state()
    summary(net, rushlight.ones(2, 1, 5, 5))
    assert all(rushlight.equal(value, before[name]) for name, value in net.state_dict().items())
    assert modes == [module.training for module in net.modules()]
    assert hooks == [[len(m._forward_hooks), len(m._forward_pre_hooks)] for m in net.modules()]
    assert rushlight.equal(random, rushlight.get_rng_state())
    lazy = nn.Sequential(nn.LazyLinear(2))
    assert "Linear" in str(summary(lazy, (1, 3))) and lazy[0].has_uninitialized_params()


def test_an_error_in_the_model_leaves_no_hooks():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(3, 3))
    with pytest.raises(RuntimeError):
        summary(net, (1, 2))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules()) and net.training


def test_attention_and_recurrence_count_their_products():
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x = rushlight.ones(2, 5, 8)
    projections, scores = 4 * 2 * 5 * 8 * 8, 2 * 2 * 5 * 5 * 8
    for weights in (False, True):
        found = summary(attention, {"query": x, "key": x, "value": x, "need_weights": weights})
        assert found.multiply_adds == projections + scores
    lstm = nn.LSTM(3, 4, num_layers=2)
    assert summary(lstm, (5, 2, 3)).multiply_adds == 5 * 2 * (16 * (3 + 4) + 16 * (4 + 4))
    transposed = nn.ConvTranspose2d(2, 3, 2, stride=2)
    assert summary(transposed, (1, 2, 4, 4)).multiply_adds == 16 * 2 * 3 * 4


def test_a_list_that_is_not_called_has_the_products_of_its_modules():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 3)
    rows = by_name(summary(encoder, (2, 5, 8)))
    assert rows["layers"].outputs == [] and rows["layers"].multiply_adds == 3 * rows["layers.0"].multiply_adds
    assert rows[""].multiply_adds == rows["layers"].multiply_adds > 0


def test_several_arguments_and_sizes():
    net = nn.Bilinear(2, 3, 4)
    found = summary(net, (rushlight.ones(5, 2), rushlight.ones(5, 3)))
    assert found.rows[0].outputs == [(5, 4)] and found.multiply_adds == 5 * 2 * 12 + 5 * 4 * 3
    assert found.trainable_parameters == 28
    net.requires_grad_(False)
    assert summary(net, [rushlight.ones(5, 2), rushlight.ones(5, 3)]).trainable_parameters == 0
    assert np.prod(summary(nn.Identity(), (1, 2)).rows[0].outputs[0]) == 2
