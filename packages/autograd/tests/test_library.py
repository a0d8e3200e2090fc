"""Operators of one's own."""

from __future__ import annotations

import pytest

import rushlight
from rushlight import library


@library.custom_op("test_library::scaled", mutates_args=())
def scaled(x, factor=2.0):
    return rushlight.from_numpy(x.detach().numpy() * factor)


@scaled.register_fake
def _(x, factor=2.0):
    return rushlight.empty_like(x)


def _keep(ctx, inputs, output):
    ctx.factor = inputs[1] if len(inputs) > 1 else 2.0
    ctx.count = len(inputs)


scaled.register_autograd(lambda ctx, g: (g * ctx.factor, None)[: ctx.count], setup_context=_keep)


def test_an_operator_computes_differentiates_and_has_a_name():
    x = rushlight.tensor([1.0, 2.0], requires_grad=True)
    assert rushlight.ops.test_library.scaled is scaled and scaled.default is scaled
    for call in (lambda x: scaled(x, 3.0), lambda x: rushlight.ops.test_library.scaled(x, factor=3.0)):
        y = call(x)
        assert y.tolist() == [3.0, 6.0]
        assert rushlight.autograd.grad(y.sum(), x)[0].tolist() == [3.0, 3.0]
    with rushlight.no_grad():
        assert not scaled(x).requires_grad
    assert scaled(rushlight.empty(4, device="meta")).shape == (4,)


def test_defined_in_parts():
    library.define("test_library::added", "(Tensor x, Tensor y) -> Tensor")
    with pytest.raises(NotImplementedError, match="test_library::added has no kernel for cpu"):
        rushlight.ops.test_library.added(rushlight.ones(1), rushlight.ones(1))

    @library.impl("test_library::added", "cpu")
    def added(x, y):
        return x + y

    assert rushlight.ops.test_library.added(rushlight.ones(1), rushlight.ones(1)).item() == 2.0
    with pytest.raises(NotImplementedError, match="meta"):
        rushlight.ops.test_library.added(*[rushlight.ones(1, device="meta")] * 2)
    mine = library.Library("test_library", "FRAGMENT")
    assert mine.define("negated(Tensor x) -> Tensor") == "negated"
    mine.impl("negated", rushlight.neg, "CompositeExplicitAutograd")
    assert rushlight.ops.test_library.negated(rushlight.ones(1)).item() == -1.0


def test_bad_names():
    for name in ("plain", "a::b::c", "::x", "1a::b"):
        with pytest.raises(ValueError, match="namespace::name"):
            library.custom_op(name, lambda x: x, mutates_args=())
    with pytest.raises(ValueError, match="kind"):
        library.Library("test_library", "OTHER")
    with pytest.raises(OSError, match="binary operators"):
        rushlight.ops.load_library("x.so")
