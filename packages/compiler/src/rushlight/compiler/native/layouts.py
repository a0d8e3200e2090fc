"""What machine code of the compiler has to know of this interpreter: places of fields, addresses of C functions.

`ready()` checks once that fields lie where `guard_code` looks for them. If anything differs, guards stay in Python.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from rushlight.core import native
from rushlight.core.tensor import Tensor


@cache
def ready() -> bool:
    """Can guards be machine code here?"""
    if not native.possible():
        return False
    try:
        from rushlight.core import records  # it imports llvmlite

        return records.layouts_as_known() and _classes_as_known() and _table() is not None and _dicts_as_known()
    except ImportError:  # there is no llvmlite that works
        return False


def guard(words: list[int], unsure: Callable, *items: Any) -> Callable:
    """A guard of these words: see `guard_code.answer`."""
    return _code().function(0, unsure, (_table().ctypes.data, *words), *items)


@cache
def _code() -> Any:
    # Machine code: it needs llvmlite.
    from rushlight.compiler.native import guard_code
    from rushlight.core import records

    records.fill_table()
    return records.Code(guard_code.answer)


@cache
def _table() -> np.ndarray:
    # Machine code: it needs llvmlite.
    from rushlight.compiler.native import guard_objects as g
    from rushlight.core import records

    table = np.zeros(g.OWN_LENGTH, np.int64)
    functions = {g.GENERIC_DICT: "PyObject_GenericGetDict", g.STOP_COLLECTING: "PyGC_Disable",
                 g.START_COLLECTING: "PyGC_Enable", g.COMPARE_TEXT: "PyUnicode_Compare"}
    for place, name in functions.items():
        table[place] = records.c_function(name)
    table[g.FILL] = ctypes.cast(ctypes.memset, ctypes.c_void_p).value or 0
    table[g.TEXT_TYPE] = id(str)
    table[g.VALUES_AT] = 8 if sys.version_info >= (3, 13) else 0
    try:
        from rushlight.autograd.node import AccumulateGrad, Node
        from rushlight.autograd.state import AutogradState
    except ModuleNotFoundError:  # then no tensor has such a state
        pass
    else:
        slots = {g.EDGE: (AutogradState, "edge"), g.STATE_GRAD: (AutogradState, "grad"),
                 g.ORIGIN: (AutogradState, "origin"), g.LEAF_EDGE: (AutogradState, "leaf_edge"),
                 g.POST_HOOKS: (AutogradState, "post_hooks"), g.NODE_EXTRAS: (Node, "extras"),
                 g.LEAF_HOOKS: (AccumulateGrad, "hooks")}
        for place, (kind, name) in slots.items():
            table[place] = records.slot(kind, name)
        table[g.STATE] = id(AutogradState)
        records.keep_for_ever(AutogradState)
    records.keep_for_ever(table)
    return table


def version_tag(cls: type) -> int:
    """A number that changes whenever attributes of a class, or of a class it inherits from, change; 0 for none.

    CPython keeps it for its caches of attributes: it is never given twice, and 0 from a change to the next look.
    """
    getattr(cls, "__init__", None)  # gives a tag to a class that has none
    return _tag(cls)


def _tag(cls: type) -> int:
    # Machine code: it needs llvmlite.
    from rushlight.compiler.native.guard_objects import VERSION_TAG

    return ctypes.c_uint.from_address(id(cls) + VERSION_TAG).value


def is_plain_tensor(cls: type) -> bool:
    """Do the slots of instances lie where those of tensors do?"""
    return cls is Tensor or cls.__base__ is Tensor


@cache
def function_part(name: str) -> int:
    """The C function that gives a part of a Python function, or NULL for None."""
    # Machine code: it needs llvmlite.
    from rushlight.core import records

    return records.c_function({"code": "PyFunction_GetCode", "defaults": "PyFunction_GetDefaults",
                               "kwdefaults": "PyFunction_GetKwDefaults"}[name])


def _classes_as_known() -> bool:
    """Do version tags change with classes and stay without changes?"""
    class Base:
        pass

    class Derived(Base):
        pass

    seen = [version_tag(Derived)]
    if not seen[0] or version_tag(Derived) != seen[0]:
        return False
    changes: list[Callable[[], Any]] = [
        lambda: setattr(Derived, "a", 1), lambda: setattr(Base, "b", 1), lambda: delattr(Derived, "a"),
        lambda: setattr(Base, "b", 2), lambda: setattr(Derived, "__bases__", (type("Other", (Base,), {}),)),
    ]
    for change in changes:
        change()
        now = _tag(Derived)
        if now in seen:
            return False
        seen.append(version_tag(Derived))
        if not seen[-1] or seen[-1] in seen[:-1]:
            return False
    return True


def _dicts_as_known() -> bool:
    """Does the machine code find in dicts what Python finds?"""
    # Machine code: it needs llvmlite.
    from rushlight.compiler.native import guard_code as g

    class Instance:
        def __init__(self, first: int, names: str) -> None:
            self.first = first
            for name in names:
                setattr(self, name, name * 3)

    def probe(what: int, key: str) -> Callable:
        words = [1, g.ARGUMENT, 0, 0, 0, 0, 8, g.ATTRIBUTES, 8, 0, 0, 0, 16, what, 16, id(key), hash(key), 0, 0,
                 g.CONSTANT, 0, id(key), 0, 0, 0, g.END, 0, 0, 0, 0, 0]
        if what == g.ITEM:
            del words[19:25]
        return guard(words, lambda args, kwargs: "unsure", None, key)

    long = "".join(map(chr, range(97, 123)))
    shared = [Instance(1, "xyz"), Instance(2, "x"), Instance(3, "zab")]
    large = Instance(4, long)
    for n in range(400):
        setattr(large, f"name{n}", [n])
    del shared[0].y, large.b, large.name7
    mixed = Instance(5, "xy")
    vars(mixed)[1] = "one"
    for instance in (*shared, large):
        for key in ("first", "x", "y", "z", "a", "b", "name7", "name399", "absent"):
            key = "".join([*key])  # which is another object than the key in the dict
            found = probe(g.ITEM, key)((instance,), {})
            absent = probe(g.ABSENT, key)((instance,), {})
            if key in vars(instance):
                if found != (vars(instance)[key],) or absent is not None:
                    return False
            elif found is not None or absent != (key,):
                return False
    return probe(g.ITEM, "x")((mixed,), {}) == "unsure"
