"""Helpers of nn.utils: parametrizations, norms, pruning, fusion, clipping."""

from __future__ import annotations

import copy

import pytest

import rushlight
from rushlight import nn
from rushlight.nn.utils import parametrizations, parametrize, prune


class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x

    def right_inverse(self, x):
        return x / 2


def test_parametrized_weight_is_computed_saved_and_assigned():
    layer = nn.Linear(2, 3)
    before = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert rushlight.allclose(layer.weight, before) and parametrize.is_parametrized(layer, "weight")
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    layer.weight = rushlight.ones(3, 2)
    assert layer.parametrizations.weight.original[0, 0].item() == 0.5
    layer(rushlight.ones(1, 2)).sum().backward()
    assert layer.parametrizations.weight.original.grad[0, 0].item() == 2


def test_parametrizations_stack_and_come_off():
    layer = nn.Linear(2, 2)
    before = layer.weight.detach().clone()
    for _ in range(2):
        parametrize.register_parametrization(layer, "weight", Doubled())
    assert rushlight.allclose(layer.weight, before)
    copied = copy.deepcopy(layer)
    copied.weight = rushlight.zeros(2, 2)
    assert rushlight.allclose(layer.weight, before)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and isinstance(layer.weight, nn.Parameter)
    assert rushlight.allclose(layer.weight, before) and type(copied) is not nn.Linear


def test_cached_blocks_compute_once():
    calls = []

    class Counted(nn.Module):
        def forward(self, x):
            calls.append(1)
            return x * 1

    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Counted())
    calls.clear()
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert len(calls) == 1 and layer.weight is not layer.weight


def test_a_parametrization_may_not_change_the_shape():
    class Flat(nn.Module):
        def forward(self, x):
            return x.flatten()

    layer = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="dtype or shape"):
        parametrize.register_parametrization(layer, "weight", Flat())
    assert type(layer) is nn.Linear and "weight" in dict(layer.named_parameters())
    with pytest.raises(ValueError, match="does not have a parameter"):
        parametrize.register_parametrization(layer, "other", Doubled())


@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_orthogonal_weights_stay_orthogonal(orthogonal_map, shape):
    layer = parametrizations.orthogonal(nn.Linear(*shape), orthogonal_map=orthogonal_map)
    optimizer = rushlight.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(2):
        layer(rushlight.randn(2, shape[0])).square().sum().backward()
        optimizer.step()
    w = layer.weight if layer.weight.shape[0] >= layer.weight.shape[1] else layer.weight.T
    assert rushlight.allclose(w.T @ w, rushlight.eye(w.shape[1]), atol=1e-4)


def test_assigning_an_orthogonal_weight_keeps_it():
    layer = parametrizations.orthogonal(nn.Linear(4, 3), use_trivialization=False)
    q, _ = rushlight.linalg.qr(rushlight.randn(4, 3))
    layer.weight = q.T
    assert rushlight.allclose(layer.weight, q.T, atol=1e-5)


def test_spectral_norm_has_largest_singular_value_one():
    for normed in (parametrizations.spectral_norm, nn.utils.spectral_norm):
        layer = normed(nn.Conv2d(2, 3, 3), n_power_iterations=50)
        layer(rushlight.randn(1, 2, 5, 5))
        largest = rushlight.linalg.matrix_norm(layer.weight.detach().flatten(1), 2).item()
        assert largest == pytest.approx(1, abs=1e-3)
    nn.utils.remove_spectral_norm(layer)
    assert isinstance(layer.weight, nn.Parameter) and list(layer.state_dict()) == ["bias", "weight"]


def test_weight_norm_keeps_the_weight_and_reads_older_states():
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    with pytest.warns(FutureWarning, match="parametrizations"):
        old = nn.utils.weight_norm(copy.deepcopy(layer))
    assert rushlight.allclose(old.weight, before) and set(old.state_dict()) == {"bias", "weight_g", "weight_v"}
    new = parametrizations.weight_norm(nn.Linear(3, 2))
    new.load_state_dict(old.state_dict())
    assert rushlight.allclose(new.weight, before)
    nn.utils.remove_weight_norm(old)
    assert rushlight.allclose(old.weight, before) and isinstance(old.weight, nn.Parameter)


def test_pruning_narrows_the_mask():
    layer = nn.Linear(10, 4)
    prune.l1_unstructured(layer, "weight", amount=10)
    kept = layer.weight.detach().abs()
    assert (kept == 0).sum() == 10 and layer.weight_orig.abs()[kept == 0].max() <= kept[kept > 0].min()
    prune.ln_structured(layer, "weight", amount=0.5, n=2, dim=0)
    assert (layer.weight.abs().sum(1) == 0).sum() == 2
    layer(rushlight.ones(1, 10)).sum().backward()
    assert (layer.weight_orig.grad[layer.weight_mask == 0] == 0).all() and prune.is_pruned(layer)
    prune.remove(layer, "weight")
    assert (layer.weight == 0).sum() >= 20 and isinstance(layer.weight, nn.Parameter) and not prune.is_pruned(layer)


def test_global_pruning_takes_the_smallest_of_all():
    small, large = nn.Linear(4, 4), nn.Linear(4, 4)
    nn.init.constant_(small.weight, 0.1)
    nn.init.constant_(large.weight, 1.0)
    prune.global_unstructured([(small, "weight"), (large, "weight")], prune.L1Unstructured, amount=16)
    assert (small.weight == 0).all() and (large.weight == 1).all()


@pytest.mark.parametrize("amount, error", [(1.5, ValueError), (-1, ValueError), ("all", TypeError), (1000, ValueError)])
def test_pruning_refuses_impossible_amounts(amount, error):
    with pytest.raises(error, match="amount"):
        prune.random_unstructured(nn.Linear(2, 2), "weight", amount)


def test_fused_layers_compute_the_same():
    x = rushlight.randn(2, 3, 6, 6)
    for layer in (nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(3, 4, 3, bias=False)):
        norm = nn.BatchNorm2d(4)
        norm(layer(x))
        layer.eval(), norm.eval()
        fused = nn.utils.fuse_conv_bn_eval(layer, norm, transpose=isinstance(layer, nn.ConvTranspose2d))
        assert rushlight.allclose(fused(x), norm(layer(x)), atol=1e-5)
    with pytest.raises(AssertionError, match="eval"):
        nn.utils.fuse_conv_bn_eval(nn.Conv2d(3, 4, 3), norm)


@pytest.mark.parametrize("layout", ["native loops", "operations"])
def test_clipping_many_gradients_takes_their_common_norm(layout):
    grads = [rushlight.randn(300, 300), rushlight.randn(300, 300), rushlight.randn(7)]
    if layout == "operations":
        grads[1] = grads[1].t()
    params = [nn.Parameter(rushlight.zeros(g.shape)) for g in grads]
    for p, g in zip(params, grads):
        p.grad = g.clone(memory_format=rushlight.preserve_format)
    expected = rushlight.cat([g.flatten() for g in grads]).double().norm().item()
    total = nn.utils.clip_grad_norm_(params, 2.0)
    assert total.item() == pytest.approx(expected, rel=1e-5)
    assert rushlight.allclose(params[1].grad, grads[1] * (2.0 / expected), atol=1e-7)
    assert nn.utils.clip_grad_norm_(params, 2.0).item() == pytest.approx(2, rel=1e-4)
