"""The guards: each kind of check is needed by some trap, they read well, and they are cheap."""

from __future__ import annotations

import timeit

import pytest

import rushlight as torch
from rushlight.compiler.capture.guard_codegen import GuardWriter
from rushlight.compiler.capture.source import SourceTree

NEEDED = {  # kind of check: a trap that needs it
    "type": "test_class_assignment", "tensor": "test_gradient_comes_and_goes", "is": "test_gradient_comes_and_goes",
    "not": "test_something_becomes_none", "eq": "test_global_written", "len": "test_length_after_append",
    "keys": "test_keys_equal_but_of_other_types", "lacks": "test_property_over_instance_dict",
    "in": "test_key_leaves_a_set", "not_in": "test_sets", "true": "test_full_becomes_empty",
    "empty": "test_emptiness_of_a_dict", "empty_cell": "test_empty_cell_is_filled_later", "mro": "test_mro_changes",
    "code": "test_code_swapped", "defaults": "test_defaults_replaced", "kwdefaults": "test_defaults_replaced",
}
RELATIONS = {"same": "test_two_paths_to_one_object", "different": "test_same_tensor_twice_without_writes",
             "distinct": "test_one_list_by_two_paths"}


def fails(check, trap):
    """Does a trap notice something?"""
    try:
        trap(type(check)())
    except Exception:
        return True
    return False


@pytest.fixture
def trap_named(check, traps):
    """A trap by its name, which must pass as things are."""
    def find(name):
        (trap,) = [trap for trap in traps if trap.__name__ == name]
        assert not fails(check, trap)
        return trap

    return find


@pytest.mark.parametrize("kind", NEEDED)
def test_traps_need_each_kind_of_check(check, trap_named, kind, monkeypatch):
    trap = trap_named(NEEDED[kind])
    original = GuardWriter._failed

    def failed(self, name, node, check_kind, *detail):
        return "False" if check_kind == kind else original(self, name, node, check_kind, *detail)

    monkeypatch.setattr(GuardWriter, "_failed", failed)
    assert fails(check, trap)


@pytest.mark.parametrize("kind", RELATIONS)
def test_traps_need_each_relation(check, trap_named, kind, monkeypatch):
    trap = trap_named(RELATIONS[kind])
    original = SourceTree.relate

    def relate(self, relation, *nodes):
        if relation != kind:
            original(self, relation, *nodes)

    monkeypatch.setattr(SourceTree, "relate", relate)
    assert fails(check, trap)


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
