"""Moving groups down: each still runs after what it reads, and never is more in memory at a time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight
from rushlight.compiler.graph.ir import Graph, Value, root
from rushlight.compiler.lower import order
from rushlight.compiler.lower.fuse import Group, groups_of
from rushlight.core.meta import meta
from rushlight.core.op import prims

rushlight.tensor(0)
SIZE = 4
OPS = {"matmul": 2, "exp": 1, "add": 2, "permute": 1, "sums": 1}


def call(graph: Graph, name: str, *operands: Value) -> Value:
    """A product, a loop, a view, or products of the sums of rows."""
    if name == "permute":
        return graph.call(prims.permute, operands, ((1, 0),))
    if name == "sums":
        column = graph.call(prims.sum, operands, ((1,), True, rushlight.float32))
        return graph.call(prims.matmul, (column, graph.call(prims.permute, (column,), ((1, 0),))))
    return graph.call(getattr(prims, name), operands)


@st.composite
def graphs(draw) -> Graph:
    graph = Graph()
    values = [graph.input(meta(rushlight.float32, (SIZE, SIZE))) for _ in range(2)]
    for name in draw(st.lists(st.sampled_from([*OPS]), min_size=2, max_size=14)):
        values.append(call(graph, name, *[draw(st.sampled_from(values)) for _ in range(OPS[name])]))
    graph.output(draw(st.lists(st.sampled_from(values[2:]), min_size=1, max_size=3)))
    return graph


def most(graph: Graph, groups: list[Group]) -> int:
    """The most bytes at a time, when all is freed that is read no more; checks that all is there that is read."""
    ends = {root(v): len(groups) for v in graph.outputs}
    for place, group in enumerate(groups):
        for v in group.operands():
            ends[root(v)] = max(ends.get(root(v), 0), place)
    there, largest, done = set(graph.inputs), 0, set(graph.inputs)
    for place, group in enumerate(groups):
        assert set(group.operands()) <= done
        done.update(v for node in group.nodes for v in node.outputs)
        there.update(v for node in group.nodes for v in node.outputs if root(v) is v and v in ends)
        largest = max(largest, sum(v.meta.numel for v in there) * 4)
        there = {v for v in there if ends.get(v, -1) > place}
    return largest


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_no_more_is_in_memory(graph):
    groups = groups_of(graph)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "LARGE", 1)
        moved = order.late(graph, groups)
    assert sorted(map(id, moved)) == sorted(map(id, groups))
    assert most(graph, moved) <= most(graph, groups)


def test_a_gradient_waits_for_what_is_computed_again(monkeypatch):
    monkeypatch.setattr(order, "LARGE", 1)
    graph = Graph()
    grad, weight, kept = [graph.input(meta(rushlight.float32, (SIZE, SIZE))) for _ in range(3)]
    by_inner = graph.call(prims.matmul, (grad, weight))
    again = graph.call(prims.linear_weight_grad, (graph.call(prims.exp, (kept,)), grad))
    graph.output([again, graph.call(prims.mul, (call(graph, "permute", by_inner), kept)), grad, weight])
    names = [group.nodes[0].op.name for group in order.late(graph, groups_of(graph))]
    assert names == ["exp", "linear_weight_grad", "matmul", "permute", "mul"]
