"""Every op, compiled alone: the values, metadata and gradients of eager execution."""

from __future__ import annotations

import importlib.util
import re

import numpy as np
import pytest

import rushlight
from rushlight.compiler.backends.registry import lookup
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.ir import Graph
from rushlight.compiler.graph.passes import stated, taken_apart
from rushlight.compiler.graph.text import parse, text
from rushlight.compiler.graph.verify import verify
from rushlight.core.op import REGISTRY
from rushlight.core.samples import samples_of
from rushlight.core.tensor import Tensor

rushlight.tensor(0)  # the first use declares all ops
CASES = [
    pytest.param(op, sample, id=f"{name}-{i}")
    for name, op in sorted(REGISTRY.items())
    if not op.mutates
    for i, sample in enumerate(samples_of(op))
    if not op.random
]
has_autograd = importlib.util.find_spec("rushlight.autograd") is not None


def tensors(operands: tuple) -> tuple:
    return tuple([rushlight.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in operands])


def wide(x: Tensor) -> np.ndarray:
    """The values, in a dtype that numpy computes with."""
    return x.double().numpy() if x.is_floating_point() else x.numpy()


def graph_of(op, operands: tuple, params: tuple, metas) -> tuple[Graph, list[Tensor]]:
    """A graph of one call on tensors, and the tensors."""
    graph, inputs = Graph(), [x for x in operands if isinstance(x, Tensor)]
    values = tuple([graph.input(x._meta) if isinstance(x, Tensor) else x for x in operands])
    found = graph.call(op, values, params, metas)
    graph.output(list(found) if isinstance(found, tuple) else [found])
    return graph, inputs


@pytest.mark.parametrize("op, sample", CASES)
def test_compiled_call_equals_eager(op, sample):
    operands = tensors(sample.operands)
    metas = op.infer_metas(operands, sample.params)
    if metas is None:
        pytest.skip("a shape that depends on data cannot be captured")
    expected = op.apply(operands, sample.params)
    graph, inputs = graph_of(op, operands, sample.params, metas)
    verify(graph)
    got = lookup("inductor")(graph, [v.meta for v in graph.inputs], {})(inputs)
    for a, b in zip(got, expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert a._meta is b._meta
        if (
            op.kind == "elementwise" and b.dtype.is_inexact
        ):  # eager takes numpy's functions for few elements: other last bits
            close = 4 * rushlight.finfo(b.dtype).eps
            np.testing.assert_allclose(wide(a), wide(b), rtol=close, atol=close)
        else:
            np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("op, sample", CASES)
def test_text_parses_back(op, sample):
    operands = tensors(sample.operands)
    metas = op.infer_metas(operands, sample.params)
    if metas is None:
        pytest.skip("a shape that depends on data cannot be captured")
    graph, _ = graph_of(op, operands, sample.params, metas)
    assert text(parse(text(graph))) == text(graph)


@pytest.mark.skipif(not has_autograd, reason="gradients need rushlight-autograd")
@pytest.mark.parametrize("op, sample", CASES)
def test_compiled_gradients_equal_eager(op, sample):
    from rushlight.autograd import grad
    from rushlight.autograd.rules.registry import NONDIFFERENTIABLE

    if op in NONDIFFERENTIABLE:
        pytest.skip("no gradient")
    operands = tuple(
        [x.requires_grad_() if isinstance(x, Tensor) and x.dtype.is_inexact else x for x in tensors(sample.operands)]
    )
    leaves = [x for x in operands if isinstance(x, Tensor) and x.requires_grad]
    expected = op.apply(operands, sample.params) if leaves else ()
    expected = expected if isinstance(expected, tuple) else (expected,)
    wanted = [r for r in expected if r.requires_grad]
    if not wanted or op.infer_metas(operands, sample.params) is None:
        pytest.skip("no gradient")
    graph, inputs = graph_of(
        op, operands, sample.params, tuple([r._meta for r in expected]) if len(expected) > 1 else expected[0]._meta
    )
    got = lookup("inductor")(graph, [v.meta for v in graph.inputs], {})(inputs)
    cotangents = [rushlight.ones(r.shape, dtype=r.dtype) for r in wanted]
    outputs = [r for r in got if r.requires_grad]
    try:
        eager = grad(wanted, leaves, cotangents, allow_unused=True)
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=re.escape(str(error))):
            grad(outputs, leaves, cotangents, allow_unused=True)
        return
    compiled = grad(outputs, leaves, cotangents, allow_unused=True)
    for a, b in zip(compiled, eager, strict=True):
        if b is not None:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op, sample", [case for case in CASES if case.values[0].decomposition is not None])
def test_parts_equal_the_whole(op, sample):
    operands = tensors(sample.operands)
    graph, inputs = graph_of(op, operands, sample.params, op.infer_metas(operands, sample.params))
    if "sizes" in op.operands and operands[op.operands.index("sizes")] is not None:
        with pytest.raises(NotImplementedError, match="asks for tolist"):  # how packed sequences are cut is data
            taken_apart(graph, stated(lambda node: node.op.decomposition is not None))
        return
    parts = verify(taken_apart(graph, stated(lambda node: node.op.decomposition is not None)), layouts=False)
    assert not any(node.op.decomposition for node in parts.nodes)
    for a, b in zip(interpret(parts, inputs), interpret(graph, inputs), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(wide(a), wide(b), rtol=2e-3 if a.itemsize == 2 else 1e-4, atol=1e-5)


def test_only_what_has_parts_can_be_taken_apart():
    graph, _ = graph_of(REGISTRY["exp"], (rushlight.ones(2),), (), rushlight.ones(2)._meta)
    with pytest.raises(NotImplementedError, match="exp has no decomposition"):
        taken_apart(graph, stated(lambda node: True))
