"""`rushlight.func` and `rushlight.autograd.functional`: derivatives of functions, in nestings."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight
from rushlight.autograd import functional
from rushlight.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

X = rushlight.tensor([0.5, 1.0, 2.0], dtype=rushlight.float64)


def cubes(x):
    return x * x * x


def mixed(x):
    return x.prod() + (x * x).sum()


def close(a, b):
    np.testing.assert_allclose(a.detach().numpy(), np.asarray(b), rtol=1e-12, atol=1e-12)


def test_grad_nests_and_leaves_no_history():
    first = grad(lambda x: cubes(x).sum())(X)
    close(first, 3 * X.numpy() ** 2)
    assert not first.requires_grad
    third = grad(grad(grad(cubes)))(X[1])
    close(third, 6)


def test_grad_of_several_arguments_of_trees_and_with_more_results():
    def loss(params, x):
        y = params["w"] * x + params["b"][0]
        return (y * y).sum(), y

    params = {"w": X, "b": [rushlight.ones(3, dtype=rushlight.float64)]}
    (gradient, at), (value, aux) = grad_and_value(loss, (0, 1), has_aux=True)(params, X)
    y = X.numpy() ** 2 + 1
    close(gradient["w"], 2 * y * X.numpy())
    close(gradient["b"][0], 2 * y)
    close(at, 2 * y * X.numpy())
    close(aux, y)
    close(value, (y * y).sum())


def test_gradients_reach_tensors_from_outside():
    w = X.clone().requires_grad_()
    grad(lambda x: (w * x * x).sum())(X).sum().backward()
    close(w.grad, 2 * X.numpy())


def test_products_with_the_jacobian():
    v = rushlight.tensor([1.0, 2.0, 3.0], dtype=rushlight.float64)
    value, push = jvp(cubes, (X,), (v,))
    close(value, X.numpy() ** 3)
    close(push, 3 * X.numpy() ** 2 * v.numpy())
    value, pull = vjp(cubes, X)
    close(pull(v)[0], 3 * X.numpy() ** 2 * v.numpy())
    value, linear = linearize(cubes, X)
    close(linear(v) + linear(v), 6 * X.numpy() ** 2 * v.numpy())


def test_jvp_of_a_constant():
    def constant(x):
        return rushlight.ones(2)

    assert jvp(constant, (X,), (X,))[1].tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="independent of the primals.*strict"):
        jvp(constant, (X,), (X,), strict=True)


def test_jacobians_and_hessians_agree():
    close(jacrev(cubes)(X), np.diag(3 * X.numpy() ** 2))
    close(jacfwd(cubes)(X), np.diag(3 * X.numpy() ** 2))
    x = X.numpy()
    expected = np.array([[2, x[2], x[1]], [x[2], 2, x[0]], [x[1], x[0], 2]])
    for second in (hessian(mixed), jacrev(jacrev(mixed)), jacrev(grad(mixed)), lambda x: functional.hessian(mixed, x)):
        close(second(X), expected)


def test_vmap_over_dimensions_and_structures():
    a, b = rushlight.arange(6.0).view(2, 3), rushlight.arange(3.0)
    close(vmap(lambda x, y: (x * y).sum(), (0, None))(a, b), (a.numpy() * b.numpy()).sum(1))
    result = vmap(lambda pair: {"s": pair[0] + pair[1], "t": pair[0]}, ((1, 0),), {"s": 0, "t": 1})((a, b))
    close(result["s"], a.numpy().T + b.numpy()[:, None])
    close(result["t"], a.numpy())


def test_vmap_of_grad_gives_gradients_per_sample():
    w = rushlight.tensor([1.0, 2.0], dtype=rushlight.float64)
    xs = rushlight.tensor([[1.0, 0.0], [0.0, 3.0]], dtype=rushlight.float64)
    close(vmap(grad(lambda w, x: (w * x).sum() ** 2), (None, 0))(w, xs), [[2, 0], [0, 36]])
    close(vmap(vmap(cubes))(xs), xs.numpy() ** 3)


@pytest.mark.parametrize("call, message", [
    (lambda: vmap(cubes, 2)(X), "in_dims"),
    (lambda: vmap(cubes, None)(X), "at least one input must be batched"),
    (lambda: vmap(lambda a, b: a)(X, rushlight.ones(2)), "same size in the mapped dimension"),
    (lambda: vmap(lambda a: 1)(X), "must only return Tensors"),
])
def test_vmap_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_grad_refuses_results_that_are_no_number():
    with pytest.raises(RuntimeError, match="expected the function to return a scalar tensor"):
        grad(cubes)(X)
    with pytest.raises(RuntimeError, match="argnums"):
        grad(cubes, 3)(X)


def test_functional_products():
    v = rushlight.tensor([1.0, 2.0, 3.0], dtype=rushlight.float64)
    _, pulled = functional.vjp(cubes, X, v)
    _, pushed = functional.jvp(cubes, X, v)
    close(pulled, 3 * X.numpy() ** 2 * v.numpy())
    close(pushed, pulled.numpy())
    h = functional.hessian(mixed, X).numpy()
    close(functional.hvp(mixed, X, v)[1], h @ v.numpy())
    close(functional.vhp(mixed, X, v)[1], h @ v.numpy())


def test_functional_jacobian_of_several_inputs_and_strictness():
    def function(x, y):
        return x * y, y.sum()

    (a, b), (c, d) = functional.jacobian(function, (X, X))
    close(a, np.diag(X.numpy()))
    close(b, np.diag(X.numpy()))
    close(c, np.zeros(3))
    close(d, np.ones(3))
    with pytest.raises(RuntimeError, match="independent of an input"):
        functional.jacobian(function, (X, X), strict=True)
    with pytest.raises(RuntimeError, match="v has invalid size"):
        functional.vjp(cubes, X, rushlight.ones(2))


def test_created_graph_can_be_differentiated():
    x = X.clone().requires_grad_()
    functional.jacobian(cubes, x, create_graph=True).sum().backward()
    close(x.grad, 6 * X.numpy())


class Affine:
    """What `functional_call` needs of a module."""

    def __init__(self):
        self._parameters = {"weight": rushlight.ones(3, dtype=rushlight.float64)}
        self._buffers = {"shift": rushlight.zeros(3, dtype=rushlight.float64)}
        self._modules = {}

    def __call__(self, x):
        return self._parameters["weight"] * x + self._buffers["shift"]


def test_functional_call():
    module = Affine()
    before = module._parameters["weight"]
    close(rushlight.func.functional_call(module, {"weight": X}, X), X.numpy() ** 2)
    assert module._parameters["weight"] is before
    gradient = grad(lambda p: rushlight.func.functional_call(module, p, (X,)).sum())({"weight": X})
    close(gradient["weight"], X.numpy())
    with pytest.raises(RuntimeError, match="no parameter or buffer named other"):
        rushlight.func.functional_call(module, {"other": X}, X, strict=True)
    with pytest.raises(RuntimeError, match="missing key"):
        rushlight.func.functional_call(module, {"weight": X}, X, strict=True)


def sharp(x):
    return (x.exp() * x.roll(1)).sum() * x[0]


def third(f, at):
    return jacfwd(jacfwd(jacrev(f)))(at)


def products(f):
    """The Hessian, from its products with unit vectors."""
    return lambda x: vmap(lambda v: jvp(grad(f), (x,), (v,))[1])(rushlight.eye(3, dtype=rushlight.float64))


@pytest.mark.parametrize("nesting", [
    lambda f: jacfwd(jacrev(f)), lambda f: jacrev(jacfwd(f)), lambda f: jacfwd(jacfwd(f)), lambda f: jacfwd(grad(f)),
    products,
])
def test_modes_nest_in_any_order(nesting):
    close(nesting(sharp)(X), jacrev(jacrev(sharp))(X).numpy())


def test_third_order_and_levels_do_not_mix():
    close(third(sharp, X), jacrev(jacrev(jacrev(sharp)))(X).numpy())
    one = rushlight.ones((), dtype=rushlight.float64)

    def outer(x):  # d/dx (x * d/dy (x + y)) = 1: the inner derivative is not to see the tangent of x
        return x * jvp(lambda y: x + y, (one,), (one,))[1]

    close(jvp(outer, (one * 2,), (one,))[1], 1)


def test_history_reaches_through_forward_mode():
    w = X.clone().requires_grad_()
    value, tangent = jvp(lambda x: (w * x * x).sum(), (X,), (X,))
    tangent.backward()
    close(w.grad, 2 * X.numpy() ** 2)
    with rushlight.no_grad():
        assert not jvp(lambda x: w * x, (X,), (X,))[1].requires_grad
    assert not jvp(lambda x: x.softmax(0), (X,), (X,))[1].requires_grad
    assert not jvp(grad(sharp), (X,), (X,))[1].requires_grad
    _, second = jvp(grad(lambda x: (w * cubes(x)).sum()), (X,), (X,))
    second.sum().backward()
    close(w.grad, 2 * X.numpy() ** 2 + 6 * X.numpy() ** 2)


def test_a_function_with_forward_mode_only():
    class Half(rushlight.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x / 2

        @staticmethod
        def jvp(ctx, d):
            return d / 2

    close(jacfwd(Half.apply)(X), np.eye(3) / 2)


def test_jacfwd_runs_the_function_once_and_takes_several_arguments():
    calls = []

    def function(x, y):
        calls.append(0)
        return {"a": x * y, "b": y.sum()}, len(calls)

    blocks, aux = jacfwd(function, (0, 1), has_aux=True)(X, 2 * X[:1])
    assert aux == 1
    close(blocks["a"][0], np.diag([1.0, 1, 1]))
    close(blocks["a"][1], X.numpy()[:, None])
    close(blocks["b"][0], np.zeros(3))
    close(blocks["b"][1], [1.0])
    assert jacfwd(lambda x: x * 2)(rushlight.ones(0)).shape == (0, 0)


@pytest.mark.parametrize("primal, tangent, error, message", [
    (X, X[:2], RuntimeError, r"tangent 0 to have the shape of its primal"),
    (X.long(), X, ValueError, "primal 0 to be floating point"),
    (1.0, X, RuntimeError, "expected a Tensor as primal 0, got float"),
])
def test_jvp_refuses(primal, tangent, error, message):
    with pytest.raises(error, match=message):
        jvp(cubes, (primal,), (tangent,))
    with pytest.raises(ValueError, match="input 0 to be floating point"):
        jacfwd(cubes)(X.long())
    with pytest.raises(RuntimeError, match="tangent 0 to have the shape"):
        linearize(cubes, X)[1](X[:2])
    with pytest.raises(RuntimeError, match="only tensors, got int"):
        jvp(lambda x: 1, (X,), (X,))


@pytest.mark.parametrize("pattern, sizes, shape", [
    ("a b c -> c b a", {}, (4, 3, 2)), ("(x y) b c -> x (y b) c", {"x": 2}, (2, 3, 4)),
    ("... c -> c ...", {}, (4, 2, 3)),
    ("a ... -> a (...)", {}, (2, 12)), ("a b c -> a 1 b (c)", {}, (2, 1, 3, 4)),
    ("a b (p q) -> () q (a b) p", {"q": 2}, (1, 2, 6, 2)),
])
def test_rearrange(pattern, sizes, shape):
    x = rushlight.arange(24).view(2, 3, 4)
    found = rushlight.func.rearrange(x, pattern, **sizes)
    assert found.shape == shape
    left, right = pattern.split("->")
    lengths = {"a": 2, "b": 3, "c": 4, "x": 2, "p": 2} | sizes
    used = {name: n for name, n in lengths.items() if name in pattern}
    close(rushlight.func.rearrange(found, f"{right} -> {left}", **used) if "..." not in pattern else x, x)
    assert rushlight.func.rearrange([x, x], "n ... -> ... n").shape == (2, 3, 4, 2)


@pytest.mark.parametrize("pattern, message", [
    ("a b c -> a b", "only on one side.*c"), ("a b -> b a", "Number of dimensions in pattern"),
    ("a a c -> a c", "duplicate"),
    ("(a b) c d -> a b c d", "at once"), ("(a x) b c -> a x b c", "do not make up"), ("a b c -> (a b c", "Imbalanced"),
    ("a (...) -> a (...)", "ellipsis in parentheses"), ("a b c", "one"), ("a b c? -> a b c", "names of dimensions"),
])
def test_rearrange_refuses(pattern, message):
    with pytest.raises(ValueError, match=message):
        rushlight.func.rearrange(rushlight.ones(2, 3, 4), pattern, **({"x": 3} if "x" in pattern else {}))


def test_linearize_keeps_a_linear_function():
    calls = []

    def function(x, y):
        calls.append(0)
        z = x.clone()
        z[1:] = y[:2] * x[0]
        return z.sin() * y, x.sum(), rushlight.ones(2)

    y = X.flip(0)
    outputs, push = linearize(function, X, y)
    for scale in (1.0, -2.0):
        expected, tangents = jvp(function, (X, y), (X * scale, y + scale))
        for a, b in zip(push(X * scale, y + scale), tangents):
            close(a, b)
    assert len(calls) == 3  # its own, and those of jvp
    for a, b in zip(outputs, expected):
        close(a, b)
    w = X.clone().requires_grad_()
    linearize(lambda x: x * x * w, X)[1](X).sum().backward()
    close(w.grad, 2 * X.numpy() ** 2)
    v = X.clone().requires_grad_()
    linearize(lambda x: x * x, X)[1](v).sum().backward()
    close(v.grad, 2 * X.numpy())


def test_jacobians_by_chunks_and_of_empty_results():
    for size in (1, 2, 3, 9):
        close(jacrev(sharp_vector, chunk_size=size)(X), jacrev(sharp_vector)(X).numpy())
    assert jacrev(lambda x: x[:0])(X).shape == (0, 3)
    assert jacfwd(lambda x: x[:0])(X).shape == (0, 3)
    with pytest.raises(ValueError, match="chunk_size"):
        jacrev(sharp_vector, chunk_size=0)


def sharp_vector(x):
    return x.exp() * x.roll(1) * x[0]
