"""Operators of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np
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


@library.custom_op("test_library::sine", mutates_args=())
def sine(x: rushlight.Tensor, factor: float = 1.0, *, k: bool = True) -> rushlight.Tensor:
    return rushlight.from_numpy(np.sin(x.detach().numpy()) * factor)


sine.register_fake(lambda x, factor=1.0, *, k=True: rushlight.empty_like(x))
sine.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0].cos(),
                       setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))


def test_schemas_follow_from_annotations():
    def f(x: rushlight.Tensor, n: int | None = None, *, s: list[int], t: Sequence[rushlight.Tensor], d: rushlight.dtype,
          o: Optional[float] = None) -> tuple[rushlight.Tensor, int]: ...  # noqa: UP045

    assert library.infer_schema(f, mutates_args={"x"}, op_name="f") == (
        "f(Tensor(a0!) x, SymInt? n=None, *, SymInt[] s, Tensor[] t, ScalarType d, float? o=None) -> (Tensor, SymInt)")
    assert sine._schema == "test_library::sine(Tensor x, float factor=1.0, *, bool k=True) -> Tensor"
    for wrong, match in ((lambda x: x, "must have a type annotation"), (lambda *x: x, "varargs")):
        with pytest.raises(ValueError, match=match):
            library.infer_schema(wrong, mutates_args=())
    with pytest.raises(ValueError, match="not arguments"):
        library.infer_schema(f, mutates_args=("y",))


@pytest.mark.parametrize("own", [False, True])
def test_operators_in_vmap(own):
    op = library.custom_op(f"test_library::v{own}", lambda x, y: (x @ y).clone(), mutates_args=())
    seen = []
    if own:
        @op.register_vmap
        def batched(info, in_dims, x, y):
            seen.append((info.batch_size, in_dims))
            return rushlight.stack([(a @ y).clone() for a in x.unbind(in_dims[0])]), 0

    x, y = rushlight.randn(3, 2, 4), rushlight.randn(4)
    rushlight.testing.assert_close(rushlight.vmap(op, (0, None))(x, y), x @ y)
    assert seen == ([(3, (0, None))] if own else [])


def test_writes_and_shared_memory_are_seen():
    op = library.custom_op("test_library::fill", lambda x: x.numpy().fill(3), mutates_args={"x"})
    x = rushlight.ones(2)
    assert op(x) is None and x.tolist() == [3.0, 3.0] and x._version == 1
    same = library.custom_op("test_library::same", lambda x: x, mutates_args=())
    with pytest.raises(RuntimeError, match="return a copy"):
        same(x)
    alone = library.custom_op("test_library::alone", lambda x: x * 2, mutates_args=())
    y = alone(rushlight.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        y.sum().backward()


def test_operators_are_checked():
    x = rushlight.randn(3, requires_grad=True)
    names = ("test_schema", "test_autograd_registration", "test_faketensor")
    assert library.opcheck(sine, (x,), test_utils=names) == dict.fromkeys(names, "SUCCESS")
    wrong = library.custom_op("test_library::wrong", lambda x: x.add_(1).clone(), mutates_args=())
    wrong.register_fake(lambda x: rushlight.empty(7))
    found = library.opcheck(wrong, (x,), test_utils=names, raise_exception=False)
    assert ["writes to an argument" in str(found[names[0]]), "no gradient" in str(found[names[1]]),
            "shape function" in str(found[names[2]])] == [True] * 3
    with pytest.raises(library.OpCheckError, match="test_schema failed"):
        library.opcheck(wrong, (x,), test_utils=names)


def test_operators_of_differentiated_operations():
    op = library.triton_op("test_library::both", lambda x: x.sin() * 2, mutates_args=())
    x = rushlight.ones(2, requires_grad=True)
    op(x).sum().backward()
    rushlight.testing.assert_close(x.grad, 2 * x.detach().cos())
    with library._scoped_library("test_library", "FRAGMENT") as mine:
        mine.define("thrice(Tensor x) -> Tensor")
        mine.impl("thrice", lambda x: x * 3, "CompositeImplicitAutograd")
    assert rushlight.autograd.grad(rushlight.ops.test_library.thrice(x).sum(), x)[0].tolist() == [3.0, 3.0]


def test_operators_cast_in_regions():
    pytest.importorskip("rushlight.amp")
    x = rushlight.ones(2)
    cast = library.custom_op("test_library::cast", lambda x: x * 1, mutates_args=())
    cast.register_autocast("cpu", rushlight.bfloat16)
    assert cast(x).dtype is rushlight.float32
    with rushlight.autocast("cpu", rushlight.bfloat16):
        assert cast(x).dtype is rushlight.bfloat16


def test_gradients_belong_to_parameters_in_whatever_order_arguments_come():
    def scaled(x, y, factor=2.0):
        return x * y * factor

    op = library.custom_op("test_library::scaled", scaled, mutates_args=())
    needs = []

    def save(ctx, inputs, output):
        needs.append(ctx.needs_input_grad)
        ctx.x, ctx.y, ctx.factor = inputs

    def gradient(ctx, grad):
        needs.append(ctx.needs_input_grad)
        return grad * ctx.y * ctx.factor, grad * ctx.x * ctx.factor if ctx.needs_input_grad[1] else None, None

    op.register_autograd(gradient, setup_context=save)
    x, y = rushlight.ones(2, requires_grad=True), rushlight.full((2,), 3.0, requires_grad=True)
    for result in (op(x, y), op(y=y, x=x), op(x, factor=2.0, y=y)):
        assert [g.tolist() for g in rushlight.autograd.grad(result.sum(), (x, y))] == [[6.0, 6.0], [2.0, 2.0]]
    op(x, y.detach()).sum().backward()
    assert needs[-1] == (True, False, False) and len({len(n) for n in needs}) == 1

    def kept(x, *, factor=2.0):
        return x * factor

    named = library.custom_op("test_library::named", kept, mutates_args=())

    def save_named(ctx, inputs, keyword_only_inputs, output):
        ctx.factor = keyword_only_inputs["factor"]

    named.register_autograd(lambda ctx, grad: grad * ctx.factor, setup_context=save_named)
    assert rushlight.autograd.grad(named(x, factor=5.0).sum(), x)[0].tolist() == [5.0, 5.0]


def test_lists_of_tensors_have_gradients():
    op = library.custom_op("test_library::total", lambda xs, k: (xs[0] + xs[1]) * k, mutates_args=())
    needs = []

    def save(ctx, inputs, output):
        needs.append(ctx.needs_input_grad)
        ctx.k = inputs[1]

    op.register_autograd(lambda ctx, grad: ([grad * ctx.k, None], None), setup_context=save)
    x = rushlight.ones(2, requires_grad=True)
    op([x, rushlight.ones(2)], 3.0).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0] and needs == [([True, False], False)]
    batch = rushlight.ones(4, 2)
    assert rushlight.func.vmap(lambda a: op([a, a], 2.0))(batch).tolist() == (batch * 4).tolist()
    writes = library.custom_op("test_library::writes", lambda xs: xs[0].numpy().fill(1), mutates_args=("xs",))
    y = rushlight.zeros(2)
    writes([y])
    assert y._version == 1 and y.tolist() == [1.0, 1.0]


def test_a_new_operator_has_nothing_of_an_earlier_one_of_its_name():
    x = rushlight.ones(1, requires_grad=True)
    first = library.custom_op("test_library::again", lambda x: x * 2, mutates_args=())
    first.register_autograd(lambda ctx, grad: grad * 2)
    second = library.custom_op("test_library::again", lambda x: x * 3, mutates_args=())
    assert rushlight.ops.test_library.again is second and first(x).item() == 2 and second(x).item() == 3
    with pytest.raises(RuntimeError, match="no autograd formula"):
        second(x).backward()
    for register in (library.register_autograd, library.register_fake, library.register_vmap):
        with pytest.raises(RuntimeError, match="test_library::nobody does not exist"):
            register("test_library::nobody", lambda *args: None)
    with pytest.raises(ValueError, match=r"\['z'\] in mutates_args are not arguments"):
        library.custom_op("test_library::other", lambda x: x, mutates_args=("z",))


def test_checks_see_writes_beside_nan():
    wrong = library.custom_op("test_library::hidden", lambda x: x.add_(1).clone(), mutates_args=())
    with pytest.raises(library.OpCheckError, match="writes to an argument"):
        library.opcheck(wrong, (rushlight.tensor([float("nan"), 1.0]),), test_utils="test_schema")
    right = library.custom_op("test_library::whole", lambda x: x * 2, mutates_args=())
    library.opcheck(right, (rushlight.tensor([float("nan"), 1.0]),), test_utils="test_schema")
