"""Pickling of functions and classes that a worker cannot import: those of the main script, a notebook or stdin, and
local ones.

pickle writes a function as the name to import it by. multiprocessing makes names of the main script importable by
running the script a second time in each worker, which needs a guard in the script and fails in a notebook. Here what is
reachable from such functions and classes is sent itself: code, defaults, closures, class members and the global names
that the code uses. In the worker they live in a module of the same name, so that instances can go back to the main
process.
"""

from __future__ import annotations

import abc
import builtins
import collections
import dataclasses
import dis
import enum
import functools
import importlib
import marshal
import pickle
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

MAIN_NAMES = ("__main__", "__mp_main__")
# Members that creating the class makes anew.
NOT_SENT = {
    "__dict__",
    "__weakref__",
    "__module__",
    "__qualname__",
    "__slots__",
    "__orig_bases__",
    "__abstractmethods__",
    "_abc_impl",
}


class ByValuePickler(pickle.Pickler):
    """Protocol 5, with functions, classes and modules that have no importable name sent by value."""

    def reducer_override(self, obj: Any) -> Any:
        """How to send `obj`, or NotImplemented for pickle's own way."""
        if isinstance(obj, type):
            if obj in _UNNAMED:
                return getattr, (types, _UNNAMED[obj])
            return NotImplemented if _importable(obj) else _reduce_class(obj)
        if isinstance(obj, types.FunctionType):
            return NotImplemented if _importable(obj) else _reduce_function(obj)
        if isinstance(obj, types.ModuleType):
            return importlib.import_module, (obj.__name__,)
        reduce = _REDUCERS.get(type(obj))
        return NotImplemented if reduce is None else reduce(obj)


# Types of the interpreter that say they are in builtins but are found in the module types.
_UNNAMED: dict[type, str] = {
    value: name
    for name, value in vars(types).items()
    if isinstance(value, type) and value.__module__ == "builtins" and not hasattr(builtins, value.__name__)
}
_REDUCERS: dict[type, Callable[[Any], Any]] = {
    types.CellType: lambda cell: (types.CellType, (), _cell_state(cell), None, None, _fill_cell),
    staticmethod: lambda method: (staticmethod, (method.__func__,)),
    classmethod: lambda method: (classmethod, (method.__func__,)),
    property: lambda prop: (property, (prop.fget, prop.fset, prop.fdel, prop.__doc__)),
    types.MappingProxyType: lambda proxy: (types.MappingProxyType, (dict(proxy),)),
    # Sent by value, since a class that is Generic over it needs one; its bounds are for type checkers.
    typing.TypeVar: lambda var: (
        NotImplemented if _module_importable(var.__module__) else (typing.TypeVar, (var.__name__,))
    ),
    # dataclasses tells its markers apart by identity.
    type(dataclasses.MISSING): lambda _: (getattr, (dataclasses, "MISSING")),
    type(dataclasses._FIELD): lambda kind: (getattr, (dataclasses, kind.name)),  # type: ignore[attr-defined]
}


def _importable(obj: Any) -> bool:
    name = getattr(obj, "__module__", None)
    if not isinstance(name, str) or not _module_importable(name):
        return False
    found = sys.modules[name]
    for part in obj.__qualname__.split("."):
        found = getattr(found, part, None)  # type: ignore[assignment]
    return found is obj


@functools.cache
def _module_importable(name: str) -> bool:
    """Whether a new process finds the module: not the main script, nor what a test runner loaded by path."""
    if name in MAIN_NAMES or name not in sys.modules:
        return False
    top = name.partition(".")[0]
    return top in sys.builtin_module_names or any(finder.find_spec(top, None, None) for finder in sys.meta_path)


def _module(name: str) -> types.ModuleType:
    """In the worker: the module, or an empty one that takes what is sent of it."""
    if name not in sys.modules:
        try:
            return importlib.import_module(name)
        except ImportError:
            sys.modules[name] = types.ModuleType(name)
            # pickle imports the packages around a module too.
            package, _, last = name.rpartition(".")
            if package:
                setattr(_module(package), last, sys.modules[name])
    return sys.modules[name]


def _cell_state(cell: types.CellType) -> tuple:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _fill_cell(cell: types.CellType, contents: tuple) -> None:
    for value in contents:
        cell.cell_contents = value


def _reduce_function(function: types.FunctionType) -> tuple:
    module = function.__module__
    used = {}
    if not _module_importable(module):
        scope = function.__globals__
        used = {name: scope[name] for name in _global_names(function.__code__) if name in scope}
    args = (marshal.dumps(function.__code__), module, function.__qualname__, function.__closure__)
    attributes = {
        "__defaults__": function.__defaults__,
        "__kwdefaults__": function.__kwdefaults__,
        "__doc__": function.__doc__,
        "__annotations__": function.__annotations__,
        "__dict__": function.__dict__,
    }
    return _make_function, args, (used, attributes), None, None, _finish_function


def _make_function(code: bytes, module: str, qualname: str, closure: tuple | None) -> types.FunctionType:
    function = types.FunctionType(marshal.loads(code), vars(_module(module)), None, None, closure)
    function.__qualname__ = qualname
    function.__module__ = module
    return function


def _finish_function(function: types.FunctionType, state: tuple[dict, dict]) -> None:
    used, attributes = state
    for name, value in used.items():
        function.__globals__.setdefault(name, value)
    for name, value in attributes.items():
        setattr(function, name, value)


def _global_names(code: types.CodeType) -> Iterator[str]:
    """The global names that `code` and the functions inside it use; attribute names are not among them."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _reduce_class(cls: Any) -> tuple:
    if isinstance(cls, enum.EnumMeta):
        members = [(name, member.value) for name, member in cls.__members__.items()]
        return _make_enum, (cls.__bases__[-1], cls.__name__, members, cls.__module__, cls.__qualname__)
    if cls.__bases__ == (tuple,) and hasattr(cls, "_fields"):
        defaults = tuple(cls._field_defaults.values())
        return _make_namedtuple, (cls.__name__, cls._fields, defaults, cls.__module__, cls.__qualname__)
    members = dict(vars(cls))
    slots = members.get("__slots__", ())
    early = {name: members[name] for name in ("__slots__", "__orig_bases__", "__doc__") if name in members}
    state = {
        name: value
        for name, value in members.items()
        if name not in NOT_SENT and name not in early and name not in ((slots,) if isinstance(slots, str) else slots)
    }
    args = (type(cls), cls.__name__, cls.__bases__, cls.__module__, cls.__qualname__, early)
    return _make_class, args, state, None, None, _finish_class


def _make_class(meta: type, name: str, bases: tuple, module: str, qualname: str, early: dict) -> type:
    members = {"__module__": module, "__qualname__": qualname, **early}
    return _install(types.new_class(name, bases, {"metaclass": meta}, lambda scope: scope.update(members)))


def _finish_class(cls: type, state: dict) -> None:
    for name, value in state.items():
        setattr(cls, name, value)
    abc.update_abstractmethods(cls)


def _make_enum(base: Any, name: str, members: list, module: str, qualname: str) -> type:
    return _install(base(name, members, module=module, qualname=qualname))


def _make_namedtuple(name: str, fields: tuple, defaults: tuple, module: str, qualname: str) -> type:
    cls = collections.namedtuple(name, fields, defaults=defaults, module=module)  # type: ignore[misc]
    cls.__qualname__ = qualname
    return _install(cls)


def _install(cls: type) -> type:
    """Make the class known in its module, where pickle looks it up for the way back."""
    if "." not in cls.__qualname__:
        vars(_module(cls.__module__)).setdefault(cls.__qualname__, cls)
    return cls
