"""Lazy layers: sizes from the first input, or from a state."""

from __future__ import annotations

import copy

import pytest

import rushlight
from rushlight import nn


@pytest.mark.parametrize(
    "lazy, shape, plain",
    [
        (lambda: nn.LazyLinear(4), (2, 3), nn.Linear),
        (lambda: nn.LazyConv2d(4, 3, groups=2), (1, 2, 5, 5), nn.Conv2d),
        (lambda: nn.LazyConvTranspose1d(4, 3), (2, 5), nn.ConvTranspose1d),
        (lambda: nn.LazyBatchNorm1d(), (2, 3), nn.BatchNorm1d),
        (lambda: nn.LazyInstanceNorm1d(), (3, 4), nn.InstanceNorm1d),
    ],
)
def test_the_first_input_makes_an_ordinary_layer(lazy, shape, plain):
    layer = lazy()
    assert layer.has_uninitialized_params()
    layer(rushlight.randn(shape))
    assert type(layer) is plain and all(type(p) is nn.Parameter for p in layer.parameters())
    assert not layer._forward_pre_hooks and all(rushlight.isfinite(p).all() for p in layer.parameters())


def test_a_lazy_parameter_has_no_shape():
    with pytest.raises(RuntimeError, match="no shape yet"):
        nn.LazyLinear(2).weight.shape  # noqa: B018
    assert repr(nn.LazyLinear(2).weight) == "<UninitializedParameter>"


def test_a_state_gives_the_shapes_too():
    source, lazy = nn.Linear(3, 2), nn.LazyLinear(2)
    lazy.load_state_dict(source.state_dict())
    assert rushlight.equal(lazy.weight, source.weight)
    again = nn.LazyLinear(2)
    again.load_state_dict(nn.LazyLinear(2).state_dict())
    assert again.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="uninitialized"):
        lazy.load_state_dict(nn.LazyLinear(2).state_dict())


def test_a_copy_initialises_by_itself():
    layer = nn.LazyLinear(2)
    copied = copy.deepcopy(layer)
    copied(rushlight.zeros(1, 3))
    assert layer.has_uninitialized_params() and copied.in_features == 3


def test_groups_must_fit_the_first_input():
    with pytest.raises(ValueError, match="divisible"):
        nn.LazyConv1d(4, 1, groups=2)(rushlight.zeros(1, 3, 4))
    with pytest.raises(RuntimeError, match="2D or 3D"):
        nn.LazyConv1d(4, 1)(rushlight.zeros(3))


def test_lazy_layers_move_before_they_are_initialised():
    layer = nn.LazyBatchNorm1d().double()
    layer(rushlight.randn(2, 3, dtype=rushlight.float64))
    assert layer.running_mean.dtype is layer.weight.dtype is rushlight.float64 and layer.weight.shape == (3,)
