"""What may run natively during a dry run, what is interpreted, and what must not be touched."""

from __future__ import annotations

import enum
import math
import operator
from abc import ABCMeta
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType
from typing import Any

import numpy as np

from rushlight.core.devices import device
from rushlight.core.dtypes import dtype, finfo, iinfo
from rushlight.core.meta import Meta, Size

# Packages whose functions only handle metadata and call ops: they run natively on tracers.
LEAF_PACKAGES = ("rushlight.ops", "rushlight.linalg", "rushlight.fft", "rushlight.special", "rushlight.array_api",
                 "rushlight.nn.functional")
LEAF_MODULES = frozenset(("rushlight", "rushlight.core.tensor", "rushlight.core.front", "rushlight.core.declare",
                          "rushlight.core.dtypes", "rushlight.core.meta", "rushlight.core.checks",
                          "rushlight.core.errors"))
# Functions of those packages that change process state, or share or read memory outside the ops.
NOT_LEAF = frozenset((
    "manual_seed", "seed", "initial_seed", "set_default_dtype", "set_default_device", "set_num_threads",
    "set_printoptions", "from_numpy", "frombuffer", "from_dlpack", "asarray", "save", "load",
    "set_rng_state", "get_rng_state", "use_deterministic_algorithms", "compile", "numpy", "__array__", "tolist",
    "item", "data_ptr", "storage", "untyped_storage", "__dlpack__", "share_memory_", "resize_", "set_", "apply_",
    "map_",
))

BUILTIN_TYPES = frozenset((
    int, float, bool, complex, str, bytes, list, tuple, dict, set, frozenset, range, slice, type(None), object,
    BuiltinFunctionType, MethodDescriptorType, type(iter([])), type(iter(())), bytearray,
))

# Numbers of numpy, which a guard compares bit by bit.
NUMPY_NUMBERS = frozenset(np.dtype(code).type for code in "?bBhHiIlLqQefdFD")

_leaf_functions: set[int] = set()
_keep_leaf: list[Callable] = []


def module_type(obj: Any) -> type | None:
    """The base of all modules that an object is an instance of, None for others; by name, as nn stands above us."""
    for cls in type(obj).__mro__:
        if cls.__name__ == "Module" and cls.__module__.startswith("rushlight.nn"):
            return cls
    return None


def allow_in_graph(fn: Callable) -> Callable:
    """Let a function run natively on tracers during capture: it must only compute on its arguments with rushlight
    ops."""
    _leaf_functions.add(id(fn))
    _keep_leaf.append(fn)
    return fn


def home(fn: FunctionType) -> str:
    """The module of a function. Examples in docstrings are nobody's, though they carry the name of the module."""
    return "" if fn.__code__.co_filename.startswith("<doctest") else fn.__module__ or ""


def is_leaf(fn: Any) -> bool:
    """Does this function run natively on tracers?"""
    if id(fn) in _leaf_functions:
        return True
    if not isinstance(fn, FunctionType) or fn.__name__ in NOT_LEAF:
        return False
    if "_rushlight_leaf" in fn.__dict__:  # made by the compiler around a graph
        return True
    module = home(fn)
    if module == INTERPRETED[0]:
        return False
    return module in LEAF_MODULES or any(module == p or module.startswith(p + ".") for p in LEAF_PACKAGES)


def is_opaque(fn: FunctionType) -> bool:
    """Is this framework code that must not be interpreted (it works on the state that a dry run must not touch)?"""
    module = home(fn)
    return is_framework_module(module) and (not module.startswith(INTERPRETED) or fn.__name__ in NOT_LEAF)


# The first takes functions of the program's, so it is interpreted though others of its package are not.
INTERPRETED = ("rushlight.ops.control", "rushlight.nn", "rushlight.optim", "rushlight.amp", "rushlight.distributions",
               "rushlight.utils", "rushlight.testing", "rushlight.compiler._module", "rushlight.export.module",
               "rushlight.func.modules", "rushlight.func.reverse", "rushlight.func.batching",
               "rushlight.func.jacobians", "rushlight.func.forward", "rushlight.func.arguments",
               "rushlight.func.tree", "rushlight.export.trees", "rushlight.jit.marks", "rushlight.jit.script",
               "rushlight._C", "rushlight.backends", "rushlight.core.conditions")


def is_framework_module(name: str) -> bool:
    """Is it a module of rushlight?"""
    return name == "rushlight" or name.startswith("rushlight.")


def known_metaclass(meta: type) -> bool:
    """Do classes with this metaclass look attributes up in the ordinary way?"""
    return meta in (type, ABCMeta) or meta.__getattribute__ is type.__getattribute__ and not hasattr(
        meta, "__getattr__") and meta.__module__.startswith("rushlight.")


def plain_instance_check(cls: type) -> bool:
    """Does `isinstance` with this class go by its subclasses alone?"""
    return type(cls).__instancecheck__ in (type.__instancecheck__, ABCMeta.__instancecheck__)


def is_plain_container(cls: type) -> bool:
    """Is it a sequence or mapping class that the interpreter models?"""
    return cls in (list, tuple, dict, Size) or issubclass(cls, tuple) and hasattr(cls, "_fields")


def is_plain(obj: Any) -> bool:
    """Is it an immutable plain value?"""
    return type(obj) in (int, float, bool, complex, str, bytes, type(None))


def is_leaf_object(obj: Any) -> bool:
    """Immutable framework objects, whose attributes and methods run natively."""
    return isinstance(obj, (dtype, device, Size, Meta, finfo, iinfo)) or type(obj) in NUMPY_NUMBERS


def own_code(obj: Any) -> bool:
    """Might an operator, `str` or `hash` of an immutable object run code of its class (enums), or show its address?"""
    if isinstance(obj, (tuple, frozenset)) and type(obj) is not Size:
        return any(map(own_code, obj))
    if isinstance(obj, enum.Enum):
        return not (isinstance(obj, int) and _plain_numbers(type(obj)))
    return isinstance(obj, (FunctionType, ModuleType)) or (
        isinstance(obj, type) and type(obj) is not type)


def _plain_numbers(cls: type) -> bool:
    """Do the members of an enum of ints compute as ints do, with no code but that of the standard library?"""
    return all(c.__module__ in ("enum", "builtins") or not any(
        name.startswith("__") and isinstance(member, FunctionType) and member.__module__ == c.__module__
        for name, member in vars(c).items()) for c in cls.__mro__)


# Methods of builtin immutable types that compute a value and do nothing else.
PURE_METHOD_TYPES = (int, float, bool, complex, str, bytes, tuple, range, frozenset, Size)

# Operators by the function the instruction means; all run natively on concrete operands.
PURE_FUNCTIONS: frozenset[int]


def _pure_functions() -> list[Any]:
    functions = [f for name, f in vars(math).items() if callable(f) and not name.startswith("_")]
    functions += [f for name, f in vars(operator).items()
                  if isinstance(f, BuiltinFunctionType) and not name.startswith(("_", "i")) and name not in (
                      "setitem", "delitem", "call", "length_hint")]
    functions += [operator.index, operator.inv, operator.invert, operator.is_, operator.is_not]
    return [*functions, abs, round, divmod, pow, ord, chr, hex, bin, oct, ascii, repr, format, callable, hash]


_pure = _pure_functions()
PURE_FUNCTIONS = frozenset(map(id, _pure))


def is_pure(fn: Any) -> bool:
    """May this builtin run natively on concrete arguments?"""
    return id(fn) in PURE_FUNCTIONS


# Types whose constructors run natively on concrete arguments.
PURE_CONSTRUCTORS = frozenset((int, float, bool, complex, str, bytes, range, slice, frozenset, Size, device, finfo,
                               iinfo))
