"""Steps that repeat the last one natively do what steps do."""

from __future__ import annotations

import random
import subprocess
import sys
import weakref

import pytest

import rushlight as torch
from rushlight.core import native as calls
from rushlight.kernels.cpu import many
from rushlight.optim import native

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(not calls.possible(), reason="this interpreter has no native calls")

MAKERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "amsgrad": lambda p: torch.optim.AdamW(p, lr=0.1, amsgrad=True),
}


def parameters():
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape)) for shape in ((3, 4), (4,), (), (2, 2))]


def set_gradients(params, seed):
    torch.manual_seed(seed)
    for p in params:
        p.grad = torch.randn(p.shape)


def set_option(optimizer, name, value):
    optimizer.param_groups[0][name] = value


def turned(params):
    params[0].grad = torch.randn(4, 3).T


CHANGES = [
    lambda params, o: set_option(o, "lr", 0.05),
    lambda params, o: set_option(o, "weight_decay", 0.1),
    lambda params, o: set_option(o, "maximize", True),
    lambda params, o: set_option(o, "lr", torch.tensor(0.02)),
    lambda params, o: setattr(params[1], "grad", None),
    lambda params, o: turned(params),
    lambda params, o: setattr(params[2], "data", torch.tensor(3.0)),
    lambda params, o: o.load_state_dict(o.state_dict()),
    lambda params, o: o.state.clear(),
    lambda params, o: o.param_groups[0]["params"].reverse(),
    lambda params, o: set_option(o, "momentum", 0.0) if "momentum" in o.defaults else None,
    lambda params, o: None,
    lambda params, o: None,
]


def run(make, seed):
    rng, params = random.Random(seed), parameters()
    optimizer = make(params)
    for step in range(12):
        set_gradients(params, step)
        rng.choice(CHANGES)(params, optimizer)
        optimizer.step()
    return params, [p._version for p in params], list(optimizer.state.values())


@pytest.mark.parametrize("name", MAKERS)
def test_whatever_changes_between_steps(name, monkeypatch):
    monkeypatch.setattr(native, "SOON", 0)
    repeats, repeated = [], native.Batch.repeated
    monkeypatch.setattr(native.Batch, "repeated",
                        lambda self, *args: repeats.append(repeated(self, *args)) or repeats[-1])
    for seed in range(8):
        params, versions, states = run(MAKERS[name], seed)
        with monkeypatch.context() as m:
            m.setattr(native, "_gather", lambda *args: None)
            expected, expected_versions, expected_states = run(MAKERS[name], seed)
        assert versions == expected_versions
        torch.testing.assert_close(params, expected, rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(states, expected_states, rtol=0, atol=0, equal_nan=True)
    assert sum(found is not None for found in repeats) > 8


def test_the_first_native_step_of_a_process_makes_it():
    program = """
import rushlight as torch
from rushlight.optim import native
native.SOON = 0
p = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([p], lr=1.0)
p.grad = torch.ones(3)
optimizer.step()
(batch,) = optimizer._batches.values()
assert batch.gather is not None
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_own_updates_are_called(monkeypatch):
    monkeypatch.setattr(native, "SOON", 0)
    seen = []

    class Watched(torch.optim.SGD):
        def update(self, group, params, grads, states):
            seen.append(len(params))
            super().update(group, params, [2 * g for g in grads], states)

    params = parameters()
    optimizer = Watched(params, lr=0.1)
    for step in range(4):
        set_gradients(params, step)
        optimizer.step()
    assert seen == [4] * 4


def test_memory_that_is_read_only(monkeypatch):
    monkeypatch.setattr(native, "SOON", 0)
    params = parameters()
    optimizer = torch.optim.SGD(params, lr=0.1)
    for step in range(3):
        set_gradients(params, step)
        optimizer.step()
    params[0]._array.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        optimizer.step()


@pytest.mark.parametrize("name", MAKERS)
def test_arrays_outlive_a_step_that_other_threads_disturb(name, monkeypatch):
    monkeypatch.setattr(native, "SOON", 1)
    params = parameters()
    optimizer = MAKERS[name](params)
    noted = "sgd_noted" if name in ("sgd", "momentum") else "adam_noted"
    original, gone = getattr(many, noted), []

    def disturbed(*args):
        watched = [weakref.ref(x._array) for p in params for x in (p, p.grad)]
        for p in params:  # as another thread may do while the loop runs
            p.grad, p.data = None, torch.zeros_like(p)
        gone.extend(ref() is None for ref in watched)
        original(*args)

    for step in range(4):
        set_gradients(params, step)
        if step == 3:
            monkeypatch.setattr(many, noted, disturbed)
        optimizer.step()
    assert len(gone) == 2 * len(params) and not any(gone)
