"""Modules inside `func.vmap`: gradients per sample, and several models at once, against one after the other."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight
from rushlight import nn
from rushlight.func import fallbacks, functional_call, grad, hessian, jacfwd, jacrev, stack_module_state, vmap


class Small(nn.Module):
    """A convolutional net with normalization and pooling."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.second = nn.Conv2d(4, 4, 3, stride=2, groups=2)
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        x = nn.functional.max_pool2d(nn.functional.relu(self.norm(self.first(x))), 2)
        x = nn.functional.adaptive_avg_pool2d(nn.functional.gelu(self.second(x)), 1)
        return self.out(x.flatten(1))


def block():
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)), (4, 5)),
    "cnn": (Small, (4, 2, 10, 10)),
    "transformer block": (block, (4, 6, 8)),
    "embedding": (lambda: nn.Sequential(nn.Embedding(10, 6), nn.LayerNorm(6), nn.Flatten(), nn.Linear(18, 3)), None),
    "recurrent": (lambda: nn.GRU(5, 4, batch_first=True), (4, 6, 5)),
    "batch norm": (lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4, track_running_stats=False)), (4, 6, 5)),
}


def made(name):
    rushlight.manual_seed(0)
    build, shape = MODELS[name]
    model = build()
    x = rushlight.randint(0, 10, (4, 3)) if shape is None else rushlight.randn(*shape)
    return model, x


def loss_of(model):
    def loss(params, x):
        y = functional_call(model, params, (x if name_is_batched(model) else x.unsqueeze(0),))
        y = y[0] if isinstance(y, tuple) else y
        return (y * y).mean() + y.flatten()[0]

    return loss


def name_is_batched(model):
    return any(isinstance(m, nn.BatchNorm1d) for m in model.modules())


def close(a, b, tolerance=2e-4):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_per_sample(name):
    model, x = made(name)
    params = {key: p.detach() for key, p in model.named_parameters()}
    before = fallbacks()
    found = vmap(grad(loss_of(model)), (None, 0))(params, x)
    for k in range(4):
        single = grad(loss_of(model))(params, x[k])
        for key, g in single.items():
            close(found[key][k], g)
    assert fallbacks() == before


@pytest.mark.parametrize("name", MODELS)
def test_ensembles(name):
    _, x = made(name)
    models = [MODELS[name][0]() for _ in range(3)]
    params, buffers = stack_module_state(models)
    x = x[0] if name_is_batched(models[0]) else x

    def call(params, buffers, x):
        y = functional_call(models[0], (params, buffers), (x,))
        return y[0] if isinstance(y, tuple) else y

    found = vmap(call, (0, 0, None))(params, buffers, x)
    single = [call(dict(m.named_parameters()), dict(m.named_buffers()), x) for m in models]
    close(found, rushlight.stack(single))
    found.square().mean().backward()
    rushlight.stack(single).square().mean().backward()
    for key, p in params.items():
        close(p.grad, rushlight.stack([dict(m.named_parameters())[key].grad for m in models]))


def test_gradients_per_sample_of_a_model_whose_parameters_require_grad():
    model, x = made("cnn")
    found = vmap(grad(loss_of(model)), (None, 0))(dict(model.named_parameters()), x)
    total = sum(g.sum() for g in found.values())
    assert not total.requires_grad or total.grad_fn is not None
    detached = {key: p.detach() for key, p in model.named_parameters()}
    for key, g in vmap(grad(loss_of(model)), (None, 0))(detached, x).items():
        close(found[key], g)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_per_sample(reduction):
    x, y = rushlight.randn(4, 3, 5), rushlight.randint(0, 5, (4, 3))
    y[0, 1] = 2
    weight = rushlight.rand(5)

    def loss(x, y):
        return nn.functional.cross_entropy(x, y, weight, ignore_index=2, reduction=reduction)

    close(vmap(loss)(x, y), rushlight.stack([loss(a, b) for a, b in zip(x, y)]))
    found = vmap(grad(lambda x, y: loss(x, y).sum()))(x, y)
    close(found, rushlight.stack([grad(lambda x, y: loss(x, y).sum())(a, b) for a, b in zip(x, y)]))


def test_dropout_draws_for_each_sample():
    x = rushlight.ones(3, 100)
    drop = nn.Dropout(0.5)
    a, b, c = vmap(drop, randomness="different")(x)
    assert not a.equal(b) and not b.equal(c)
    a, b, c = vmap(drop, randomness="same")(x)
    assert a.equal(b) and b.equal(c) and not a.equal(x[0])
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(drop)(x)


def test_jacobians_and_hessians_by_parameters():
    model, x = made("mlp")
    params = {key: p.detach() for key, p in model.named_parameters()}

    def call(params):
        return functional_call(model, params, (x[0],))

    forward, reverse = jacfwd(call)(params), jacrev(call)(params)
    for key in params:
        close(forward[key], reverse[key])
    second = hessian(lambda p: call(p).square().sum())(params)
    twice = jacrev(jacrev(lambda p: call(p).square().sum()))(params)
    for a in params:
        for b in params:
            close(second[a][b], twice[a][b])


def test_batch_norms_can_forget_their_statistics():
    model = nn.Sequential(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3))
    x = rushlight.randn(4, 5, 2, 6)
    with pytest.raises(RuntimeError, match="in-place writing of batched values"):
        vmap(model)(x)
    assert rushlight.func.replace_all_batch_norm_modules_(model) is model and model[1].running_mean is None
    close(vmap(model)(x), rushlight.stack([model(part) for part in x]))
