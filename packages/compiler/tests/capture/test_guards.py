"""The guards: each kind of check is needed by some trap, they read well, and they are cheap."""

from __future__ import annotations

import timeit

import pytest

import rushlight as torch
from rushlight.compiler.capture.guard_codegen import GuardWriter
from rushlight.compiler.capture.source import SourceTree

KINDS = ("type", "tensor", "is", "not", "eq", "len", "keys", "lacks", "in", "not_in", "true", "empty",
         "empty_cell", "mro", "code", "defaults", "kwdefaults")


def test_nobody_notices_when_nothing_is_missing(somebody_notices):
    assert not somebody_notices()


@pytest.mark.parametrize("kind", KINDS)
def test_traps_need_each_kind_of_check(somebody_notices, kind, monkeypatch):
    original = GuardWriter._failed

    def failed(self, name, node, check_kind, *detail):
        return "False" if check_kind == kind else original(self, name, node, check_kind, *detail)

    monkeypatch.setattr(GuardWriter, "_failed", failed)
    assert somebody_notices()


@pytest.mark.parametrize("kind", ["same", "different", "distinct"])
def test_traps_need_each_relation(somebody_notices, kind, monkeypatch):
    original = SourceTree.relate

    def relate(self, relation, *nodes):
        if relation != kind:
            original(self, relation, *nodes)

    monkeypatch.setattr(SourceTree, "relate", relate)
    assert somebody_notices()


def test_reasons_are_readable(check):
    box = type("Box", (), {})()
    box.k = 2
    c = check.compile(lambda x, n: x * n * box.k)
    c(torch.ones(2), 1)
    c(torch.ones(3), 1)
    c(torch.ones(2), 5)
    box.k = "text" * 0
    with pytest.raises(TypeError):
        c(torch.ones(2), 5)
    state = check.states[0]
    assert state.recompiles[0] == "args[0]: is not a Tensor with float32[2]@cpu"
    assert state.recompiles[1].startswith("args[")
    assert any("k" in reason for reason in state.recompiles[2:] + state.aborts)


def test_two_tensor_call_is_cheap():
    x = torch.ones(4)
    c = torch.compile(lambda a, b: (a + b) * 2, backend=lambda graph, metas, options: lambda inputs: [x])
    c(x, x)
    assert min(timeit.repeat(lambda: c(x, x), number=2000, repeat=5)) / 2000 < 10e-6  # 3 us on a quiet machine
