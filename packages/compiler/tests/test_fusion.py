"""Fused programs against the interpreter: random graphs of elementwise ops, reductions and views."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight
from rushlight.compiler import _logs
from rushlight.compiler.backends.registry import lookup
from rushlight.compiler.codegen.program import compile_program
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.ir import Graph, Value
from rushlight.compiler.graph.passes import eliminate_common, eliminate_dead
from rushlight.compiler.graph.text import parse, text
from rushlight.compiler.graph.verify import verify
from rushlight.compiler.lower.fuse import groups_of
from rushlight.core.meta import meta
from rushlight.core.op import meta_of, prims
from rushlight.kernels.cpu.elementwise import ElementwiseKernel
from rushlight.kernels.cpu.reduce import ReduceKernel

rushlight.tensor(0)
UNARY = ("neg", "exp", "tanh", "sigmoid", "relu")
BINARY = ("add", "sub", "mul", "maximum")
KINDS = (
    "unary", "binary", "binary", "where", "number", "sum", "mean", "permute", "expand", "product", "linear",
)  # fmt: skip
SHAPES = ((3, 4), (4,), (3, 1))


@st.composite
def graphs(draw, grad: bool = False) -> Graph:
    """Graphs of up to 12 calls on three inputs of shapes that broadcast; in double precision, as errors grow."""
    graph = Graph()
    values: list[Value] = [graph.input(meta(rushlight.float64, s, requires_grad=grad)) for s in SHAPES]

    def call(name: str, operands: tuple, params: tuple = ()) -> Value:
        op = getattr(prims, name)
        metas = op.infer(*[meta_of(x) if not isinstance(x, Value) else x.meta for x in operands], *params)
        return graph.call(op, operands, params, metas.with_grad(grad and metas.dtype.is_inexact))

    for _ in range(draw(st.integers(1, 12))):
        pick = st.sampled_from(values)
        kind = draw(st.sampled_from(KINDS))
        value = draw(pick)
        if kind == "unary":
            values.append(call(draw(st.sampled_from(UNARY)), (value,)))
        elif kind == "binary":
            other = draw(pick)
            try:
                values.append(call(draw(st.sampled_from(BINARY)), (value, other)))
            except RuntimeError:
                continue  # the shapes do not broadcast
        elif kind == "where":
            try:
                values.append(call("where", (call("lt", (value, draw(pick))), value, draw(pick))))
            except RuntimeError:
                continue
        elif kind == "mean":
            dims = tuple(range(value.meta.ndim))
            values.append(call("mean", (value,), (dims, draw(st.booleans()), value.meta.dtype)))
        elif kind == "expand":
            values.append(call("expand", (value,), ((2, *value.meta.shape),)))
        elif kind == "linear":
            if value.meta.ndim and value.meta.shape[-1] == 4:
                values.append(
                    call(
                        "linear",
                        (value, values[0], draw(st.sampled_from((None, *[v for v in values if v.meta.shape == (3,)])))),
                    )
                )
        elif kind == "number":
            values.append(call("mul", (value, draw(st.sampled_from((2, 0.5, -1.0))))))
        elif value.meta.ndim == 2:
            if kind == "sum":
                values.append(
                    call("sum", (value,), ((draw(st.integers(0, 1)),), draw(st.booleans()), value.meta.dtype))
                )
            elif kind == "permute":
                values.append(call("permute", (value,), ((1, 0),)))
            else:
                values.append(call("matmul", (value, call("permute", (value,), ((1, 0),)))))
    graph.output(draw(st.lists(st.sampled_from(values[3:] or values), min_size=1, max_size=3)))
    return graph


def inputs() -> list:
    rng = np.random.default_rng(0)
    return [rushlight.from_numpy(rng.uniform(-1, 1, shape)) for shape in SHAPES]


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_program_equals_interpreter(graph):
    verify(graph)
    for got, want in zip(compile_program(graph)(inputs()), interpret(graph, inputs()), strict=True):
        assert got._meta is want._meta
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-8, atol=1e-8)


@pytest.mark.skipif(find_spec("rushlight.autograd") is None, reason="gradients need rushlight-autograd")
@settings(max_examples=60, deadline=None)
@given(graphs(grad=True), st.booleans())
def test_gradients_equal_those_of_the_interpreter(graph, retain):
    from rushlight.autograd import grad

    compiled = lookup("inductor")(graph, [v.meta for v in graph.inputs], {})
    found = []
    for run in (compiled, lambda values: interpret(graph, values)):
        leaves = [x.requires_grad_() for x in inputs()]
        outputs = run(leaves)
        total = sum([(x * x).sum() for x in outputs])
        before = grad(total, leaves, retain_graph=True, allow_unused=True) if retain else ()
        found.append((*outputs, *before, *grad(total, leaves, allow_unused=True)))
    for got, want in zip(*found, strict=True):
        assert (got is None) is (want is None)
        if got is not None:
            assert got.requires_grad is want.requires_grad
            np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-8, atol=1e-8)


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


def test_large_tensors_that_meet_themselves():
    graph = Graph()
    x = graph.input(meta(rushlight.float32, (300, 200)))
    graph.output([graph.call(prims.add, (x, x))])
    assert compile_program(graph)([rushlight.ones(300, 200)])[0].tolist() == [[2.0] * 200] * 300


def chain(a, b, dim):
    """The program of two fused results and a fold of them, for operands laid out like two arrays."""
    graph = Graph()
    x, y = [graph.input(rushlight.from_numpy(v)._meta) for v in (a, b)]
    value = graph.call(prims.add, (graph.call(prims.tanh, (graph.call(prims.mul, (x, 0.5)),)), y))
    folded = graph.call(prims.exp, (graph.call(prims.neg, (value,)),))
    graph.output([value, graph.call(prims.sum, (folded,), ((dim,), False, folded.meta.dtype))])
    return compile_program(graph), graph


def layouts():
    """Pairs of operands for the same calls: plain, broadcast against 1, transposed, strided, of size 1, large."""
    rng = np.random.default_rng(0)

    def of(*shape):
        return rng.uniform(-1, 1, shape)

    for n, m in ((3, 4), (7, 33), (1, 5), (5, 1), (1, 1), (300, 200)):
        yield of(n, m), of(n, m)
        yield of(n, m), of(1, m)
        yield of(n, 1), of(n, m)
        yield of(1, 1), of(n, m)
        yield of(m, n).T, of(n, m)
        yield of(m, n).T, of(m, n).T
        yield of(2 * n, m)[::2], of(n, 3 * m)[:, ::3]
        yield of(n, m), np.broadcast_to(of(m), (n, m))


@pytest.mark.parametrize("dim", [0, 1])
def test_sizes_share_kernels_and_keep_their_layouts(dim):
    made = set()
    for a, b in layouts():
        program, graph = chain(a, b, dim)
        tensors = [rushlight.from_numpy(v) for v in (a, b)]
        for got, want in zip(program(list(tensors)), interpret(graph, tensors), strict=True):
            assert got._meta is want._meta
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12, atol=1e-12)
        if tensors[0].shape == graph.outputs[0].meta.shape:  # else the first calls have a loop of their own
            made.update(program.kernels)
    assert len([kernel for kernel in made if isinstance(kernel, ElementwiseKernel)]) <= 2  # small folds are numpy's
    assert len([kernel for kernel in made if isinstance(kernel, ReduceKernel)]) == 1


@pytest.mark.parametrize("first, second", [
    (0.0, -0.0), (1, True), (1.0, 2.0), (0.5, np.float32(0.1)), (float("nan"), 1.0),
])  # fmt: skip
def test_kernels_of_numbers_that_differ_are_different(first, second):
    compiled = []
    for number in (first, second, first):
        graph = Graph()
        x = graph.input(meta(rushlight.float64, (2, 3)))
        graph.output([graph.call(prims.mul, (graph.call(prims.exp, (x,)), number))])
        compiled.append(compile_program(graph))
        got, want = compiled[-1]([rushlight.zeros(2, 3).double()])[0], np.full((2, 3), float(number))
        np.testing.assert_array_equal(got.numpy(), want)
        np.testing.assert_array_equal(np.signbit(got.numpy()), np.signbit(want))
    a, b, c = [program.kernels[0] for program in compiled]
    assert a is c and a is not b


def test_kernels_of_other_wirings_and_dtypes_are_different():
    def kernel(dtype, swapped):
        graph = Graph()
        x, y = [graph.input(meta(dtype, (2, 3))) for _ in range(2)]
        operands = (graph.call(prims.exp, (x,)), graph.call(prims.neg, (y,)))
        graph.output([graph.call(prims.sub, operands[::-1] if swapped else operands)])
        program = compile_program(graph)
        got = program([rushlight.ones(2, 3).to(dtype), rushlight.zeros(2, 3).to(dtype)])[0]
        assert got.tolist()[0][0] == pytest.approx(-np.e if swapped else np.e, rel=1e-2)
        return program.kernels[0]

    kinds = [(dtype, swapped) for dtype in (rushlight.float32, rushlight.float64, rushlight.bfloat16)
             for swapped in (False, True)]
    assert len({kernel(*kind) for kind in [*kinds, *kinds]}) == len(kinds)


@pytest.mark.parametrize("dtype", [rushlight.float16, rushlight.bfloat16])
def test_numbers_beside_half_types_are_those_of_eager(dtype):
    x, third = rushlight.tensor([0.1, 0.3, 1e-3, 2.7, 100.0]).to(dtype), rushlight.tensor(1 / 3)

    def steps(x, third):
        far = rushlight.where(x > 0.3, x * 0.1, third / x)
        return far, (far - third) / 1e5, rushlight.where(x == rushlight.tensor(0.1), x, 0.7), x <= third

    for found, wanted in zip(rushlight.compile(steps)(x, third), steps(x, third)):
        assert found.tolist() == wanted.tolist() and found.dtype is wanted.dtype


def test_equal_graphs_have_equal_groups():
    def sizes():
        graph = Graph()
        x, y, z = [graph.input(meta(rushlight.float32, (2, 3))) for _ in range(3)]
        apart = [graph.call(prims.exp, (x,)), graph.call(prims.neg, (y,)), graph.call(prims.abs, (z,))]
        graph.output([graph.call(prims.sub, (graph.call(prims.mul, (apart[0], apart[1])), apart[2]))])
        return [[node.op.name for node in group.nodes] for group in groups_of(graph)]

    kept = [sizes() for _ in range(20)]
    assert all(groups == kept[0] for groups in kept)


def test_the_log_of_kernels_shows_programs_and_loops(monkeypatch, capsys):
    monkeypatch.setattr(_logs, "_wanted", frozenset({"kernels"}))
    graph = Graph()
    graph.output([graph.call(prims.tanh, (graph.call(prims.mul, (graph.input(meta(rushlight.float32, (8,))), 2)),))])
    compile_program(graph)
    printed = capsys.readouterr().err
    assert "# mul, tanh" in printed and "for i in range(lo, hi)" in printed


def test_functions_called_like_the_counters_of_loops():
    graph = Graph()
    x, y = graph.input(meta(rushlight.float32, (2, 1))), graph.input(meta(rushlight.float32, (3, 2, 4), (1, 3, 6)))
    total = graph.call(prims.add, (x, y))
    graph.output([graph.call(prims.modified_bessel_k0, (total,)), graph.call(prims.modified_bessel_k1, (total,))])
    inputs = [rushlight.rand(2, 1), rushlight.rand(4, 2, 3).permute(2, 1, 0)]
    for result, expected in zip(compile_program(graph)(inputs), interpret(graph, inputs), strict=True):
        assert rushlight.equal(result, expected)
