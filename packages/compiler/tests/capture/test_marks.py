"""Functions that users marked: constants, substitutes, the default backend."""

from __future__ import annotations

import bisect
import math

import pytest

import rushlight as torch
from rushlight import compiler


def test_a_constant_result_is_asked_for_once():
    calls = []

    @compiler.assume_constant_result
    def table(n):
        calls.append(n)
        return torch.arange(n) * 2.0

    @torch.compile(backend="eager", fullgraph=True)
    def f(x):
        return x + table(3)

    assert [f(torch.ones(3)).tolist() for _ in range(3)] == [[1.0, 3.0, 5.0]] * 3
    assert calls == [3] and table(2).tolist() == [0.0, 2.0]
    with pytest.raises(TypeError, match="expected a Python function, got int"):
        compiler.assume_constant_result(3)


def test_constants_of_plain_values_and_replaced_functions():
    space = {"__builtins__": __builtins__}
    exec("def scale(): return 2\ndef f(x): return x * scale()", space)
    compiler.assume_constant_result(space["scale"])
    compiled = torch.compile(space["f"], backend="eager", fullgraph=True)
    assert compiled(torch.ones(1)).tolist() == [2.0]
    space["scale"] = lambda: 5
    assert compiled(torch.ones(1)).tolist() == [5.0], "which function it is, is guarded"


def test_substitutes_are_read_in_capture_and_never_called_by_the_user():
    @compiler.substitute_in_graph(bisect.insort_right, skip_signature_check=True)
    def insort(items, x):
        items.insert(sum([item <= x for item in items]), x)

    assert insort is bisect.insort_right

    @torch.compile(backend="eager", fullgraph=True)
    def f(x, items):
        bisect.insort_right(items, 4)
        return x * len(items)

    items = [1, 5]
    assert f(torch.ones(1), items).tolist() == [3.0] and items == [1, 4, 5]
    with pytest.raises(ValueError, match="has a substitute already"):
        compiler.substitute_in_graph(bisect.insort_right, skip_signature_check=True)(lambda items, x: None)


def test_substitutes_take_the_same_arguments():
    with pytest.raises(TypeError, match=r"does not take the arguments of comb\(n, k, /\)"):
        compiler.substitute_in_graph(math.comb)(lambda n: n)
    with pytest.raises(TypeError, match="expected a function, got int"):
        compiler.substitute_in_graph(3)(lambda n: n)


def test_the_default_backend():
    seen = []

    def backend(graph, metas, options):
        seen.append(graph)
        return lambda inputs: [inputs[0] + 1]

    assert compiler.get_default_backend() == "inductor"
    compiler.set_default_backend(backend)
    try:
        assert compiler.get_default_backend() is backend
        assert torch.compile(lambda x: x + 1)(torch.ones(1)).tolist() == [2.0] and len(seen) == 1
    finally:
        compiler.set_default_backend(None)
    assert compiler.get_default_backend() == "inductor"
    with pytest.raises(ValueError, match="unknown backend 'none'"):
        compiler.set_default_backend("none")


def test_marks_change_nothing_eagerly():
    @compiler.nested_compile_region
    def layer(x):
        return x + (1 if compiler.is_dynamo_compiling() else 0)

    assert layer(torch.ones(1)).tolist() == [1.0]
    assert torch.compile(layer, backend="eager", fullgraph=True)(torch.ones(1)).tolist() == [2.0]
    compiler.cudagraph_mark_step_begin()
