"""Random changes of everything that a program can reach: names, cells, attributes, items, classes, functions, tensors.

The programs and their worlds are the rows of test_traps_orders; here nobody chooses what changes. A place is a Python
expression, a change is a statement, so that what goes wrong reads as a program.
"""

from __future__ import annotations

import contextlib
import functools
import random
import re
import types
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import rushlight as torch

CALLS, CHANGES = 2, 3
MUCH = 12  # items of a container that are looked at
DEEP = 5
ADDRESS = r" at 0x[0-9a-f]+"
ANY = ("None", "True", "0", "2.5", "'s'", "(1, 2)", "[3.0]", "{'k': 1}", "torch.ones(3)", "abs", "lambda *a: 4")
OTHER: dict[type, tuple[str, ...]] = {
    bool: ("not @", "int(@)"),
    int: ("@ + 1", "@ - 1", "-@", "float(@)", "bool(@)"),
    float: ("@ + 0.5", "-@", "int(@)", "float('nan')"),
    str: ("@ + 'a'", "@[1:]", "@.encode()"),
    list: ("@[::-1]", "tuple(@)", "@ + [1]", "@[1:]", "@ * 2"),
    tuple: ("@[::-1]", "list(@)", "@ + (1,)", "@[1:]"),
    dict: ("dict(reversed(@.items()))", "{**@, 'z': 5}", "list(@)"),
    set: ("@ | {9}", "set()", "frozenset(@)"),
    torch.Tensor: ("@ * 2", "@.double()", "@.detach()", "@.unsqueeze(0)", "@[:1]", "@.long()", "x0",
                   "torch.zeros_like(@).requires_grad_(@.is_floating_point())", "@.expand(2, *@.shape)"),
}  # fmt: skip
INSIDE: dict[type, tuple[str, ...]] = {
    list: ("@.append(2)", "@.reverse()", "@.clear()", "del @[0]", "@.insert(0, 1)"),
    dict: ("@.clear()", "@['new'] = 3", "@.update(dict(reversed(@.items())))"),
    set: ("@.add(7)", "@.clear()"),
    torch.Tensor: ("@.add_(1)", "@.requires_grad_(not @.requires_grad)", "@.data = @.data[:1]",
                   "@.grad = torch.ones_like(@)", "@.zero_()", "@.t_()", "@.mark = 1"),
    types.FunctionType: ("@.__defaults__ = (2,)", "@.__kwdefaults__ = {'k': 2}", "@.k = 4",
                         "@.__code__ = (lambda *a: a[0]).__code__"),
    type: ("@.k = 6", "@.extra = 1", "@.__call__ = lambda self, *a: 3", "@.__len__ = lambda self: 2",
           "@.__getattr__ = lambda self, name: 5", "@.__bool__ = lambda self: False",
           "@.__setattr__ = lambda self, name, value: None"),
}  # fmt: skip


@functools.cache
def beside(name: str) -> Any:
    """A file beside this one."""
    spec = spec_from_file_location(f"rushlight_state_{name}", Path(__file__).with_name(f"{name}.py"))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wrong(seed: int, compile: Callable, observe: Any) -> str | None:
    """What compiled calls do otherwise than eager ones: in a row of the table, or in a program of `fuzz`."""
    return (in_program if seed % 2 else in_row)(seed // 2, compile, observe)


def in_row(seed: int, compile: Callable, observe: Any) -> str | None:
    """A row of the table with changes between its calls."""
    rows = beside("test_traps_orders")
    name = list(rows.TABLE)[seed % len(rows.TABLE)]
    done = row_changes(name, seed)
    expected, found = (run_row(name, done, how, observe) for how in (lambda fn: fn, compile))
    for at, (a, b) in enumerate(zip(expected, found, strict=True)):
        if re.sub(ADDRESS, "", repr(a)) != re.sub(ADDRESS, "", repr(b)):
            return f"{name!r}, after {done[:at // CALLS]}:\n    expected {a}\n    got {b}"
    return None


def row_changes(name: str, seed: int) -> list[str]:
    """Changes of the world of a row, found as it goes on, eagerly."""
    r, rows, done = random.Random(seed), beside("test_traps_orders"), []
    setup, text, _ = rows.TABLE[name]
    world = rows.world_of(setup, text, lambda fn: fn)
    for _ in range(CHANGES):
        rows.step(world, lambda value: None)
        possible = list(dict.fromkeys(changes(world, rows.world_of("pass", "pass", lambda fn: fn))))
        if possible:
            done.append(r.choice(possible))
            rows.change(world, done[-1])
    return done


def run_row(name: str, done: list[str], compile: Callable, observe: Any) -> list[Any]:
    """All that is seen of a world."""
    rows = beside("test_traps_orders")
    setup, text, _ = rows.TABLE[name]
    world = rows.world_of(setup, text, compile)
    seen = [rows.step(world, observe) for _ in range(CALLS)]
    for statement in done:
        seen.append((rows.change(world, statement), rows.step(world, observe)))
        seen += [rows.step(world, observe) for _ in range(CALLS - 1)]
    return seen


def in_program(seed: int, compile: Callable, observe: Any) -> str | None:
    """A program of `fuzz` with other changes."""
    fuzz, r = beside("fuzz"), random.Random(seed)
    body, steps = fuzz.scenario(seed)
    steps = [steps[0], *[(r.choice(_prelude()), arguments) for _, arguments in steps[1:]]]
    if not fuzz.differs(body, steps, compile, observe):
        return None
    return "\n    ".join(["differs:", *body, *[f"# {step}" for step in steps]])


@functools.cache
def _prelude() -> list[str]:
    world: dict[str, Any] = {}
    exec(beside("fuzz").PRELUDE, world)
    return list(dict.fromkeys(changes(world, {"__builtins__": None, "torch": None})))


def changes(world: dict[str, Any], plain: dict[str, Any]) -> Iterator[str]:
    """Statements that change something that the program may see, but for the names of a `plain` world."""
    seen: set[int] = set()
    for name, value in world.items():
        if name not in plain and not _is(value, types.ModuleType):
            yield from _assignments(name, value)
            yield f"del {name}"
            yield from _within(name, value, seen, DEEP)


def _assignments(place: str, value: Any) -> Iterator[str]:
    for other in (*OTHER.get(_kind(value), ()), *ANY):
        yield f"{place} = {other.replace('@', place)}"


def _kind(value: Any) -> type:
    kinds = (type, types.FunctionType, torch.Tensor)
    return next((kind for kind in kinds if _is(value, kind)), type(value))


def _within(p: str, value: Any, seen: set[int], deep: int) -> Iterator[str]:
    """Changes inside a value."""
    if id(value) in seen or not deep:
        return
    seen.add(id(value))
    if _is(value, (type, types.FunctionType)) and not _is_own(value):
        return
    yield from (inside.replace("@", p) for inside in INSIDE.get(_kind(value), ()))
    for place, found in _places(p, value):
        if not place.startswith(("type(", "(")):
            yield from _assignments(place, found)
            yield f"del {place}"
        yield from _within(place, found, seen, deep - 1)


def _places(p: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The places inside a value, as expressions."""
    if _is(value, dict):
        for key, found in list(value.items())[:MUCH]:
            if type(key) in (str, int, bool, float):
                yield f"{p}[{key!r}]", found
    elif _is(value, (list, tuple)):
        for i, found in enumerate(list(value)[:MUCH]):
            yield f"{p}[{i}]", found
    elif _is(value, types.FunctionType):
        for i, cell in enumerate(value.__closure__ or ()):
            with contextlib.suppress(ValueError):  # one without contents
                yield f"{p}.__closure__[{i}].cell_contents", cell.cell_contents
        for i, found in enumerate(value.__defaults__ or ()):
            yield f"{p}.__defaults__[{i}]", found
    elif _is(value, types.MethodType):
        yield f"{p}.__self__", value.__self__
    elif _is(value, (staticmethod, classmethod)):
        yield f"{p}.__func__", value.__func__
    elif _is(value, functools.partial):
        yield f"{p}.keywords", value.keywords
    if _is(value, type):
        for name, found in list(vars(value).items()):
            private = name.startswith("_") and not name.startswith("__")  # of an enum, or of a class of ours
            if not private and name not in ("__dict__", "__weakref__", "__doc__", "__module__", "__slots__"):
                yield f"{p}.{name}" if not _is(found, (staticmethod, classmethod)) \
                    else f"{p}.__dict__['{name}']", found
    elif not _is(value, (torch.Tensor, types.ModuleType)):
        for name, found in list((beside("conftest").fields_of(value) or {}).items())[:2 * MUCH]:
            if type(name) is str and name.isidentifier() and name != "_batches":  # whose keys are addresses
                yield f"{p}.{name}", found
        if _is_own(type(value)):
            yield f"type({p})", type(value)


def _is(value: Any, kind: Any) -> bool:
    """`isinstance` that runs none of the program's code."""
    return issubclass(type(value), kind)


def _is_own(value: Any) -> bool:
    """Was a class or function made by the program? Others are not changed: the next program would see it."""
    if _is(value, type):
        return value.__module__ == "builtins" and bool(value.__flags__ & 1 << 9)
    return value.__code__.co_filename in ("<string>", "<trap>")
