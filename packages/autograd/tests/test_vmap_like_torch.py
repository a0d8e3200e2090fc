"""`vmap` and its nestings against `torch.func`, for functions of many kinds."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).normal(size=(3, 4, 5))

FUNCTIONS = {
    "elementwise": lambda t, x: (x.exp() * x.sin() + t.where(x > 0, x, x * 0.1)).tanh(),
    "promotion": lambda t, x: x[0, 0] * t.ones(3, dtype=t.float32) + x.float().sum(),
    "reductions": lambda t, x: x.var(0) + x.amax(1).sum() + x.logsumexp(0) + x.norm() + x.prod(0) + x.median(),
    "argmax": lambda t, x: x.gather(1, x.argmax(1, keepdim=True)) * x.argmin().to(x.dtype),
    "softmax": lambda t, x: x.softmax(0) + x.log_softmax(1),
    "products": lambda t, x: (x @ x.mT @ x).sum(0) + t.einsum("ij,kj->ik", x, x).sum() + t.outer(x[0], x[1]).sum(),
    "vectors": lambda t, x: x @ x[0] + t.mv(x, x[1]) + t.dot(x[0], x[2]) * t.linalg.vecdot(x, x),
    "views": lambda t, x: x.t().reshape(2, 10)[:, ::3].flatten().unfold(0, 2, 1).diagonal().repeat(2).roll(1),
    "joining": lambda t, x: t.cat([x, x[:1] * 2, t.zeros(1, 5, dtype=x.dtype)]).split([2, 4])[1].flip(0),
    "stacking": lambda t, x: t.stack([x[0], t.arange(5, dtype=x.dtype)], 1).unbind(1)[0] + t.hstack([x[0], x[1]])[3:8],
    "padding": lambda t, x: t.nn.functional.pad(x, (1, 2, 0, 1), value=0.5).cumsum(1).cumprod(0),
    "sorting": lambda t, x: x.sort(1).values + x.topk(2, 0).values.sum(0) + x.kthvalue(2, 0).values,
    "indexing": lambda t, x: (
        x[t.tensor([0, 2, 0])][:, t.tensor([1, 1])] + x[t.tensor([0, 1, 2]), t.tensor([1, 2, 0])].sum()
    ),
    "own indices": lambda t, x: x.gather(0, (x > 0).long()) + x[:, (x[0] > 0).long()].sum() + x.flatten()[x.argsort(0)],
    "scattering": lambda t, x: t.zeros_like(x).scatter_add(0, (x > 0).long(), x).index_add(0, t.tensor([1, 0]), x[:2]),
    "writing": lambda t, x: (
        t.zeros_like(x).index_put((t.tensor([1, 0]),), x[2:], accumulate=True).masked_fill(x > 1, 7.0)
    ),
    "in place": lambda t, x: x.clone().mul_(2).add_(x).clamp_(-1, 2).t().contiguous().div_(3),
    "slices": lambda t, x: _written(x),
    "linear algebra": lambda t, x: (
        t.linalg.solve(_regular(t, x), x) + t.linalg.det(_regular(t, x)) + _regular(t, x).inverse() @ x
    ),
    "factorizations": lambda t, x: (
        t.linalg.cholesky(_regular(t, x)).sum(0) + t.linalg.svdvals(x).sum() + t.linalg.eigvalsh(_regular(t, x))
    ),
    "fourier": lambda t, x: t.fft.fft(x).abs() + t.fft.irfft(t.fft.rfft(x, dim=0), n=4, dim=0),
    "complex": lambda t, x: (t.complex(x, x * 2) ** 2).abs() + t.view_as_real(t.complex(x, x) * 1j).sum(-1),
    "convolution": lambda t, x: t.nn.functional.conv1d(x[None], x[:3, None, :2].repeat(1, 4, 1)),
    "transposed convolution": lambda t, x: t.nn.functional.conv_transpose1d(
        x[None], x[:4, None, :3].repeat(1, 2, 1), stride=2
    ),
    "pooling": lambda t, x: t.nn.functional.max_pool1d(x[None], 2) + t.nn.functional.avg_pool1d(x[None], 2),
    "normalization": lambda t, x: (
        t.nn.functional.layer_norm(x, (5,), x[0], x[1]) + t.nn.functional.group_norm(x[None], 2)[0]
    ),
    "losses": lambda t, x: (
        t.nn.functional.cross_entropy(x, t.tensor([0, 1, 4, 2])) + t.nn.functional.mse_loss(x, x * 2)
    ),
    "embedding": lambda t, x: t.nn.functional.embedding(t.tensor([[0, 2], [3, 0]]), x) * x.flatten()[0],
    "attention": lambda t, x: t.nn.functional.scaled_dot_product_attention(x, x * 2, x.sin()),
    "searching": lambda t, x: (
        t.searchsorted(x[0].sort().values, x[1]) + t.bucketize(x[0], t.tensor([-1.0, 0.0], dtype=x.dtype))
    ),
    "distances": lambda t, x: t.cdist(x, x[:2]) + t.nn.functional.cosine_similarity(x, x.flip(1), dim=1)[:, None],
}
NOT_DIFFERENTIABLE = {"searching", "argmax", "distances"}  # torch has no derivative of some of them


def _written(x):
    y = x.clone()
    y[1:, 0] = x[:3, 1] * 2
    y[0] += y[1]
    return y


def _regular(t, x):
    return x @ x.mT + 3 * t.eye(4, dtype=x.dtype)


def both(call):
    """What a call gives with torch and here, as arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where torch has no rule it warns of a loop
        expected = call(torch, torch.tensor(X))
    found = call(rushlight, rushlight.tensor(X))
    expected = expected if isinstance(expected, tuple) else (expected,)
    for a, b in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        assert str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1] and tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name):
    both(lambda t, x: t.func.vmap(lambda x: FUNCTIONS[name](t, x))(x))
    both(lambda t, x: t.func.vmap(lambda x: FUNCTIONS[name](t, x), 2, -1)(x.permute(1, 2, 0)))
    both(lambda t, x: t.func.vmap(t.func.vmap(lambda x: FUNCTIONS[name](t, x), 1), 0)(t.stack([x, x * 2], 2)))


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - NOT_DIFFERENTIABLE))
def test_derivatives(name):
    def total(t):
        return lambda x: (FUNCTIONS[name](t, x) ** 2).sum()

    both(lambda t, x: t.func.vmap(t.func.grad(total(t)))(x))
    both(lambda t, x: t.func.grad(lambda x: t.func.vmap(total(t))(x).sum())(x))
    both(lambda t, x: t.func.vmap(lambda x, v: t.func.jvp(total(t), (x,), (v,))[1], (None, 0))(x[0], x))
    both(lambda t, x: t.func.jacrev(lambda x: FUNCTIONS[name](t, x))(x[0]))
    both(lambda t, x: t.func.jacfwd(lambda x: FUNCTIONS[name](t, x))(x[0]))
