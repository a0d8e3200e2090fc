"""Lazy replay with gradients: pieces end where somebody may take hold of a gradient, or free what others need."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.compiler import _config


@pytest.fixture(autouse=True)
def programs_at_once(monkeypatch):
    """Make programs of pieces when they come for the first time."""
    monkeypatch.setattr(_config, "LAZY_CALLS_BEFORE", 0)


def matrix():
    return torch.arange(6.0).reshape(2, 3)


def leaf():
    return matrix().div(4).requires_grad_()



def test_gradients_of_held_results(alike):
    def f(w, x):
        h = (x * w).tanh()
        view = h.view(-1)
        out = (h * 2).exp()
        loss = (out.mean() + view.sum()) * 2
        seen = []
        h.register_hook(seen.append)
        out.retain_grad()
        by_h, by_out, by_w = torch.autograd.grad(loss, [h, out, w], retain_graph=True)
        loss.backward()
        return h, out, loss, by_h, by_out, by_w, seen, out.grad, w.grad

    for programs in ("eager", "aot_eager"):
        alike(f, leaf, matrix, programs=programs)


def test_passes_through_one_piece(alike):
    def one_after_the_other(w, x):
        h = x * w
        a, b = h.exp().sum(), h.sin().sum()
        a.backward(retain_graph=True)
        b.backward()
        return w.grad, a, b

    def freed(w, x):
        h = (x * w).exp()
        a, b = h.sum(), (h * 2).sum()
        a.backward()
        b.backward()

    def independent(w, x):
        a, b = (x * w).exp().sum(), (x * w).sin().sum()
        a.backward()
        b.backward()
        return w.grad

    def in_part(w, x):
        v = torch.ones(2, 3, requires_grad=True)
        loss = ((x * w).exp() + (x * v).exp()).sum()
        return torch.autograd.grad(loss, w), torch.autograd.grad(loss, v)

    def twice_the_same(w, x):
        loss = (x * w).exp().sum()
        return torch.autograd.grad(loss, w), torch.autograd.grad(loss, w)

    def saves_nothing(w, x):
        loss = (w + x).sum()
        loss.backward()
        loss.backward()
        return w.grad

    def second(w, x):
        loss = (x * w).exp().sum()
        (g,) = torch.autograd.grad(loss, w, create_graph=True)
        (g * g).sum().backward()
        return w.grad, g

    def changed(w, x):
        y = (x * w).exp()
        z = y.sum()
        y.mul_(2)
        z.backward()

    def quietly(w, x):
        z = (x * w * w).sum()
        w.data.mul_(2)
        z.backward()
        return w.grad

    def without(w, x):
        y = x * w
        with torch.no_grad():
            mean = y.mean() * 2
            flat = y.view(-1)
        z = y.detach() * w
        return y - mean, z, flat, flat.requires_grad, y.grad_fn.name(), z.grad_fn.name()

    for f in (one_after_the_other, freed, independent, in_part, twice_the_same, saves_nothing, second, changed,
              quietly, without):
        for programs in ("eager", "aot_eager"):
            alike(f, leaf, matrix, programs=programs)


def test_a_training_step_with_prints(observe, capsys, lazily):
    nn = pytest.importorskip("rushlight.nn")

    def training(compile):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 3))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        log = []

        def step(x, y):
            optimizer.zero_grad()
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            print("loss", loss.item() > 0)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            log.append((float(norm) > 0, out.detach().numpy().shape))
            optimizer.step()
            return loss.detach()

        step = compile(step)
        losses = [step(torch.randn(6, 4), torch.randint(0, 3, (6,))) for _ in range(4)]
        return losses, log, model.state_dict(), [p.grad for p in model.parameters()]

    expected = training(lambda f: f)
    text = capsys.readouterr().out
    assert observe(training(lazily)) == observe(expected)
    assert capsys.readouterr().out == text
    compiled = training(lambda f: lazily(f, "inductor"))
    for a, b in zip(compiled[0], expected[0]):
        torch.testing.assert_close(a, b)


def test_transforms(alike):
    func = pytest.importorskip("rushlight.func")

    def f(x):
        y = x * 2

        def g(r):
            return (r * y).exp().sum()

        return func.vmap(g)(x[:, None]), func.grad(g)(x), func.jvp(g, (x,), (y,)), func.jacrev(torch.sin)(y[0])

    for programs in ("eager", "aot_eager"):
        alike(f, matrix, programs=programs)
