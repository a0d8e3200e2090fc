"""Compiled programs against eager execution: gradients, aliasing, what is saved, and the states of autograd."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import rushlight
from rushlight.compiler.backends.registry import lookup
from rushlight.compiler.graph.ir import Graph
from rushlight.core.op import prims

grad = pytest.importorskip("rushlight.autograd").grad
tape = pytest.importorskip("rushlight.compiler.aot.tape")
BACKENDS = ("eager", "aot_eager", "inductor")
every_backend = pytest.mark.parametrize("backend", BACKENDS)


@pytest.fixture(params=BACKENDS)
def compile(request):
    """`compile` with a backend, whose functions must not run eagerly in silence."""
    return lambda fn: rushlight.compile(fn, backend=request.param, fullgraph=True)


def leaf(*shape: int, seed: int = 0, dtype=rushlight.float32) -> rushlight.Tensor:
    """A tensor that requires grad."""
    return rushlight.from_numpy(np.random.default_rng(seed).uniform(0.5, 1.5, shape)).to(dtype).requires_grad_()


def equal(got, want) -> None:
    """The same metadata and nearly the same values."""
    assert (got is None) == (want is None)
    if want is not None:
        assert got._meta is want._meta
        assert rushlight.allclose(
            got.detach(), want.detach(), rtol=1e-5 if want.dtype.itemsize > 2 else 1e-2, equal_nan=True
        )


def agree(compile, fn, *inputs) -> None:
    """Results and gradients of all inputs that require grad are those of eager execution."""
    wanted = [x for x in inputs if x.requires_grad]
    found = []
    for run in (fn, compile(fn)):
        results = run(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        out = [r for r in results if r.requires_grad]
        found.append(
            (results, grad(out, wanted, [rushlight.ones_like(r) for r in out], allow_unused=True) if out else ())
        )
    for want, got in zip(*found):
        assert len(got) == len(want)
        for a, b in zip(got, want):
            equal(a, b)


# inputs and outputs of all kinds


def test_inputs_that_are_not_contiguous(compile):
    agree(compile, lambda x, y: (x * y).tanh().sum(0), leaf(4, 3).T, leaf(3, 8, seed=1)[:, ::2])
    agree(compile, lambda x, y: x @ y.exp(), leaf(4, 3).T, leaf(2, 4, seed=1).T)


def test_expanded_inputs(compile):
    agree(compile, lambda x, y: (x + y) * x, leaf(3, 1).expand(3, 4), leaf(4))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_tensors_without_elements(compile, shape):
    agree(compile, lambda x: (x * 2).exp(), leaf(*shape))
    agree(compile, lambda x: (x * 2).sum(0), leaf(*shape))


def test_scalars(compile):
    agree(compile, lambda x, y: x * y + x.exp(), leaf(), leaf(3))
    agree(compile, lambda x: (x * 3).exp() + 1, leaf())


@pytest.mark.parametrize("dtype", [rushlight.float16, rushlight.bfloat16, rushlight.float64, rushlight.complex64])
def test_other_dtypes(compile, dtype):
    agree(compile, lambda x, y: (x * y).exp() * x + y, leaf(3, 4, dtype=dtype), leaf(4, dtype=dtype, seed=1))


def test_real_results_of_complex_tensors(compile):
    agree(compile, lambda x: x.abs() + x.real * 2, leaf(3, dtype=rushlight.complex64))


def test_mixed_dtypes(compile):
    agree(compile, lambda x, y, i: x * y + i, leaf(3), leaf(3, dtype=rushlight.float64), rushlight.tensor([1, 2, 3]))


def test_results_that_do_not_require_grad(compile):
    agree(compile, lambda x: (x * 2, x > 1, x.detach() * 3, x.argmax()), leaf(5))


def test_inputs_that_are_not_used(compile):
    agree(compile, lambda x, y: x * 2, leaf(3), leaf(3, seed=1))


def test_inputs_that_do_not_require_grad(compile):
    agree(compile, lambda x, y: x * y, leaf(3), rushlight.ones(3) * 2)


def test_the_same_tensor_twice(compile):
    x = leaf(3)
    agree(compile, lambda a, b: a * b + a, x, x)


def test_gradients_that_are_the_incoming_one(compile):
    agree(compile, lambda x, y: x + y, leaf(3), leaf(3, seed=1))
    agree(compile, lambda x, y: (x + y).reshape(2, 3), leaf(3, 2), leaf(3, 2, seed=1))


def test_division_of_integers_by_zero_raises(compile):
    fn = compile(lambda x, y: (x + 1) % y * 2)
    assert fn(rushlight.tensor([4]), rushlight.tensor([3])).tolist() == [4]
    with pytest.raises(Exception, match="(?i)zero"):
        fn(rushlight.tensor([4]), rushlight.tensor([0]))


# aliasing


def test_a_result_that_is_an_input(compile):
    x = leaf(3)
    same, other = compile(lambda x: (x, x * 2))(x)
    assert same is x and other is not x


def test_a_view_of_an_input_follows_it(compile):
    x = rushlight.zeros(2, 3)
    view, _ = compile(lambda x: (x.T, x + 1))(x)
    x.fill_(5)
    assert view.tolist() == [[5, 5]] * 3 and view._base is x


def test_two_views_of_one_result_share_memory(compile):
    a, b = compile(lambda x: (lambda y: (y.T, y[0]))(x * 2))(rushlight.ones(2, 3))
    a.fill_(7)
    assert b.tolist() == [7, 7, 7]


def test_a_result_twice_is_one_tensor(compile):
    a, b = compile(lambda x: (lambda y: (y, y))(x * 2))(leaf(3))
    assert a is b


def test_equal_results_are_distinct_tensors(compile):
    a, b = compile(lambda x: (x * 2, x * 2))(leaf(3))
    with rushlight.no_grad():
        a.fill_(0)
    assert b.detach().numpy().all()


@every_backend
def test_graphs_whose_outputs_are_inputs_and_views(backend):
    graph, x = Graph(), leaf(2, 3)
    value = graph.input(x._meta)
    permuted = graph.call(prims.permute, (value,), ((1, 0),), x.T._meta)
    rows = graph.call(
        prims.unbind, (graph.call(prims.exp, (value,), (), x._meta),), (0,), tuple([r._meta for r in x.unbind(0)])
    )
    graph.output([value, permuted, *rows, permuted])
    same, view, first, second, again = lookup(backend)(graph, [x._meta], {})([x])
    assert same is x and view._base is x and again is view
    assert first._base is second._base
    equal(grad(view.sum() + (first * second).sum(), x)[0], grad(x.T.sum() + x.exp().prod(0).sum(), x)[0])


# what is saved


@pytest.mark.parametrize(
    "fn, change", [(lambda x, w: x * w, lambda x, y: x.mul_(2)), (lambda x, w: (x * w).exp(), lambda x, y: y.add_(1))]
)
def test_changed_saved_tensors_are_an_error(compile, fn, change):
    for run in (fn, compile(fn)):
        x, w = rushlight.ones(3), leaf(3)
        y = run(x, w)
        with rushlight.no_grad():
            change(x, y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_changed_results_that_are_not_saved(compile):
    x = leaf(3)
    y = compile(lambda x: x * 2)(x)
    y.mul_(3)
    equal(grad(y.sum(), x)[0], rushlight.full((3,), 6.0))


def test_gradients_of_an_in_place_change_of_a_result(compile):
    x = leaf(3)
    y = compile(lambda x: x * x)(x)
    y.mul_(x)
    equal(grad(y.sum(), x)[0], (3 * x * x).detach())


def test_a_graph_can_be_used_twice_only_if_retained(compile):
    x = leaf(3)
    y = compile(lambda x: (x * x).exp())(x)
    (first,) = grad(y.sum(), x, retain_graph=True)
    (second,) = grad(y.sum(), x)
    equal(second, first)
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_what_gradients_do_not_need_is_not_kept_alive(compile):
    x = leaf(1000) * 1
    alive = weakref.ref(x)
    y = compile(lambda x: x * 2 + 1)(x)
    del x
    gc.collect()
    assert alive() is None and y.requires_grad


def test_saved_tensors_are_let_go_after_the_backward_pass(compile):
    w, x = leaf(1000), leaf(1000, seed=1) * 1
    alive = weakref.ref(x)
    y = compile(lambda x, w: x * w)(x, w).sum()
    del x
    y.backward()
    gc.collect()
    assert alive() is None


# differentiating


def test_gradients_of_some_inputs(compile):
    x, y = leaf(3), leaf(3, seed=1)
    out = compile(lambda x, y: (x * y).tanh())(x, y)
    (want,) = grad((x * y).tanh().sum(), y)
    equal(grad(out.sum(), y)[0], want)


def test_some_results_used(compile):
    x = leaf(3)
    a, b = compile(lambda x: (x.exp(), x * x))(x)
    equal(grad(b.sum(), x)[0], 2 * x.detach())


def test_gradients_add_up_in_leaves(compile):
    x, w = rushlight.ones(2, 3), leaf(4, 3)
    fn = compile(lambda x, w: (x @ w.T).relu())
    for _ in range(3):
        fn(x, w).sum().backward()
    assert w.grad.tolist() == [[6, 6, 6]] * 4


def test_double_backward(compile):
    for fn in (lambda x, y: (x * y).exp() * x, lambda x, y: x**3 + y, lambda x, y: (x @ y.T).tanh()):
        seconds = []
        for run in (fn, compile(fn)):
            x, y = leaf(3, 3), leaf(3, 3, seed=1)
            first = grad(run(x, y).sum(), (x, y), create_graph=True)
            second = (
                grad((first[0] ** 2).sum() + (first[1] * 2).sum(), (x, y), allow_unused=True, retain_graph=True)
                if any(f.requires_grad for f in first)
                else ()
            )
            seconds.append((*first, *second))
        for got, want in zip(*seconds):
            equal(None if got is None else got.detach(), None if want is None else want.detach())


@pytest.mark.parametrize("program", [
    lambda x, a, n, m: (x ** 3, rushlight.linalg.cholesky(a)),
    lambda x, a, n, m: (x ** 3 + rushlight.linalg.cholesky(a) + n // m,),
    lambda x, a, n, m: ((x ** 3).index_select(0, m) * (n // m),),
])
def test_second_gradients_do_not_compute_what_has_none(compile, program):
    a, n, m = rushlight.tensor([[2.0, 1.0], [1.0, 3.0]]), rushlight.tensor([7, 9]), rushlight.tensor([1, 1])
    found = []
    for run in (program, compile(program)):
        x = leaf(2, 2)
        (first,) = grad(run(x, a, n, m)[0].sum(), x, create_graph=True)
        found.append(grad(first.sum(), x)[0])
    equal(*found)


def test_double_backward_with_inputs_that_depend_on_each_other(compile):
    found = []
    fn = lambda x, y: x * y * y  # noqa: E731
    for run in (fn, compile(fn)):
        x = leaf(3)
        (first,) = grad(run(x, x.exp()).sum(), x, create_graph=True)
        (both,) = grad(run(x, x).sum(), x, create_graph=True)
        found.append([first.detach(), both.detach(), grad(first.sum() + both.sum(), x)[0]])
    for got, want in zip(*found):
        equal(got, want)


def test_hooks(compile):
    w, seen = leaf(3), []
    w.register_hook(lambda g: seen.append(g.tolist()) or g * 10)
    out = compile(lambda x, w: x * w)(rushlight.ones(3), w)
    out.register_hook(lambda g: g * 2)
    out.sum().backward()
    assert seen == [[2, 2, 2]]
    assert w.grad.tolist() == [20, 20, 20]


def test_retain_grad_of_results(compile):
    out = compile(lambda w: w * 3)(leaf(3))
    out.retain_grad()
    (out * out).sum().backward()
    equal(out.grad, 2 * out.detach())


@pytest.mark.parametrize("mode", [rushlight.no_grad, rushlight.inference_mode])
def test_modes(compile, mode):
    x, fn = leaf(3), compile(lambda x: x * 2)
    assert fn(x).requires_grad
    with mode():
        assert not fn(x).requires_grad
    assert fn(x).requires_grad


def test_parts_without_grad(compile):
    def fn(x):
        with rushlight.no_grad():
            y = x * 2
        return x * y + x.detach()

    agree(compile, fn, leaf(3))


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize("used", [(0,), (1,), (2, 3), (0, 1, 2, 3)])
def test_gradients_of_some_results(compile, monkeypatch, used, saved):
    """Other results add nothing: not zeros where there is no gradient, nor zeros times infinity."""

    def refuse(*arguments):
        raise LookupError

    if not saved:
        monkeypatch.setattr(tape, "backward_of", refuse)

    def fn(x, y):
        return x * 2, y.exp(), x.log(), (x * y).sum()

    found = []
    for run in (fn, compile(fn)):
        x, y = rushlight.zeros(2, requires_grad=True), leaf(2)
        results = run(x, y)
        sum([results[i].sum() for i in used]).backward()
        found.append((x.grad, y.grad))
    for want, got in zip(*found, strict=True):
        equal(got, want)


def test_writes_between_the_passes(compile):
    """What the tape does not keep may change, though the gradients could be computed from it."""

    def fn(x):
        y = x + 1
        return y, y.exp() * 2, (x * 3).sigmoid()

    found = []
    for run in (fn, compile(fn)):
        x = leaf(3)
        y, *results = run(x)
        with rushlight.no_grad():
            x.zero_()
            y.zero_()
        sum(results).sum().backward()
        found.append(x.grad)
    equal(found[1], found[0])


@every_backend
def test_saved_tensor_hooks_see_the_tensors(backend):
    graph, x, seen = Graph(), leaf(3), []
    value = graph.input(x._meta)
    graph.output([graph.call(prims.mul, (value, value), (), x._meta)])
    fn = lookup(backend)(graph, [x._meta], {})
    with rushlight.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        (y,) = fn([x])
    equal(grad(y.sum(), x)[0], 2 * x.detach())
    assert seen


def test_next_functions(compile):
    x = leaf(3)
    node = compile(lambda x, y: x * y)(x, rushlight.ones(3)).grad_fn
    assert [f for f, _ in node.next_functions if f is not None][0].variable is x


def test_gradients_of_attention_and_normalisation(compile):
    functional = pytest.importorskip("rushlight.nn").functional

    def fn(x, w, b):
        y = functional.layer_norm(x, (8,), w, b)
        return functional.gelu(functional.softmax(y @ y.transpose(-1, -2), -1) @ y).mean((0, 1))

    agree(compile, fn, leaf(2, 5, 8), leaf(8, seed=1), leaf(8, seed=2))
