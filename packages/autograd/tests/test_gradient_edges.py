"""Gradients where a plain quotient or product of the chain rule would fail: zeros, ties, infinities, kinks."""

import math

import numpy as np
import pytest

import rushlight

INF = math.inf


def gradient(function, *values):
    """The gradient of the sum of a function's result with respect to its first argument."""
    x, *rest = [rushlight.tensor(v, dtype=rushlight.float64) for v in values]
    x.requires_grad_()
    return rushlight.autograd.grad(function(x, *rest).sum(), x)[0].tolist()


@pytest.mark.parametrize(
    "function, x, expected",
    [
        (lambda x: x.prod(), [2, 3, 0, 4], [0, 0, 24, 0]),
        (lambda x: x.cumprod(0), [2, 0, 3], [1, 8, 0]),
        (lambda x: x.norm(), [0, 0], [0, 0]),
        (lambda x: x.norm(p=3), [0, 2], [0, 1]),
        (lambda x: x.std(), [1, 1, 1], [0, 0, 0]),
        (lambda x: x.amax(), [1, 3, 3], [0, 0.5, 0.5]),
        (lambda x: x.max(0).values, [1, 3, 2], [0, 1, 0]),
        (lambda x: x.logsumexp(0), [-INF, -INF], [0, 0]),
        (lambda x: x.logsumexp(0), [-INF, 2], [0, 1]),
        (lambda x: x.logcumsumexp(0), [-INF, 2], [0, 1]),
        (lambda x: x**0, [0, 2], [0, 0]),
        (lambda x: x**2, [0, -3], [0, -6]),
        (rushlight.sinc, [0, 1], [0, -1]),
        (rushlight.relu, [0, 1], [0, 1]),
        (lambda x: x.clamp(-1, 1), [-1, 1, 2], [1, 1, 0]),
        (rushlight.floor, [0.5, 2], [0, 0]),
        (lambda x: rushlight.xlogy(x, x.detach() * 0), [0, 0], [0, 0]),
        (lambda x: rushlight.special.entr(x), [1, math.e], [-1, -2]),
        (rushlight.special.i1, [0], [0.5]),
        (lambda x: x.sort(descending=True).values * rushlight.tensor([1.0, 2, 3]), [1, 3, 2], [3, 1, 2]),
        (lambda x: x.quantile(0.25), [0, 1, 2], [0.5, 0.5, 0]),
        (lambda x: x.median(), [3, 1, 2], [0, 0, 1]),
    ],
)
def test_value(function, x, expected):
    assert gradient(function, x) == pytest.approx(expected, abs=1e-12)


def test_maximum_shares_a_tie():
    assert gradient(rushlight.maximum, [1, 2, 3], [2, 2, 2]) == [0, 0.5, 1]


def test_exponent_gradient_at_base_zero():
    assert gradient(lambda e, b: b**e, [2, 3], [0, 0]) == [0, 0]


def test_second_derivative_of_a_product_with_two_zeros():
    x = rushlight.tensor([2.0, 3, 0, 0], dtype=rushlight.float64, requires_grad=True)
    (g,) = rushlight.autograd.grad(x.prod(), x, create_graph=True)
    assert g.tolist() == [0, 0, 0, 0]
    assert rushlight.autograd.grad(g[2], x)[0].tolist() == [0, 0, 0, 6]


def test_angle_of_tiny_numbers():
    z = rushlight.tensor(5.6843e-14 + 1e-13j, dtype=rushlight.complex64, requires_grad=True)
    got = rushlight.autograd.grad(rushlight.angle(z), z)[0].item()
    x, y = 5.6843e-14, 1e-13
    assert abs(got - complex(-y, x) / (x * x + y * y)) < 1e-5 * abs(got)


def test_number_times_complex_keeps_a_real_gradient_real():
    x = rushlight.tensor([1.0, 2.0], requires_grad=True)
    (x * 2j).abs().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [2, 2], rtol=1e-6)
