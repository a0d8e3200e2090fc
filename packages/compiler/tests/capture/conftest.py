"""What the trap tests share: run a scenario eagerly and compiled, and compare all that can be observed."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import rushlight
from rushlight.compiler.capture.capture import capture


def observed(value: Any, seen: dict[int, int] | None = None) -> Any:
    """A comparable picture of a value: numbers by type and bits, tensors by everything visible, sharing by position."""
    seen = {} if seen is None else seen
    kind = type(value)  # not `isinstance`, which may run the program's code
    if issubclass(kind, rushlight.Tensor):
        return ("tensor", type(value).__name__, value.dtype.name, tuple(value.shape), tuple(value.stride()),
                value.requires_grad,
                repr(value.detach().tolist()), *memory(value, seen),
                repr(value.grad.tolist()) if value.is_leaf and value.grad is not None else None,
                seen.setdefault(id(value), len(seen)))
    if issubclass(kind, (list, tuple)):
        mark = seen.setdefault(id(value), len(seen)) if issubclass(kind, list) else None
        return (type(value).__name__, mark, [observed(x, seen) for x in value])
    if issubclass(kind, dict):
        return (type(value).__name__, [(repr(k), observed(v, seen)) for k, v in value.items()])
    if issubclass(kind, set):
        return ("set", sorted(map(repr, value)))
    fields = fields_of(value)
    if fields is not None and not callable(value) and not issubclass(kind, BaseException):
        if id(value) in seen:
            return ("again", seen[id(value)])
        seen[id(value)] = len(seen)
        return (type(value).__name__, observed(fields, seen))
    return (type(value).__name__,
            repr(value) if isinstance(value, (int, float, str, bytes, complex, type(None))) else str(type(value)))


def fields_of(value: Any) -> Any:
    """The attributes of an object, read past all that its class may say."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def memory(value: rushlight.Tensor, seen: dict[Any, int]) -> tuple:
    """Where a tensor lies, by position, and how often it was written. Results with a history are not counted as
    written: a captured program is pure, and what it saved for its gradients must stay at its version.
    """
    storage = value.untyped_storage()
    place = seen.setdefault(("memory", storage.data_ptr()), len(seen)) if value.numel() else None
    return place, value.storage_offset(), value._version if value.is_leaf else None


class Check:
    """Calls scenarios with an eager and a compiling `compile` and compares what they return."""

    def __init__(self) -> None:
        self.states: list[Any] = []

    def compile(self, fn: Any = None, **options: Any) -> Any:
        """`rushlight.compile` with the interpreting backend, remembered for the checks afterwards."""
        made = rushlight.compile(fn, backend="eager", **options)
        call = made if hasattr(made, "_rushlight_state") else made._compiled_call
        self.states.append(call._rushlight_state)
        return made

    def __call__(self, scenario: Any, captured: bool | None = True, variants: int | None = None) -> None:
        expected = scenario(lambda fn=None, **options: fn)
        actual = scenario(self.compile)
        assert observed(actual) == observed(expected)
        aborts = [text for state in self.states for text in state.aborts]
        if captured:
            assert not aborts and all(state.entries for state in self.states), aborts
        elif captured is False:
            assert aborts, "expected the capture to give up"
        if variants is not None:
            assert sum(state.captures for state in self.states) == variants, [s.recompiles for s in self.states]


@pytest.fixture
def check() -> Check:
    """Compares eager and compiled runs of a scenario."""
    return Check()


@pytest.fixture
def observe() -> Any:
    """The comparable picture of a value."""
    return observed


@pytest.fixture
def calls() -> Callable:
    """What is seen in the calls of `f`, two in each state of a world that texts set up and change."""

    def run(setup: str, function: str, changes: str, compile: Callable) -> list:
        rushlight.manual_seed(0)
        world = {"torch": rushlight, "b": None}
        exec(setup, world)
        exec(function, world)
        f, seen = compile(world["f"]), []
        for change in ["pass", *changes.split(" | ")]:
            exec(change.strip(), world)
            for _ in range(2):
                x = rushlight.tensor([1.0, -2.0, 4.0])
                try:
                    seen.append(observed([f(x), x]))
                except Exception as error:
                    seen.append((type(error).__name__, str(error)))
        return seen

    return run


@pytest.fixture
def graph_of() -> Any:
    """The graph of a call, captured but not run."""

    def capture_it(fn: Any, *args: Any, **kwargs: Any) -> Any:
        return capture(fn, args, kwargs, lambda graph, metas, options: (lambda inputs: []), {}, lambda a, k: None).graph

    return capture_it


@functools.cache
def _traps() -> list[Callable]:
    """All trap tests that need nothing but `check`."""
    found = []
    for path in sorted(Path(__file__).parent.glob("test_traps_*.py")):
        spec = spec_from_file_location(f"guard_{path.stem}", path)
        module = sys.modules[spec.name] = module_from_spec(spec)  # dataclasses look their module up there
        spec.loader.exec_module(module)
        for name, test in vars(module).items():
            if name.startswith("test_") and list(inspect.signature(test).parameters) == ["check"]:
                found.append(test)
    return found


@pytest.fixture
def traps() -> list[Callable]:
    """All trap tests that need nothing but `check`."""
    return _traps()


@pytest.fixture
def lazily() -> Callable:
    """Compiles a function with its operations put off, and run by a backend."""
    return lambda fn, programs="eager": rushlight.compile(fn, backend="lazy", options={"programs": programs})


@pytest.fixture
def alike(lazily: Callable) -> Callable:
    """Calls a function eagerly and with operations put off, and compares arguments and results."""

    def compare(fn: Callable, *make: Callable, calls: int = 3, programs: str = "eager") -> Any:
        compiled = lazily(fn, programs)
        for _ in range(calls):
            pair = []
            for f in (fn, compiled):
                given = [m() for m in make]
                rushlight.manual_seed(0)
                try:
                    result = f(*given)
                except Exception as error:
                    result = type(error).__name__, str(error)
                pair.append(observed((given, result)))
            assert pair[0] == pair[1]
        return compiled._rushlight_state.tier

    return compare
