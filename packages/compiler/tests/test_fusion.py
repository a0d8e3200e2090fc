"""Fused programs against the interpreter: random graphs of elementwise ops, reductions and views."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight
from rushlight.compiler.codegen.program import compile_program
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.ir import Graph, Value
from rushlight.compiler.graph.passes import eliminate_common, eliminate_dead
from rushlight.compiler.graph.text import parse, text
from rushlight.compiler.graph.verify import verify
from rushlight.compiler.lower.fuse import groups_of
from rushlight.core.op import prims

rushlight.tensor(0)
UNARY = ("neg", "exp", "tanh", "sigmoid", "relu")
BINARY = ("add", "sub", "mul", "maximum")
SHAPES = ((3, 4), (4,), (3, 1))


@st.composite
def graphs(draw) -> Graph:
    """Graphs of up to 12 calls on three inputs of shapes that broadcast."""
    graph = Graph()
    values: list[Value] = [graph.input(rushlight.ones(*shape)._meta) for shape in SHAPES]
    for _ in range(draw(st.integers(1, 12))):
        pick = st.sampled_from(values)
        kind = draw(st.sampled_from(("unary", "binary", "number", "sum", "permute")))
        value = draw(pick)
        if kind == "unary":
            values.append(graph.call(prims.__getattr__(draw(st.sampled_from(UNARY))), (value,)))
        elif kind == "binary":
            other = draw(pick)
            try:
                values.append(graph.call(prims.__getattr__(draw(st.sampled_from(BINARY))), (value, other)))
            except RuntimeError:
                continue  # the shapes do not broadcast
        elif kind == "number":
            values.append(graph.call(prims.mul, (value, draw(st.sampled_from((2, 0.5, -1.0))))))
        elif value.meta.ndim == 2:
            if kind == "sum":
                values.append(graph.call(prims.sum, (value,), ((draw(st.integers(0, 1)),), draw(st.booleans()), value.meta.dtype)))
            else:
                values.append(graph.call(prims.permute, (value,), ((1, 0),)))
    graph.output(draw(st.lists(st.sampled_from(values[3:] or values), min_size=1, max_size=3)))
    return graph


def inputs() -> list:
    rng = np.random.default_rng(0)
    return [rushlight.from_numpy(rng.uniform(-1, 1, shape).astype(np.float32)) for shape in SHAPES]


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_program_equals_interpreter(graph):
    verify(graph)
    for got, want in zip(compile_program(graph)(inputs()), interpret(graph, inputs()), strict=True):
        assert got._meta is want._meta
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-6, atol=2e-6)


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_passes_and_text_keep_the_meaning(graph):
    want = interpret(graph, inputs())
    for changed in (parse(text(graph)), eliminate_dead(eliminate_common(parse(text(graph))))):
        for a, b in zip(interpret(verify(changed), inputs()), want, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_groups_run_in_an_order_that_works(graph):
    done = set(graph.inputs)
    for group in groups_of(graph):
        assert all(v in done for v in group.operands())
        done.update(v for node in group.nodes for v in node.outputs)


def test_a_chain_becomes_one_loop():
    graph = Graph()
    x = graph.input(rushlight.ones(8, 8)._meta)
    value = x
    for name in UNARY:
        value = graph.call(prims.__getattr__(name), (value,))
    graph.output([value])
    program = compile_program(graph)
    assert len(program.kernels) == 1
    assert "fused_0(0, 64, v1, v0)  # neg, exp, tanh, sigmoid, relu" in program.source


def test_outputs_that_are_equal_stay_distinct_tensors():
    graph = Graph()
    x = graph.input(rushlight.ones(3)._meta)
    graph.output([graph.call(prims.exp, (x,)), graph.call(prims.exp, (x,))])
    first, second = compile_program(graph)([rushlight.zeros(3)])
    first.add_(1)
    assert second.tolist() == [1, 1, 1]


def test_a_sum_of_many_large_tensors_is_split_into_loops():
    graph, count = Graph(), 40
    tensors = [rushlight.from_numpy(np.full((512, 128), i, np.float32)) for i in range(count)]
    values = [graph.input(t._meta) for t in tensors]
    total = values[0]
    for value in values[1:]:
        total = graph.call(prims.add, (total, value))
    graph.output([total])
    assert set(compile_program(graph)(tensors)[0].numpy().ravel().tolist()) == {sum(range(count))}
