"""Whatever of a program's world changes between calls, compiled calls do what eager ones do."""

from __future__ import annotations

import warnings
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import rushlight as torch

pytest.importorskip("rushlight.nn")  # worlds hold modules and optimizers
_spec = spec_from_file_location("rushlight_capture_fuzz_state", Path(__file__).parent / "fuzz_state.py")
fuzz = module_from_spec(_spec)
_spec.loader.exec_module(fuzz)


@pytest.mark.parametrize("block", range(8))
def test_random_changes(check, observe, block):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(50 * block, 50 * block + 50):
            wrong = fuzz.wrong(seed, check.compile, observe)
            torch.set_grad_enabled(True)
            torch.set_default_dtype(torch.float32)
            assert wrong is None, f"seed {seed}: {wrong}"


@pytest.mark.parametrize("value", [abs, int, [].append, slice(1), torch.ones, len, type("Plain", (), {})()],
                         ids=["builtin", "class", "method", "slice", "function", "len", "object"])
def test_truth_of_what_has_no_length(check, value):
    box = {"on": value}
    compiled = check.compile(lambda x: x if box["on"] else -x)
    assert compiled(torch.ones(1)) == 1
    box["on"] = 0
    assert compiled(torch.ones(1)) == -1


@pytest.mark.parametrize("method", ["__eq__", "__len__", "__bool__", "__iter__", "__contains__"])
def test_special_methods_that_cannot_be_called(check, method):
    def scenario(compile):
        kind = type("Kind", (), {})
        o, seen = kind(), []
        compiled = compile(lambda x: x if o == 1 else -x * bool(o) * (2 in o))
        for value in (lambda self, *other: iter((1, 2)), None, 3):
            setattr(kind, method, value)
            try:
                seen.append(compiled(torch.ones(1)))
            except TypeError as error:
                seen.append(str(error))
        return seen

    check(scenario, captured=None)


def test_errors_of_optimizers_name_the_line(check):
    w = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([w], lr=0.1)

    def step(x):
        (w * x).sum().backward()
        optimizer.step()

    compiled = check.compile(step)
    compiled(torch.ones(3))
    optimizer.param_groups[0]["lr"] = "fast"
    with pytest.raises(TypeError) as caught:
        compiled(torch.ones(3))
    assert any(frame.path == Path(__file__) and frame.lineno + 1 == step.__code__.co_firstlineno + 2
               for frame in caught.traceback)


def test_looking_at_an_object_runs_none_of_its_code(check):
    looked = []

    class Shy:
        def __getattribute__(self, name):
            looked.append(name)
            return 3

    class Disguised:
        @property
        def __class__(self):
            looked.append("__class__")
            return int

    for o in (Shy(), Disguised()):
        compiled = check.compile(lambda x, o=o: (x + 1, o))
        assert compiled(torch.ones(1))[1] is o
    assert not looked


def test_deleting_what_is_no_position(check):
    def scenario(compile):
        box, seen = {"d": {"a": 1}}, []

        def step(x):
            x.add_(1)
            del box["d"]["a"]

        compiled = compile(step)
        for _ in range(2):
            x = torch.ones(1)
            try:
                compiled(x)
            except TypeError as error:
                seen.append(str(error))
            seen.append(x)
            box["d"] = [1, 2]
        return seen

    check(scenario, captured=None)
