"""What the backward pass saves: the least that it can be computed from."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight
from rushlight.compiler.aot.mincut import cheapest_to_save
from rushlight.compiler.graph.ir import Graph, Value
from rushlight.core.op import prims

pytest.importorskip("rushlight.autograd")
from rushlight.compiler.aot.joint import joint_graph  # noqa: E402
from rushlight.compiler.aot.partition import partition  # noqa: E402

rushlight.tensor(0)


@st.composite
def programs(draw) -> tuple[list, list[int], list[int]]:
    """What each of a few values is made from (None: cannot be made again), what each costs, which are needed."""
    count = draw(st.integers(1, 7))
    parents = [draw(st.none() | st.lists(st.integers(0, i - 1), max_size=2)) if i else None for i in range(count)]
    return (
        parents,
        draw(st.lists(st.integers(1, 9), min_size=count, max_size=count)),
        draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=3)),
    )


def is_enough(saved: set[int], parents: list, needed: list[int]) -> bool:
    """Can all that is needed be computed from what is saved?"""

    def known(i: int) -> bool:
        return i in saved or (parents[i] is not None and all(known(p) for p in parents[i]))

    return all(known(i) for i in needed)


@settings(max_examples=200, deadline=None)
@given(programs())
def test_no_choice_is_cheaper(program):
    parents, costs, needed = program
    saved = cheapest_to_save(needed, parents.__getitem__, costs.__getitem__)
    assert is_enough(set(saved), parents, needed)
    everything = range(len(parents))
    choices = [set(c) for size in range(len(parents) + 1) for c in combinations(everything, size)]
    assert sum(costs[i] for i in saved) == min(
        sum(costs[i] for i in c) for c in choices if is_enough(c, parents, needed)
    )


def saved_metas(make) -> list:
    """The metadata of what is saved besides inputs and outputs; `make(graph)` makes a program."""
    graph = Graph()
    outputs = make(graph)
    graph.output(outputs)
    parts = partition(joint_graph(graph))
    return [parts.forward.outputs[i].meta for i in parts.saved_outputs if i >= len(outputs)]


def inputs(graph: Graph, *shapes: tuple[int, ...]) -> list[Value]:
    """Inputs that require grad."""
    return [graph.input(rushlight.ones(*shape)._meta.with_grad(True)) for shape in shapes]


def call(graph: Graph, name: str, *operands, params: tuple = ()) -> Value:
    """A call whose result requires grad."""
    op = getattr(prims, name)
    metas = op.infer(*[x.meta if isinstance(x, Value) else rushlight.core.op.meta_of(x) for x in operands], *params)
    return graph.call(op, operands, params, metas.with_grad(True))


def test_a_chain_of_pointwise_calls_is_computed_again():
    def make(graph: Graph) -> list[Value]:
        x, y = inputs(graph, (8, 8), (8, 8))
        return [call(graph, "mul", call(graph, "sigmoid", call(graph, "mul", call(graph, "exp", x), y)), x)]

    assert saved_metas(make) == []


def test_an_activation_is_not_saved_beside_what_it_is_made_from():
    def make(graph: Graph) -> list[Value]:
        x, w, v = inputs(graph, (4, 8), (16, 8), (3, 16))
        hidden = call(graph, "linear", x, w, None)
        return [call(graph, "linear", call(graph, "gelu", hidden), v, None)]

    assert [m.shape for m in saved_metas(make)] == [(4, 16)]


def test_products_are_not_computed_again():
    def make(graph: Graph) -> list[Value]:
        x, y = inputs(graph, (4, 4), (4, 4))
        return [call(graph, "mul", call(graph, "matmul", x, y), x)]

    assert [m.shape for m in saved_metas(make)] == [(4, 4)]


def test_no_more_bytes_are_saved_than_by_eager_execution():
    functional = pytest.importorskip("rushlight.nn").functional
    x, w, b = (
        rushlight.randn(16, 32, requires_grad=True),
        rushlight.randn(64, 32, requires_grad=True),
        rushlight.randn(64),
    )

    def fn(x, w, b):
        hidden = functional.gelu(functional.linear(x, w, b))
        return functional.softmax(hidden * hidden.sigmoid(), -1).tanh().mean()

    def storages(tensors) -> int:
        found = {id(t.storage()): t.nbytes for t in tensors if t is not x and t is not w}
        return sum(found.values())

    kept: list = []
    with rushlight.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        fn(x, w, b)
    assert storages(rushlight.compile(fn, fullgraph=True)(x, w, b).grad_fn.saved) < storages(kept) / 2
