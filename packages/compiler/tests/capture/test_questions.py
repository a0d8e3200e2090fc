"""Questions that model files ask of the framework are answered in captured functions, and asked again by guards."""

from __future__ import annotations

import pytest

import rushlight
from rushlight.compiler import explain

QUESTIONS = {
    "scripting": lambda x: x if rushlight.jit.is_scripting() else x + 1,
    "tracing": lambda x: x if rushlight.jit.is_tracing() or rushlight._C._get_tracing_state() else x + 1,
    "annotated": lambda x: rushlight.jit.annotate(int, x) + 1,
    "isinstance": lambda x: x + 1 if rushlight.jit.isinstance(x, rushlight.Tensor) else x,
    "overridden": lambda x: x if rushlight.overrides.has_torch_function((x,)) else x + 1,
    "overridden_unary": lambda x: x if rushlight.overrides.has_torch_function_unary(x) else x + 1,
    "cuda": lambda x: x + 2 if rushlight.cuda.is_available() else x + 1,
    "backends": lambda x: x if rushlight.backends.mps.is_available() else x + 1,
    "onnx": lambda x: x if rushlight.onnx.is_in_onnx_export() else x + 1,
    "checked": lambda x: (rushlight._check(x.shape[0] == 2, lambda: f"{x.shape}"), x + 1)[1],
    "threads": lambda x: x + min(rushlight.get_num_threads(), 1),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_are_answered(name):
    f, x = QUESTIONS[name], rushlight.ones(2)
    for run in (rushlight.compile(f, fullgraph=True, backend="eager"), rushlight.export.export(f, (x,)).module()):
        rushlight.testing.assert_close(run(x), f(x))


def test_switches_are_asked_again():
    def f(x):
        return x * 2 if rushlight.are_deterministic_algorithms_enabled() else x * 3

    run = rushlight.compile(f, backend="eager")
    before = rushlight.are_deterministic_algorithms_enabled()
    try:
        for mode in (False, True, False):
            rushlight.use_deterministic_algorithms(mode)
            assert run(rushlight.ones(1)).item() == f(rushlight.ones(1)).item()
    finally:
        rushlight.use_deterministic_algorithms(before)
    assert explain(run)(rushlight.ones(1)).graph_break_count == 0


def test_conditions_on_sizes_limit_exported_programs():
    def f(x):
        rushlight._check(x.shape[0] >= 4, lambda: "too short")
        return x[:4] * 2

    program = rushlight.export.export(f, (rushlight.ones(6),), dynamic_shapes=({0: rushlight.export.Dim.AUTO},))
    assert next(iter(program.range_constraints.values())).lower == 4
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(rushlight.ones(3))
    with pytest.raises(RuntimeError, match="too short"):
        rushlight.compile(f)(rushlight.ones(3))
