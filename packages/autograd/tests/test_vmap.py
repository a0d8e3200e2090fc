"""`vmap`: what it does with dims, nesting, writing and random numbers; rules of ops are tested elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight
from rushlight.func import fallbacks, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

X = rushlight.tensor(np.linspace(-1, 2, 24).reshape(2, 3, 4))


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)


def of_each(function, x, dim=0, out=0):
    return rushlight.stack([function(part) for part in x.unbind(dim)], out)


def smooth(x):
    return (x.sin() * x.flip(0)).cumsum(0).exp()


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2])
@pytest.mark.parametrize("out", [0, 1, -1])
def test_dims(dim, out):
    close(vmap(smooth, dim, out)(X), of_each(smooth, X, dim, out))


@pytest.mark.parametrize("chunk", [1, 2, 3, 5])
def test_chunks(chunk):
    sizes = []

    def function(x, w):
        sizes.append(0)
        return x * w, w

    a, b = vmap(function, (1, None), (1, None), chunk_size=chunk)(X, X[0, 0])
    close(a, X * X[0, 0])
    close(b, X[0, 0])
    assert len(sizes) == -(-3 // chunk)
    with pytest.raises(ValueError, match="chunk_size"):
        vmap(function, chunk_size=0)


def test_a_batch_of_nothing():
    a, b, c = vmap(lambda x, y: (x.sum(), x, y * 2), (0, None), (0, -1, None))(X[:0], X[0])
    assert a.shape == (0,) and b.shape == (3, 4, 0) and a.dtype is X.dtype
    close(c, X[0] * 2)


def test_indices_of_each_sample():
    rows = rushlight.tensor([2, 0])
    close(vmap(lambda x, i: x[i])(X, rows), rushlight.stack([X[0, 2], X[1, 0]]))
    close(vmap(lambda x, i: x[1, i])(X, rows), rushlight.stack([X[0, 1, 2], X[1, 1, 0]]))
    close(vmap(lambda x, i: x.index_select(0, i))(X, rows), rushlight.stack([X[0, 2:3], X[1, :1]]))
    hot = vmap(lambda i: rushlight.nn.functional.one_hot(i, 3))(rows) if hasattr(rushlight, "nn") else None
    assert hot is None or hot.tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize("pattern", ["i", ":i", "ii", "i:i", ":i:", ":ii", "i:ii", ":i:i"])
@pytest.mark.parametrize("dims", [(0, None, None), (0, 0, 0), (None, 0, None), (0, None, 0)])
def test_indices_beside_slices(pattern, dims):
    """What indices that are apart say goes to the front of a sample, but behind the batch."""
    x = rushlight.arange(48).reshape(3, 2, 2, 2, 2)
    rows, columns = rushlight.tensor([[1, 0], [0, 0], [1, 1]]), rushlight.tensor([[0, 1], [1, 1], [0, 0]])
    given = [a if d == 0 else a[0] for a, d in zip((x, rows, columns), dims)]

    def place(i, j):
        indices = iter((i, j, i))
        return tuple(next(indices) if c == "i" else slice(None) for c in pattern)

    def read(x, i, j):
        return x[place(i, j)] + i.sum()

    def write(x, i, j):
        y = x + 0 * i.sum()
        y[place(i, j)] *= 2
        return y

    for function in (read, write):
        each = [function(*[a[k] if d == 0 else a for a, d in zip(given, dims)]) for k in range(3)]
        close(vmap(function, dims)(*given), rushlight.stack(each))


def test_functions_see_single_samples():
    def function(x):
        assert x.shape == (3, 4) and x.ndim == 2 and x.stride() == (4, 1) and len(x) == 3
        assert "BatchedTensor" in repr(x)
        return x.reshape(-1)[:2]

    assert vmap(function)(X).shape == (2, 2)


NESTINGS = {
    "vmap": lambda f: vmap(vmap(f)),
    "vmap of an inner dimension": lambda f: vmap(vmap(f, 0, 0), 1, 1),
    "grad": lambda f: vmap(vmap(grad(lambda x: f(x).sum()))),
    "grad around": lambda f: grad(lambda x: vmap(vmap(f))(x).sum()),
    "grad between": lambda f: vmap(grad(lambda x: vmap(f)(x).sum())),
    "grad of grad": lambda f: vmap(vmap(grad(lambda x: grad(lambda y: f(y).sum())(x).sum()))),
    "jvp": lambda f: vmap(vmap(lambda x: jvp(f, (x,), (x,))[1])),
    "jvp around": lambda f: lambda x: jvp(vmap(vmap(f)), (x,), (x,))[1],
    "jvp between": lambda f: vmap(lambda x: jvp(vmap(f), (x,), (x,))[1]),
    "jvp of grad": lambda f: vmap(vmap(lambda x: jvp(grad(lambda y: f(y).sum()), (x,), (x,))[1])),
    "grad of jvp": lambda f: vmap(vmap(grad(lambda x: jvp(f, (x,), (x,))[1].sum()))),
    "linearize": lambda f: vmap(vmap(lambda x: linearize(f, x)[1](x))),
    "vjp": lambda f: vmap(vmap(lambda x: vjp(f, x)[1](x)[0])),
    "jacrev": lambda f: vmap(vmap(jacrev(f))),
    "jacfwd": lambda f: vmap(vmap(jacfwd(f))),
    "hessian": lambda f: vmap(vmap(hessian(lambda x: f(x).sum()))),
    "hessian by reverse mode": lambda f: vmap(vmap(jacrev(jacrev(lambda x: f(x).sum())))),
}
SINGLE = {
    "grad": lambda f: grad(lambda x: f(x).sum()),
    "grad of grad": lambda f: grad(lambda x: grad(lambda y: f(y).sum())(x).sum()),
    "jvp": lambda f: lambda x: jvp(f, (x,), (x,))[1],
    "jvp of grad": lambda f: lambda x: jvp(grad(lambda y: f(y).sum()), (x,), (x,))[1],
    "grad of jvp": lambda f: grad(lambda x: jvp(f, (x,), (x,))[1].sum()),
    "vjp": lambda f: lambda x: vjp(f, x)[1](x)[0],
    "jacrev": jacrev,
    "hessian": lambda f: hessian(lambda x: f(x).sum()),
}
SAME = {
    "vmap": None,
    "vmap of an inner dimension": None,
    "grad around": "grad",
    "grad between": "grad",
    "jvp around": "jvp",
    "jvp between": "jvp",
    "linearize": "jvp",
    "jacfwd": "jacrev",
    "hessian by reverse mode": "hessian",
}


@pytest.mark.parametrize("name", NESTINGS)
def test_nestings_agree_with_loops(name):
    """Each function of one row of X, under two levels of batches."""
    same = SAME.get(name, name)
    single = smooth if same is None else SINGLE[same](smooth)
    expected = rushlight.stack([rushlight.stack([single(row) for row in part]) for part in X])
    close(NESTINGS[name](smooth)(X), expected, 1e-10)


def test_closures_are_differentiated_through():
    w = X[0, 0].clone().requires_grad_()
    vmap(lambda x: vmap(lambda row: (row * w).sum() ** 2)(x))(X).sum().backward()
    v = X[0, 0].clone().requires_grad_()
    ((X * v).sum(-1) ** 2).sum().backward()
    close(w.grad, v.grad)


def test_gradients_of_inner_gradients_reach_out():
    def penalty(w):
        return (vmap(grad(lambda x: (w * x * x * x).sum()))(X[0]) ** 2).sum()

    w = X[0, 0]
    close(grad(penalty)(w), 2 * 9 * w * (X[0] ** 4).sum(0))


def test_shared_arguments_get_gradients_per_sample():
    w = X[0, 0]
    found = vmap(grad(lambda w, x: (w * x).sum() ** 2), (None, 0))(w, X[0])
    close(found, 2 * (X[0] @ w)[:, None] * X[0])
    rows = vmap(lambda x: rushlight.autograd.functional.jacobian(lambda w: w * x, w))(X[0])
    close(rows, of_each(rushlight.diag, X[0]))


def test_batched_gradients_of_a_graph():
    x = X[0].clone().requires_grad_()
    y = x.sin().sum(1)
    weights = rushlight.eye(3, dtype=rushlight.float64)
    (rows,) = rushlight.autograd.grad(y, x, weights, is_grads_batched=True, retain_graph=True, create_graph=True)
    close(rows, weights[:, :, None] * x.cos())
    rows.sum().backward()
    close(x.grad, -x.sin())
    (same,) = vmap(lambda w: rushlight.autograd.grad(y, x, w, retain_graph=True))(weights)
    close(same, rows)


@pytest.mark.parametrize("vectorize", [False, True])
def test_functional_derivatives(vectorize):
    functional = rushlight.autograd.functional
    x = X[0, 0]
    a, b = functional.jacobian(lambda x: (smooth(x), x.sum()), x, vectorize=vectorize)
    close(a, jacrev(smooth)(x))
    close(b, rushlight.ones_like(x))
    full = hessian(lambda x: smooth(x).sum())(x)
    close(functional.hessian(lambda x: smooth(x).sum(), x, vectorize=vectorize), full)
    if vectorize:
        close(functional.jacobian(smooth, x, vectorize=True, strategy="forward-mode"), a)
        forward = functional.hessian(
            lambda x: smooth(x).sum(), x, vectorize=True, outer_jacobian_strategy="forward-mode"
        )
        close(forward, full)


def test_the_tape_inside_of_a_level():
    def leaf_gradient(x):
        y = x.detach().requires_grad_()
        z = y * 2
        z.register_hook(lambda g: g * 3)
        with rushlight.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
            (z * z).sum().backward()
        (y * X[0]).sum().backward()
        return y.grad

    close(vmap(leaf_gradient)(X), 24 * X + X[0])
    with rushlight.autograd.detect_anomaly():
        close(vmap(grad(lambda x: (x * x).sum()))(X), 2 * X)
        with pytest.raises(RuntimeError, match="returned nan values"), pytest.warns(UserWarning, match="Traceback"):
            vmap(grad(lambda x: (x * 0).sqrt().sum() * 0))(X)


def test_blocks_without_gradient():
    def function(x):
        with rushlight.no_grad():
            y = x * 2
        return y * x + x.detach() * x

    close(grad(lambda x: vmap(function)(x).sum())(X), 3 * X)
    close(vmap(grad(lambda x: function(x).sum()))(X), 3 * X)


@pytest.mark.parametrize("check", ["gradcheck", "gradgradcheck"])
def test_checks_of_gradients(check):
    x = X[0].clone().requires_grad_()
    options = {"check_forward_ad": True, "check_batched_forward_grad": True} if check == "gradcheck" else {}
    assert getattr(rushlight.autograd, check)(lambda x: vmap(smooth)(x), (x,), check_batched_grad=True, **options)


# Writing


def test_writing_into_samples():
    def function(x):
        y = x.clone()
        y[0] = y[1] * 2
        y.add_(x)
        y.t()[1:].mul_(3)
        return y

    close(vmap(function)(X), of_each(function, X))
    close(vmap(grad(lambda x: (function(x) ** 2).sum()))(X), of_each(grad(lambda x: (function(x) ** 2).sum()), X))
    close(vmap(lambda x: jvp(function, (x,), (x,))[1])(X), of_each(lambda x: jvp(function, (x,), (x,))[1], X))


@pytest.mark.parametrize(
    "make",
    [
        rushlight.zeros_like,
        rushlight.empty_like,
        lambda x: x.new_zeros(3, 4),
        lambda x: x.t().new_empty(3, 4),
        lambda x: rushlight.ones_like(x, dtype=rushlight.float64),
        lambda x: x.new_full((3, 4), 2.0),
    ],
)
def test_tensors_made_like_a_sample_can_be_written_to(make):
    def function(x):
        y = make(x)
        y[:] = x
        return y

    close(vmap(function)(X), X)
    close(vmap(vmap(vmap(lambda x: rushlight.zeros_like(x).copy_(x))))(X), X)


def test_writing_changes_the_argument():
    x = X.clone()
    vmap(lambda x: x.add_(1))(x)
    close(x, X + 1)


@pytest.mark.parametrize(
    "function, error, message",
    [
        (
            lambda x: rushlight.zeros(3, 4, dtype=rushlight.float64).add_(x),
            RuntimeError,
            "add_: in-place writing of batched",
        ),
        (lambda x: x if x.sum() > 0 else -x, RuntimeError, "data-dependent control flow"),
        (lambda x: x * x.sum().item(), RuntimeError, "calling .item"),
        (lambda x: x.nonzero(), RuntimeError, "nonzero: the shape of the result depends on the data"),
        (lambda x: x[x > 0], RuntimeError, "the shape of the result depends on the data"),
        (lambda x: x.numpy(), RuntimeError, "no array of its own"),
        (lambda x: x.tolist(), RuntimeError, "memory of a batched tensor cannot be used"),
        (lambda x: rushlight.tensor(np.sin(x)), RuntimeError, "array of its own"),
        (lambda x: x @ x, RuntimeError, "cannot be multiplied"),
        (lambda x: rushlight.rand(2), RuntimeError, "randomness error mode"),
        (lambda x: rushlight.bernoulli(x), RuntimeError, "randomness error mode"),
    ],
)
def test_refusals(function, error, message):
    with pytest.raises(error, match=message):
        vmap(function)(X)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="in_dims"):
        vmap(smooth, "a")(X)
    with pytest.raises(IndexError, match="out_dims"):
        vmap(smooth, 0, 5)(X)
    with pytest.raises(ValueError, match="out_dims=None"):
        vmap(smooth, 0, None)(X)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(smooth, randomness="some")


def test_a_shared_value_may_be_looked_at():
    def function(w, x):
        return x * w.sum().item() if w.sum() > 0 else x

    close(vmap(function, (None, 0))(X[0], X), X * X[0].sum() if X[0].sum() > 0 else X)
    close(jacfwd(lambda x: x * 2 if x.sum() > 0 else x * 3)(X[1, 1]), 2 * rushlight.eye(4, dtype=X.dtype))


# Random numbers


DRAWS = [
    lambda x: rushlight.rand(5),
    lambda x: rushlight.randn_like(x),
    lambda x: rushlight.randint(0, 1000, (7,)),
    lambda x: rushlight.randperm(10),
    lambda x: rushlight.bernoulli(x.sigmoid()),
    lambda x: rushlight.normal(x, 1.0),
    lambda x: rushlight.poisson(x.exp()),
]


@pytest.mark.parametrize("draw", DRAWS)
def test_same_and_different_random_numbers(draw):
    x = X[:1].expand(2, 3, 4)
    rushlight.manual_seed(3)
    a, b = vmap(draw, randomness="same")(x)
    assert a.equal(b)
    c, d = vmap(draw, randomness="different")(x)
    assert not c.equal(d) and c.shape == a.shape
    e, f = vmap(draw, randomness="different")(x)
    assert len({repr(t.tolist()) for t in (c, d, e, f)}) == 4  # no numbers are used twice
    rushlight.manual_seed(3)
    assert vmap(draw, randomness="same")(x)[0].equal(a)


def test_levels_draw_each_in_its_way():
    x = rushlight.zeros(3, 4)
    nested = vmap(vmap(lambda x: x + rushlight.rand(()), randomness="same"), randomness="different")(x)
    assert all(len(set(row.tolist())) == 1 for row in nested) and len(set(nested[:, 0].tolist())) == 3


def test_what_ran_sample_by_sample_is_listed():
    before = fallbacks().get("histc", 0)
    vmap(lambda x: rushlight.histc(x, 4, -1, 2))(X)
    assert fallbacks()["histc"] == before + 1
