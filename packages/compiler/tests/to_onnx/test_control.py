"""Control flow on data as ONNX graphs inside of a graph."""

from __future__ import annotations

import pytest

import rushlight
from rushlight._higher_order_ops import scan, while_loop
from rushlight.export import Dim
from rushlight.utils._pytree import tree_leaves

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def branches(x):
    y = x * 2
    return rushlight.cond(
        x.sum() > 0, lambda x: (while_loop(lambda x: x.sum() < 99, lambda x: (x * 2,), (x,))[0], y + 1),
        lambda x: (rushlight.cond(x.sum() < -9, lambda x: x.cos(), lambda x: x.sin(), (x,)), y - 1), (x,))


def counted(x):
    return while_loop(lambda i, x, y: i < x.shape[0], lambda i, x, y: (i + 1, x @ y, y), (rushlight.tensor(0), x, x.mT))


def folded(x):
    return scan(lambda c, v: (c * 0.5 + v, {"a": c.clone(), "b": v - 1}), x[0] * 0, x, dim=0, reverse=True)


@pytest.mark.parametrize("open", [False, True])
@pytest.mark.parametrize("f", [branches, counted, folded])
def test_control_flow_is_as_in_the_program(f, open):
    x = rushlight.randn(3, 3) * 0.1
    shapes = ({0: Dim("a")},) if open and f is not counted else None
    program = rushlight.onnx.export(f, (x,), dynamic_shapes=shapes)
    onnx.checker.check_model(program.model_proto, full_check=True)
    others = [rushlight.ones(5, 3)] if shapes else [rushlight.ones(3, 3)]
    for given in (x, -x, x - 5, *others):
        for a, b in zip(program(given), tree_leaves(f(given)), strict=True):
            rushlight.testing.assert_close(a, b)


def test_what_an_inner_graph_cannot_say_is_named():
    with pytest.raises(rushlight.onnx.errors.UnsupportedOperatorError, match="in a graph of its own, eigh"):
        x = rushlight.ones(2, 2)
        rushlight.onnx.export(
            lambda x: rushlight.cond(x.sum() > 0, rushlight.linalg.eigvalsh, lambda x: x[0] + 1, (x,)), (x,))
