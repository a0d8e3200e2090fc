"""Functions written by the user."""

from __future__ import annotations

import pytest

import rushlight
from rushlight.autograd import Function, grad
from rushlight.autograd.function import once_differentiable


def leaf(*values: float):
    return rushlight.tensor([float(v) for v in values], requires_grad=True)


class Exp(Function):
    """The first example of every tutorial."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        y, = ctx.saved_tensors
        return g * y


class Scale(Function):
    """The newer style, with an argument that is no tensor."""

    @staticmethod
    def forward(x, factor):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.factor = inputs

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None


def test_both_styles():
    x = leaf(0, 1)
    y = Scale.apply(Exp.apply(x), 3)
    assert y.grad_fn.name() == "ScaleBackward"
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([3, 3 * 2.718281828], rel=1e-6)


def test_saved_output_takes_part_in_second_order():
    x = rushlight.tensor([0.5], dtype=rushlight.float64, requires_grad=True)
    assert rushlight.autograd.gradcheck(Exp.apply, x) and rushlight.autograd.gradgradcheck(Exp.apply, x)


def test_what_is_asked_for():
    seen = {}

    class Two(Function):
        @staticmethod
        def forward(ctx, x, y, text):
            seen["needs"] = ctx.needs_input_grad
            return x * 1, y * 1

        @staticmethod
        def backward(ctx, g0, g1):
            seen["grads"] = g0, g1
            return g0, None, None

    x = leaf(1)
    Two.apply(x, rushlight.ones(1), "text")[0].backward()
    assert seen["needs"] == (True, False, False)
    assert [g.tolist() for g in seen["grads"]] == [[1], [0]]


def test_without_materialized_gradients():
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, g0, g1):
            assert g1 is None
            return g0

    x = leaf(1)
    Two.apply(x)[0].backward()
    assert x.grad.tolist() == [1]


def test_non_differentiable_outputs():
    class Sorted(Function):
        @staticmethod
        def forward(ctx, x):
            half = x * 0.5
            ctx.mark_non_differentiable(half)
            return x * 1, half, x > 0

        @staticmethod
        def backward(ctx, g, _half, _mask):
            return g

    y, half, mask = Sorted.apply(leaf(1))
    assert (y.requires_grad, half.requires_grad, mask.requires_grad) == (True, False, False)


def test_input_changed_in_place():
    class Increment(Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(1, 2)
    y = x * 1
    v = y[0:1]
    assert Increment.apply(v) is v
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([2, 2], [2, 1])
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        Increment.apply(leaf(1))


def test_input_returned_as_it_came():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5

    x = leaf(1)
    y = Same.apply(x)
    assert y is not x and x.is_leaf
    y.backward()
    assert x.grad.tolist() == [5]


def returning(*results):
    class Given(Function):
        @staticmethod
        def forward(ctx, x, y, number):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return results

    return Given


@pytest.mark.parametrize("results, message", [
    ((None,), r"returned an incorrect number of gradients \(expected 3, got 1\)"),
    ((None, None, rushlight.ones(2)), "returned a gradient different from None at position 3"),
    ((rushlight.ones(3), None, None), r"invalid gradient at index 0 - got \[3\] but expected shape .* with \[2\]"),
])
def test_wrong_results_of_backward(results, message):
    y = returning(*results).apply(leaf(1, 2), leaf(1, 2), 3)
    with pytest.raises(RuntimeError, match=message):
        y.sum().backward()


def test_saved_tensors_are_checked():
    x = leaf(1)
    with rushlight.no_grad():
        y = Exp.apply(x)
    y = Exp.apply(x)
    z = y * 2
    with rushlight.no_grad():
        y.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    y = Exp.apply(x)
    y.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


def test_what_is_missing_is_said():
    class Nothing(Function):
        pass

    with pytest.raises(NotImplementedError, match="You must implement the forward function"):
        Nothing.apply(leaf(1))
    with pytest.raises(RuntimeError, match="should not be instantiated"):
        Nothing()


def test_only_tensors_are_saved():
    class Saves(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(3)

    with pytest.raises(TypeError, match="save_for_backward can only save variables"):
        Saves.apply(leaf(1))


def test_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return g * 2 * x

    x = leaf(3)
    g, = grad(Once.apply(x), x, rushlight.ones(1, requires_grad=True), create_graph=True)
    assert g.tolist() == [6]
    with pytest.raises(RuntimeError, match="trying to differentiate twice"):
        g.backward()


def test_without_grad_nothing_is_recorded():
    with rushlight.no_grad():
        assert Exp.apply(leaf(1)).grad_fn is None
    assert Exp.apply(rushlight.ones(1)).grad_fn is None


def test_saved_outputs_have_tangents():
    """Forward mode over the gradient of a Function that keeps its output."""

    class Exp(rushlight.autograd.Function):
        @staticmethod
        def forward(x):
            return x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)
            ctx.save_for_forward(output)

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx, t):
            return t * ctx.saved_tensors[0]

    x = rushlight.tensor([0.5, -1.0])
    slope = rushlight.func.grad(lambda x: Exp.apply(x).sum())
    assert rushlight.allclose(rushlight.func.jvp(slope, (x,), (x,))[1], x * x.exp())
