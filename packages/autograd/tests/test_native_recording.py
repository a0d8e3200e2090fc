"""Recording in machine code leaves the nodes that recording in Python leaves."""

from __future__ import annotations

import gc
import sys
import tracemalloc

import pytest

import rushlight
from rushlight.autograd.graph import saved_tensors_hooks
from rushlight.autograd.state import AutogradState
from rushlight.core import native
from rushlight.core.op import REGISTRY, meta_of

pytestmark = pytest.mark.skipif(not native.possible(), reason="native calls are switched off or not for this Python")
BUILTIN = type(len)


@pytest.fixture(scope="module", autouse=True)
def installed():
    assert native.install()


def _leaf(*shape):
    return rushlight.rand(*shape).requires_grad_()


def _plan(name, operands, params=()):
    op = REGISTRY[name]
    op.apply(operands, params)
    plan = op.plans[(*[getattr(x, "_meta", None) or type(x) for x in operands], *params)]
    assert type(plan) is BUILTIN
    return plan, plan.__self__[1]


def _described(x):
    """What recording left on a result, but for the places in time and the objects themselves."""
    state = x._auto
    assert type(state) is AutogradState
    node, output = state.edge
    saved = [(type(s), s._meta if hasattr(s, "_meta") else s) for s in node.saved]
    rest = (state.grad, state.leaf_edge, state.post_hooks, state.retains, node.extras, output, node.versions)
    view = state.view and (state.view[0], *state.view[1:])
    return type(node), node.recipe, node.edges, saved, rest, view, state.origin, x._meta, x._storage is None


CALLS = {
    "mul": lambda: (_leaf(3), _leaf(3)),
    "add": lambda: (_leaf(2, 3), 2.5),
    "exp": lambda: (_leaf(3),),
    "matmul": lambda: (_leaf(2, 3), rushlight.rand(3, 2)),
    "true_divide": lambda: (1, _leaf(3)),
    "linear": lambda: (rushlight.rand(2, 3), _leaf(4, 3), _leaf(4)),
}


@pytest.mark.parametrize("name", CALLS)
def test_nodes_are_the_same(name):
    operands = CALLS[name]()
    natively, in_python = _plan(name, operands)
    for x in operands:  # a leaf whose edge some graph holds, and one with history
        if meta_of(x).requires_grad:
            held = x * 2
            before, after = in_python(*operands), natively(*operands)
            assert _described(after) == _described(before) and after.tolist() == before.tolist()
            assert after._auto.edge[0].order < before._auto.edge[0].order < held._auto.edge[0].order
    grads = [meta_of(x).requires_grad for x in operands]
    results = [plan(*operands).sum() for plan in (natively, in_python)]
    wanted = [x for x, has in zip(operands, grads, strict=True) if has]
    first, second = [rushlight.autograd.grad(result, wanted) for result in results]
    assert [g.tolist() for g in first] == [g.tolist() for g in second]


def test_views_follow_their_base():
    x = _leaf(3, 4) * 1
    natively, in_python = _plan("permute", (x,), ((1, 0),))
    first, second = natively(x), in_python(x)
    assert _described(first) == _described(second) and first._auto.base is second._auto.base is x
    again = [plan(first[1:2]) for plan in _plan("permute", (first[1:2],), ((1, 0),))]
    assert again[0]._auto.base is again[1]._auto.base is x and again[0]._auto.origin is x._auto
    x.mul_(2)
    assert first.grad_fn is not None and first.sum().requires_grad
    with rushlight.no_grad():
        assert not natively(x.detach()).requires_grad


def test_a_leaf_takes_its_place_in_each_new_graph():
    x = _leaf(2)
    for _ in range(3):
        y = x * 2
        leaf = x._auto.leaf_edge[0]
        assert y._auto.edge[0].order < leaf.order
        held, before = x * 3, leaf.order
        assert (x * 4)._auto.edge[0].order < before == leaf.order
        del y, held


def test_what_watches_calls_sees_them():
    x, packed = _leaf(2), []

    def pack(value):
        packed.append(value)
        return value

    for _ in range(3):
        x * x
        with rushlight.no_grad():
            assert not (x * x).requires_grad
        with saved_tensors_hooks(pack, lambda value: value):
            x * x
        with rushlight.autograd.set_detect_anomaly(True):
            assert (x * x)._auto.edge[0].extras.stack
    assert len(packed) == 6


def test_references_are_given_back():
    x, y, b = _leaf(3), _leaf(3), _leaf(3)
    calls = [
        lambda: x * y, lambda: x + 1.0, lambda: x.exp(), lambda: x[1:], lambda: x.reshape(3, 1).T, lambda: x[0] * x[1],
        lambda: (x * y).sum().backward(), lambda: b.sigmoid(),
    ]  # fmt: skip
    for call in [*calls, *calls]:
        call()
    gc.collect()
    watched = [x, y, b, x._meta, x._array, x._auto, x._storage, x._auto.leaf_edge, (x * y)._auto.edge[0].recipe]
    before = [sys.getrefcount(thing) for thing in watched]
    tracemalloc.start()
    for _ in range(500):
        for call in calls:
            call()
    gc.collect()
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    after = [sys.getrefcount(thing) for thing in watched]
    assert all(now <= then for now, then in zip(after, before)), (after, before)  # others may let the metadata go
    assert current < 20_000


def test_errors_of_the_plan_below_come_through():
    x = rushlight.zeros(3, requires_grad=True)
    for _ in range(3):
        x[1]
        with pytest.raises(IndexError):
            x[5]
        with pytest.raises(OverflowError):
            x * 10**400
