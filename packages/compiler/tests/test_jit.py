"""TorchScript's names."""

from __future__ import annotations

import pytest

import rushlight
from rushlight import jit


def test_scripted_functions_compute_the_same():
    @jit.script
    def f(x):
        if x.shape[0] > 2:
            return x * 2
        return x + 1

    assert f(rushlight.ones(2)).tolist() == [2, 2] and f(rushlight.ones(3)).tolist() == [2, 2, 2]
    assert jit.trace(lambda x: x - 1, rushlight.ones(1))(rushlight.ones(1)).item() == 0


def test_marks_change_nothing():
    @jit.ignore
    def f(x):
        return x + 1

    @jit.ignore(drop=True)
    def g(x):
        return x + 2

    assert f(1) == 2 and g(1) == 3 and jit.unused(len) is len and jit.annotate(int, 3) == 3 and not jit.is_scripting()


def test_script_files_are_refused_with_a_way_out(tmp_path):
    with pytest.raises(RuntimeError, match="state_dict"):
        jit.load(tmp_path / "script.pt")
