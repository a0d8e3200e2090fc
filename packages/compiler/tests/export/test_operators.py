"""Operators of `rushlight.library` in exported programs: kept by name, with their gradient, wherever they are known."""

from __future__ import annotations

import io

import numpy as np
import pytest

import rushlight
from rushlight.export import Dim, export, load, save

library = pytest.importorskip("rushlight.library")


@library.custom_op("test_export::sine", mutates_args=())
def sine(x: rushlight.Tensor) -> rushlight.Tensor:
    return rushlight.from_numpy(np.sin(x.detach().numpy()))


sine.register_fake(lambda x: rushlight.empty_like(x))
sine.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0].cos(),
                       setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))


@library.custom_op("test_export::two", mutates_args=())
def two(xs: list[rushlight.Tensor], k: float, *, name: str = "a") -> tuple[rushlight.Tensor, rushlight.Tensor]:
    assert name == "b"
    return xs[0] * k, xs[1] + 1


two.register_fake(lambda xs, k, *, name="a": (rushlight.empty_like(xs[0]), xs[1].new_empty(xs[1].shape)))


def f(x):
    a, b = two([x, x * 2], 2.5, name="b")
    return rushlight.cond(x.sum() > 0, lambda x: sine(x) + a, lambda x: rushlight.ops.test_export.sine(x + 1) * b, (x,))


@pytest.mark.parametrize("open", [False, True])
def test_operators_are_called_by_name(open):
    program = export(f, (rushlight.ones(3),), dynamic_shapes=({0: Dim("n")},) if open else None)
    assert [node.op.name for node in program.graph.nodes] == ["mul", "test_export.two", "sum", "gt", "cond"]
    file = io.BytesIO()
    save(program, file)
    runs = [program.module(), load(file).module(), program.run_decompositions().module()]
    again = export(runs[0], (rushlight.ones(3),), dynamic_shapes=({0: Dim("n")},) if open else None)
    runs += [rushlight.compile(runs[0]), again.module()]
    for run in runs:
        for x in (rushlight.randn(3), -rushlight.ones(5 if open else 3)):
            rushlight.testing.assert_close(run(x), f(x))


def test_gradients_are_those_of_the_operator():
    x = rushlight.randn(3, requires_grad=True)
    program = export(lambda x: sine(x) * 2, (x,))
    program.module()(x).sum().backward()
    rushlight.testing.assert_close(x.grad, 2 * x.detach().cos())


def test_what_a_program_cannot_keep_is_named():
    filled = library.custom_op("test_export::fill", lambda x: x.numpy().fill(3), mutates_args={"x"})
    bare = library.custom_op("test_export::bare", lambda x: x * 2, mutates_args=())
    for op, match in ((filled, "writes to its arguments"), (bare, "register_fake")):
        with pytest.raises(RuntimeError, match=match):
            export(op, (rushlight.ones(2),))
    file = io.BytesIO()
    save(export(sine, (rushlight.ones(2),)), file)
    known = library._DEFINED.pop("test_export::sine")
    try:
        with pytest.raises(RuntimeError, match="test_export::sine is not registered here"):
            load(file)
        changed = library.custom_op("test_export::sine", lambda x: x.sin_().clone(), mutates_args={"x"})
        changed.register_fake(lambda x: rushlight.empty_like(x))
        with pytest.raises(RuntimeError, match="writes to its arguments"):  # as it did not when the file was written
            load(file)
    finally:
        library._DEFINED["test_export::sine"] = rushlight.ops.test_export.sine = known


def test_rows_of_onnx_are_given_with_the_export():
    pytest.importorskip("onnxruntime")
    x = rushlight.randn(3)
    made = rushlight.onnx.export(lambda x: sine(x) * 2, (x,), custom_translation_table={sine: lambda o, x: o.Sin(x)})
    rushlight.testing.assert_close(made(x)[0], sine(x) * 2)
    with pytest.raises(rushlight.onnx.errors.UnsupportedOperatorError, match="custom_translation_table"):
        rushlight.onnx.export(sine, (x,))
