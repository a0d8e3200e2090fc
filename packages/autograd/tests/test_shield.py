"""Branches that are not taken: their derivatives do not count, NaN ones either."""

from __future__ import annotations

import math

import pytest

import rushlight
from rushlight.autograd import grad, gradgradcheck
from rushlight.func import grad as func_grad
from rushlight.func import vmap

SAFE = [
    # the function, where its derivative is infinite or NaN, and the right gradient there
    (lambda x: rushlight.where(x > 0, x.sqrt(), x), -1.0, 1.0),
    (lambda x: rushlight.where(x > 0, x.sqrt(), 3 * x), 0.0, 3.0),
    (lambda x: rushlight.where(x > 0, x.log() * x, 2 * x), -2.0, 2.0),
    (lambda x: rushlight.where(x != 0, x.sin() / x, 1 + x), 0.0, 1.0),
    (lambda x: rushlight.where(x < 5, x.exp(), x), 1000.0, 1.0),
    (lambda x: rushlight.where(x > 0, 1 / x**2, x), 0.0, 1.0),
    (lambda x: rushlight.where(x.abs() < 1, x.asin().reshape(1, 2), x), 2.0, 1.0),
    (lambda x: x.sqrt().masked_fill(x <= 0, 0.0) + x, -1.0, 1.0),
    (lambda x: (x * 1).sqrt_().where(x > 0, x), -1.0, 1.0),
    (lambda x: rushlight.where(x > 0, rushlight.where(x > -5, (x + 1).log().sqrt(), x), 2 * x), -1.0, 2.0),
]


@pytest.mark.parametrize("function, at, expected", SAFE)
def test_branch_that_is_not_taken(function, at, expected):
    x = rushlight.tensor([at, 0.75], dtype=rushlight.float64, requires_grad=True)
    y = function(x) if function(x).ndim == 1 else function(x)[0]
    (g,) = grad(y.sum(), x)
    assert g[0].item() == expected and math.isfinite(g[1].item())
    x.grad = None
    function(x).sum().backward()
    assert x.grad[0].item() == expected


def test_second_order():
    x = rushlight.tensor([-1.0, 0.25], dtype=rushlight.float64, requires_grad=True)
    (g,) = grad(rushlight.where(x > 0, x.sqrt(), x * x).sum(), x, create_graph=True)
    assert g.tolist() == [-2, 1]
    (h,) = grad(g.sum(), x)
    assert h.tolist() == [2, -2]
    y = rushlight.tensor([0.5, 2.0], dtype=rushlight.float64, requires_grad=True)
    assert gradgradcheck(lambda y: rushlight.where(y > 1, y.log(), y.sqrt()), y)


def test_nan_that_counts_stays():
    x = rushlight.tensor([-1.0, 0.0, 4.0], requires_grad=True)
    x.sqrt().sum().backward()
    assert [math.isnan(x.grad[0].item()), *x.grad[1:].tolist()] == [True, math.inf, 0.25]
    x.grad = None
    rushlight.where(x < 1, x.sqrt(), x).sum().backward()
    assert [math.isnan(x.grad[0].item()), *x.grad[1:].tolist()] == [True, math.inf, 1.0]


def test_hooks_and_retained_graphs():
    x = rushlight.tensor([-1.0], requires_grad=True)
    root = x.sqrt()
    seen = []
    y = rushlight.where(x > 0, root, x)
    y.backward(retain_graph=True)
    root.grad_fn.register_hook(lambda results, grads: seen.append(results[0].item()))
    y.backward(retain_graph=True)
    assert seen == [0.0] and x.grad.item() == 2
    assert root.grad_fn.metadata == {} and rushlight.ones(1, requires_grad=True).exp().grad_fn.extras is None


def test_transforms():
    x = rushlight.tensor([[-1.0], [4.0]])
    found = vmap(func_grad(lambda x: rushlight.where(x > 0, x.sqrt(), x).sum()))(x)
    assert found.tolist() == [[1.0], [0.25]]


def test_anomaly_mode_takes_no_offence():
    x = rushlight.tensor([-1.0], requires_grad=True)
    with rushlight.autograd.detect_anomaly():
        rushlight.where(x > 0, x.sqrt(), x).backward()
    assert x.grad.item() == 1
