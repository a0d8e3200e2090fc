"""Dual numbers: tangents through ops, views, writes in place, and custom functions. The rules are in test_rules.py."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight
from rushlight.autograd import Function
from rushlight.autograd import forward_ad as fw
from rushlight.core.declare import structured
from rushlight.utils.checkpoint import checkpoint

X = rushlight.tensor([0.5, 1.0, 2.0], dtype=rushlight.float64)
V = rushlight.tensor([1.0, -2.0, 3.0], dtype=rushlight.float64)


@pytest.fixture
def level():
    with fw.dual_level() as number:
        yield number


def tangent(x):
    found = fw.unpack_dual(x).tangent
    return None if found is None else found.tolist()


def test_values_and_tangents_come_apart_again(level):
    x = fw.make_dual(X, V)
    assert x._base is X and fw.unpack_dual(X).tangent is None
    primal, direction = fw.unpack_dual(x)
    assert direction is V and primal.tolist() == X.tolist()
    assert fw.unpack_dual(primal * 2).tangent is None
    assert tangent(x * x) == [1, -4, 12]
    assert tangent(rushlight.ones(3)) is None
    assert isinstance(fw.unpack_dual(x), fw.UnpackedDualTensor)


def test_levels_end():
    assert fw.enter_dual_level() == 0
    x = fw.make_dual(X, V)
    y = x * 2
    with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
        fw.enter_dual_level()
    with pytest.raises(RuntimeError, match="not the last one"):
        fw.exit_dual_level(level=1)
    fw.exit_dual_level()
    assert tangent(y) is None
    with fw.dual_level():
        assert tangent(x) is None and tangent(y) is None
    with pytest.raises(RuntimeError, match="not the last one"):
        fw.exit_dual_level()
    with pytest.raises(RuntimeError, match="no level exists"):
        fw.make_dual(X, V)


def test_a_function_in_a_level():
    @fw.dual_level()
    def slope(x):
        return fw.unpack_dual(fw.make_dual(x, V).exp()).tangent

    for _ in range(2):
        np.testing.assert_allclose(slope(X).tolist(), (X.exp() * V).tolist())


@pytest.mark.parametrize("arguments, error, message", [
    (lambda: (X, V[:2]), RuntimeError, r"size \[3\] while the given forward gradient is of size \[2\]"),
    (lambda: (X, V.long()), ValueError, "Expected tangent to be floating point or complex"),
    (lambda: (X.long(), V), ValueError, "Expected primal to be floating point or complex"),
    (lambda: (fw.make_dual(X, V), V), RuntimeError, "already has a forward gradient"),
    (lambda: (X, fw.make_dual(V, V)), RuntimeError, "itself has a forward gradient"),
    (lambda: (1.0, V), TypeError, "expected a Tensor as primal, got float"),
])
def test_make_dual_refuses(level, arguments, error, message):
    with pytest.raises(error, match=message):
        fw.make_dual(*arguments())
    with pytest.raises(RuntimeError, match="Invalid level"):
        fw.make_dual(X, V, level=1)


def test_under_no_grad_and_with_it(level):
    with rushlight.no_grad():
        y = fw.make_dual(X.clone().requires_grad_(), V).exp()
    np.testing.assert_allclose(tangent(y), (X.exp() * V).tolist())
    assert not fw.unpack_dual(y).tangent.requires_grad


def test_detach_and_integers_have_no_tangent(level):
    x = fw.make_dual(X, V)
    assert tangent(x.detach()) is None and tangent(x) == V.tolist()
    assert tangent(x.detach() * x) == [0.5, -2, 6]
    assert tangent(x.long()) is None and tangent(x > 1) is None
    assert tangent(x.floor()) == [0, 0, 0]


def test_views_share_the_tangent(level):
    x = fw.make_dual(X.clone(), V)
    part, turned = x[1:], x.view(3, 1).t()
    assert tangent(part) == [-2, 3] and tangent(turned) == [V.tolist()]
    part.mul_(2)
    assert tangent(part) == [-4, 6] and tangent(x) == [1, -4, 6] and tangent(turned) == [[1, -4, 6]]
    x.zero_()
    assert tangent(part) == [0, 0]
    assert V.tolist() == [1, -2, 3]


def test_writes_of_dual_numbers_into_plain_tensors(level):
    rows = rushlight.zeros(2, 3, dtype=rushlight.float64)
    rows[1] = fw.make_dual(X, V)
    assert tangent(rows) == [[0, 0, 0], V.tolist()]
    rows[1, 0] = 7
    assert tangent(rows[1]) == [0, -2, 3]
    rows.copy_(X)
    assert tangent(rows) == [[0] * 3] * 2


def test_a_tangent_in_another_layout(level):
    x = rushlight.arange(6.0).view(2, 3)
    x = fw.make_dual(x, x.t().contiguous().t())
    assert tangent(x.view(6)) == [0, 1, 2, 3, 4, 5]
    assert tangent(x.as_strided((2,), (3,), 1)) == [1, 4]


def test_in_place_with_itself_and_random(level):
    x = fw.make_dual(X.clone(), V)
    x.mul_(x)
    assert tangent(x) == [1, -4, 12]
    assert tangent(x.uniform_()) == [0, 0, 0]


@pytest.mark.parametrize("dtype", [rushlight.float64, rushlight.complex128])
def test_the_norm_at_zero_has_the_tangent_zero(level, dtype):
    x = fw.make_dual(rushlight.zeros(2, dtype=dtype), rushlight.ones(2, dtype=dtype))
    assert tangent(rushlight.linalg.vector_norm(x)) == 0


def test_promotion_and_broadcasting(level):
    x = fw.make_dual(rushlight.ones(2, 1, dtype=rushlight.float32), rushlight.ones(2, 1))
    y = x + X
    found = fw.unpack_dual(y).tangent
    assert found.dtype is rushlight.float64 and found.tolist() == [[1] * 3] * 2


class Cube(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x, x * x)
        ctx.factor = factor
        return x * x * x * factor

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x * ctx.factor, None

    @staticmethod
    def jvp(ctx, d, factor):
        assert factor is None
        _, square = ctx.saved_tensors
        return d * 3 * square * ctx.factor


def test_custom_functions(level):
    expected = (6 * X * X * V).tolist()
    assert tangent(Cube.apply(fw.make_dual(X, V), 2)) == expected
    leaf = X.clone().requires_grad_()
    y = Cube.apply(fw.make_dual(leaf, V), 2)
    assert tangent(y) == expected
    y.sum().backward()
    assert leaf.grad.tolist() == (6 * X * X).tolist()


@pytest.mark.parametrize("returned, error, message", [
    (lambda t: (t, t), RuntimeError, r"invalid number of forward gradients \(expected 1 but got 2\)"),
    (lambda t: t[:1], RuntimeError, r"size \[3\] while the given forward gradient is of size \[1\]"),
])
def test_custom_functions_with_wrong_tangents(level, returned, error, message):
    class Wrong(Cube):
        @staticmethod
        def jvp(ctx, d, factor):
            return returned(d)

    with pytest.raises(error, match=message):
        Wrong.apply(fw.make_dual(X, V), 2)


def test_custom_functions_without_jvp(level):
    class Plain(Cube):
        jvp = Function.jvp

    assert Plain.apply(X, 1).tolist() == (X * X * X).tolist()
    with pytest.raises(NotImplementedError, match="must implement the jvp function"):
        Plain.apply(fw.make_dual(X, V), 1)


def test_custom_functions_that_return_or_change_their_argument(level):
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def jvp(ctx, d):
            return d * 2

    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, d):
            return d * 2

    x = fw.make_dual(X.clone(), V)
    assert tangent(Same.apply(x)) == (V * 2).tolist() and tangent(x) == V.tolist()
    assert Twice.apply(x) is x and tangent(x) == (V * 2).tolist()


def test_an_op_in_other_ops_is_followed_into_them(level):
    def doubled(x):
        return x + x

    op = structured("doubled", lambda input: input.with_grad(False), registered=False, decomposition=doubled)
    assert tangent(op(fw.make_dual(X, V))) == (V * 2).tolist()


def test_tangents_do_not_keep_tensors_alive(level):
    x = fw.make_dual(X, V)
    for _ in range(3):
        x = x * 2
    assert len(fw._current.level.tangents) == 1


def test_gradients_through_a_checkpoint_have_tangents(level):
    x = fw.make_dual(X.clone().requires_grad_(), V)
    y = checkpoint(lambda x: (x.exp() * x).sum(), x, use_reentrant=False)
    (g,) = rushlight.autograd.grad(y, x)
    np.testing.assert_allclose(tangent(g), ((X + 2) * X.exp() * V).tolist())
