"""Rows of numpy's loops as one native call: see `rushlight.core.native_sequences`."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

import rushlight
from rushlight.core import native
from rushlight.core.meta import meta, of_number
from rushlight.core.op import REGISTRY, plan_key
from rushlight.core.tensor import wrap
from rushlight.ops.normalization import layer_norm

pytestmark = pytest.mark.skipif(not native.possible(), reason="native calls are switched off or not for this Python")
BUILTIN = type(len)
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, 3e38, -1.0, 1.0]


@pytest.fixture(scope="module", autouse=True)
def installed():
    assert native.install()


def _native(function, operands, *outs):
    """The native form of a plan that makes tensors of what a function makes of arrays."""
    from rushlight.core.native_sequences import sequence

    def plan(*operands):
        made = function(*[getattr(x, "_array", x) for x in operands])
        results = [wrap(np.asarray(a), m) for a, m in zip(made if isinstance(made, tuple) else (made,), outs)]
        return tuple(results) if isinstance(made, tuple) else results[0]

    metas = tuple([x._meta if isinstance(x, rushlight.Tensor) else x for x in operands])
    return plan, sequence(plan, function, metas, (), outs if len(outs) > 1 else outs[0], np.dtype(np.float32))


def _softmax(x):
    e = x - x.max(axis=-1, keepdims=True)
    np.exp(e, out=e)
    e /= e.sum(axis=-1, keepdims=True)
    return e


def _standard(x):
    mean = x.mean(axis=(1, 2), keepdims=True)
    return np.where(x > mean, x - mean, np.float32(0)), mean.reshape(-1), np.maximum.reduce(x, axis=None)


def _running_sum(x):
    return np.add.accumulate(x, axis=1, dtype=np.float64).astype(np.float32)


def _largest_of_pairs(x):
    found = np.full_like(x, -np.inf, shape=(3, 4))
    for first in range(2):
        part = x[:, first::2]
        np.copyto(found, part, where=(part > found) | np.isnan(part))
    found[1:, :2] += x[1:, -2:]
    return found


FUNCTIONS = {
    "softmax": (_softmax, [(2, 3, 7)], [(2, 3, 7)]),
    "several results": (_standard, [(2, 3, 7)], [(2, 3, 7), (2,), ()]),
    "broadcasting": (lambda x, y: (x * y + 2) / (1 + np.abs(y)), [(4, 1, 5), (3, 1)], [(4, 3, 5)]),
    "choice": (lambda x, y: np.where(x < y, 1, np.where(np.isnan(x), y, x)), [(6, 5), (5,)], [(6, 5)]),
    "least": (lambda x: np.minimum.reduce(x, axis=-1) * -0.5, [(5, 9)], [(5,)]),
    "float64 inside": (lambda x: (x.astype(np.float64) / 3).sum(axis=1).astype(np.float32), [(4, 5)], [(4,)]),
    "parts": (lambda x: x[::-1, None, 1:] * x.swapaxes(0, 1)[2, :, None, None], [(3, 4)], [(3, 1, 3)]),
    "windows": (_largest_of_pairs, [(3, 8)], [(3, 4)]),
    "running sum": (_running_sum, [(2, 5, 3)], [(2, 5, 3)]),
    "products": (lambda x, y: np.matmul(x, y.swapaxes(-1, -2)), [(2, 3, 4), (2, 5, 4)], [(2, 3, 5)]),
    "outer folds": (lambda x: x.sum(axis=(0, 2)) + np.maximum.reduce(x[:, :, 0].copy(), axis=0), [(3, 4, 5)], [(4,)]),
    "constant array": (lambda x: np.where(np.tri(3, 4, dtype=bool), x, np.float32(0)), [(3, 4)], [(3, 4)]),
    "sum of many": (lambda x: np.add.reduce(np.square(x), axis=1), [(3, 700)], [(3,)]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("strided", [False, True])
def test_the_same_bytes(name, strided):
    function, shapes, results = FUNCTIONS[name]
    rng = np.random.default_rng(0)

    def operand(shape, special):
        values = rng.standard_normal(shape).astype(np.float32)
        if special:
            values.ravel()[:: 3] = np.resize(SPECIAL, values.ravel()[::3].shape)
        return rushlight.from_numpy(np.repeat(values, 2, -1)[..., ::2] if strided else values)

    outs = [meta(rushlight.float32, shape) for shape in results]
    operands = [operand(shape, False) for shape in shapes]
    with np.errstate(all="ignore"):
        plan, found = _native(function, operands, *outs)
        folds_operand = name in ("softmax", "several results", "least", "outer folds")
        assert (type(found) is BUILTIN) is not (strided and folds_operand)
        for special in (False, True):
            operands = [operand(shape, special) for shape in shapes]
            both = [f(*operands) for f in (found, plan)]
            for x, y in zip(*[made if isinstance(made, tuple) else (made,) for made in both], strict=True):
                assert x._meta is y._meta and x._array.tobytes() == y._array.tobytes()
                assert x._storage is None and x._auto is None and (x._array.flags.owndata or found is plan)


def _written(x):
    x += 1
    return x


def _endless(x):
    while x.max() < 100:
        x = x + 0
    return x


def _moved(x):
    y = x + 1
    y -= y.sum(axis=1, keepdims=True) + y.reshape(4, 3).max()
    np.add(y.reshape(3, 4, 1), y.reshape(3, 4, 1), out=y.reshape(3, 4, 1))
    np.add(y, y.reshape(12)[:4], out=y)
    return y


@pytest.mark.parametrize("function", [
    lambda x: x, lambda x: x.reshape(-1).reshape(x.shape), _written, _endless, lambda x: x * x.astype(np.float64) > 0,
    lambda x: x.astype(np.int32), lambda x: np.cumsum(x, axis=1), lambda x: np.asarray(x) * 2, lambda x: x[::-1],
    lambda x: x + x[np.array([0, 2, 1])], lambda x: np.zeros((3, 4), np.float32), lambda x: x + float(x.sum()),
    lambda x: np.add(x, x, where=x > 0), lambda x: x.T.sum(axis=1) + x, lambda x: x + np.arange(4),
    lambda x: np.where(x > 0, x, 1j), lambda x: (x + 1).reshape(4, 3), lambda x: np.flip(x, 0) + 1,
    lambda x: sum([x] * 100, x), _moved, lambda x: np.broadcast_to(x.max(), (3, 4)),
])  # fmt: skip
def test_what_no_sequence_says_stays_with_python(function):
    plan, found = _native(function, [rushlight.ones(3, 4)], meta(rushlight.float32, (3, 4)))
    assert found is plan


ACTIVATIONS = ("sigmoid", "silu", "gelu", "mish", "logsigmoid", "hardswish", "hardsigmoid", "erf")
WITH_NUMBERS = {
    "softplus": (1.0, 20.0), "elu": (1.0, 1.0, 2.0), "clamp": (-1, 0.5), "leaky_relu": (0.1,), "hardtanh": (0, 6),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_activations_of_all_layouts(dtype):
    values = np.resize(np.array([*SPECIAL, 0.3, -0.7, 20.5, -90.0], dtype), (4, 13))
    layouts = [values, values.T, values[:, ::2], values[1:2], values[0], values[0, 3]]
    natively = 0
    for name, numbers in [*[(name, ()) for name in ACTIVATIONS], *WITH_NUMBERS.items()]:
        op = REGISTRY[name]
        for array in layouts:
            operands = (rushlight.from_numpy(np.array(array) if not array.ndim else array), *numbers)
            found, plan = op.apply(operands), op.plans[plan_key(operands, ())]
            if type(plan) is BUILTIN:
                expected = plan.__self__[1](*operands)
                natively += 1
                assert found._meta is expected._meta and found._array.tobytes() == expected._array.tobytes(), op
    assert natively > 40


def test_branches_are_those_of_the_operands():
    x, out = rushlight.ones(3, 4), meta(rushlight.float32, (3, 4))
    plan, found = _native(lambda x: x * 2 if np.square(x).sum() > x.sum() else -x, [x], out)
    assert type(found) is BUILTIN
    for value, expected in ((x * 3, x * 6), (x / 2, -x / 2)):
        assert found(value).tolist() == plan(value).tolist() == expected.tolist()
    plan, found = _native(lambda x: x * 2 if np.square(x).sum() < 0 else -x, [x], out)
    assert found is plan, "what is never done natively"


def test_numbers_are_rounded_where_python_rounds_them():
    operands, out = [rushlight.ones(4), of_number(float)], meta(rushlight.float32, (4,))
    plan, found = _native(lambda x, p: x * (1 - p), operands, out)
    assert found is plan


def test_constant_arrays_are_shared_where_nobody_writes_them_and_never_large():
    x, out = rushlight.ones(30, 30), meta(rushlight.float32, (30, 30))
    shared = np.lib.stride_tricks.sliding_window_view(np.arange(59, dtype=np.float32), 30)[::-1]
    own = np.arange(900, dtype=np.float32).reshape(30, 30)
    for constant, is_shared in ((shared, True), (own, False)):
        plan, found = _native(lambda x, a=constant: x * a, [x], out)
        assert type(found) is BUILTIN and (found.__self__[-1][0] is constant) is is_shared
        assert found(x).tolist() == constant.tolist()
    large = np.ones((40, 40), np.float32)
    plan, found = _native(lambda x: x * large, [rushlight.ones(40, 40)], meta(rushlight.float32, (40, 40)))
    assert found is plan
    for diagonal in (-40, -2, 0, 3, 40):
        assert x.tril(diagonal).tolist() == np.tril(x.numpy(), diagonal).tolist()
        assert x[:3].triu(diagonal).tolist() == np.triu(x[:3].numpy(), diagonal).tolist()


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("dtype", [rushlight.float32, rushlight.float64])
def test_losses_of_classes(reduction, dtype):
    x, target = rushlight.randn(6, 5, dtype=dtype), rushlight.tensor([0, 4, 2, 2, 1, 3])
    x[1, 2], x[3, 0] = np.inf, -np.inf
    ignoring, wrong = rushlight.tensor([0, -100, 2, 2, 1, 3]), rushlight.tensor([0, 4, 5, 2, 1, 3])
    names = ("cross_entropy", "nll_loss", "cross_entropy_backward")
    forward, picked, backward = [REGISTRY[name] for name in names]
    params = (-100, reduction)
    for at in (target, ignoring, target):
        grad = rushlight.rand(() if reduction != "none" else (6,), dtype=dtype)
        found = forward.apply((x, at, None), params)
        given = (x, at, None), (x, at, None), (grad, x, at, None, *found[1:])
        for op, operands in zip((forward, picked, backward), given):
            made = op.apply(operands, params)
            plan = op.plans[plan_key(operands, params)]
            assert type(plan) is BUILTIN
            expected = plan.__self__[1](*operands)
            for a, b in zip(*[m if isinstance(m, tuple) else (m,) for m in (made, expected)], strict=True):
                assert a._meta is b._meta and a._array.tobytes() == b._array.tobytes(), op
    with pytest.raises(IndexError, match="Target 5 is out of bounds for 5 classes"):
        forward.apply((x, wrong, None), params)


def test_operands_that_are_not_as_they_were_go_to_python():
    x = rushlight.randn(4, 4)
    softplus, params = REGISTRY["softplus"], (1.0, 20.0)
    softplus.apply((x, *params))
    plan = softplus.plans[plan_key((x, *params), ())]
    assert type(plan) is BUILTIN
    twice = plan(x, 2, 20.0)  # another type of number
    assert twice.tolist() == softplus.apply((x, 2.0, 20.0)).tolist()
    weight = rushlight.ones(4)
    for given in ((None, None), (weight, None), (weight, weight)):
        expected = (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, correction=0) + 1e-5).sqrt()
        if given[1] is not None:
            expected = expected + 1
        assert rushlight.allclose(layer_norm(x, (4,), *given), expected, atol=1e-5)


def test_nothing_is_kept():
    x = rushlight.randn(4, 4)
    calls = [lambda: x.softmax(-1), lambda: layer_norm(x, (4,)), lambda: x.sigmoid()]
    for call, _ in itertools.product(calls, range(50)):
        call()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for call, _ in itertools.product(calls, range(500)):
            call()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()
