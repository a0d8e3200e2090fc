"""`Function` inside `vmap`."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight
from rushlight.autograd import Function
from rushlight.func import grad, jacfwd, jacrev, jvp, vmap

X = rushlight.tensor(np.linspace(-1, 2, 24).reshape(2, 3, 4))


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)


class Cube(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return x * x * x * w, w * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)
        ctx.two = inputs[1] * 0 + 2

    @staticmethod
    def backward(ctx, g, h):
        x, w = ctx.saved_tensors
        return g * 3 * x * x * w, g * x * x * x + h * ctx.two

    @staticmethod
    def jvp(ctx, dx, dw):
        x, w = ctx.saved_tensors
        return dx * 3 * x * x * w + dw * x * x * x, dw * ctx.two


class Written(Cube):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, x, w):
        assert info.batch_size in (2, 3) and info.randomness == "error"
        x, w = [a.expand(info.batch_size, *a.shape) if d is None else a.movedim(d, 0) for a, d in zip((x, w), in_dims)]
        return Written.apply(x, w), (0, 0)


def both(function):
    def call(x, w):
        a, b = function(x, w)
        return (a * a).sum() + (b * x).sum()

    return call


def cubes(x, w):
    return x * x * x * w, w * 2


@pytest.mark.parametrize("dims", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("own", [Cube, Written])
def test_a_function_with_a_rule(own, dims):
    args = [X[0] if d == 0 else X[0, 0] for d in dims]
    for transform in (
        lambda f: f,
        lambda f: grad(f, (0, 1)),
        lambda f: jacfwd(f, (0, 1)),
        lambda f: jacrev(grad(f, 0), (0, 1)),
    ):
        found = vmap(transform(both(own.apply)), dims)(*args)
        expected = vmap(transform(both(cubes)), dims)(*args)
        for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (found, expected)]):
            close(a, b, 1e-10)
    inputs = [x.clone().requires_grad_() for x in args]
    vmap(both(own.apply), dims)(*inputs).sum().backward()
    expected = grad(lambda *a: vmap(both(cubes), dims)(*a).sum(), (0, 1))(*args)
    for x, e in zip(inputs, expected):
        close(x.grad, e, 1e-10)
    close(vmap(vmap(both(own.apply)))(X, X), vmap(vmap(both(cubes)))(X, X))


def test_functions_without_rule_are_refused():
    class Nothing(Cube):
        generate_vmap_rule = False

    class Twice(Written):
        generate_vmap_rule = True

    class Old(Function):
        @staticmethod
        def forward(ctx, x, w):
            return x

    for own, message in (
        (Nothing, "does not have vmap support"),
        (Twice, "both generate_vmap_rule"),
        (Old, "must override the setup_context"),
    ):
        with pytest.raises(RuntimeError, match=message):
            vmap(own.apply)(X, X)
        own.apply(X, X)


class SineOfProduct(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return (x * w).sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w = inputs
        ctx.save_for_backward(x, w, output)
        ctx.save_for_forward(w, x)

    @staticmethod
    def backward(ctx, g):
        x, w, _ = ctx.saved_tensors
        g = g * (x * w).cos()
        return g * w, g * x

    @staticmethod
    def jvp(ctx, tx, tw):
        w, x = ctx.saved_tensors
        return (tx * w + tw * x) * (x * w).cos()


def plain(x, w):
    return (x * w).sin()


ROWS = rushlight.tensor([[0.5, -0.25], [1.0, 2.0], [0.125, 3.0]], dtype=rushlight.float64)


@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0)])
def test_generated_rules_nest(dims):
    """Each level keeps by itself which of the saved tensors are batched there."""

    def total(function):
        inner = vmap(lambda x, w: function(x, w).sum(), (None, 0))
        outer = vmap(inner, (dims[0], None if dims[1] is None else 1))
        return lambda x, w: outer(x, w).sum()

    x, w = ROWS if dims[0] == 0 else ROWS[0], ROWS[:2] if dims[1] is None else ROWS.unsqueeze(0) * ROWS[:2].unsqueeze(1)
    for found, expected in zip(grad(total(SineOfProduct.apply), (0, 1))(x, w), grad(total(plain), (0, 1))(x, w)):
        assert rushlight.allclose(found, expected)


def test_generated_rule_in_forward_mode():
    def tangent(function):
        return vmap(lambda x, t: jvp(lambda x: function(x, ROWS[0]), (x,), (t,))[1])(ROWS, ROWS.flip(0))

    assert rushlight.allclose(tangent(SineOfProduct.apply), tangent(plain))
