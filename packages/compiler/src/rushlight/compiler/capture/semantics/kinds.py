"""Attributes of things that are no instances of user classes: modules, functions, methods, enum members, builtins."""

from __future__ import annotations

from enum import Enum
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from rushlight.compiler.capture import allow
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.semantics import attr, call
from rushlight.compiler.capture.session import Session, raise_
from rushlight.compiler.capture.value import (
    BoundBuiltin,
    CellV,
    FunctionV,
    MethodV,
    Obj,
    SuperV,
    TupleV,
    Value,
    constant,
)
from rushlight.compiler.capture.view import DictV


def of_module(session: Session, value: Obj, name: str) -> Value:
    module = value.obj
    if value.source is not None:
        value.source.check_identity()
    if type(module) is not ModuleType:
        raise Abort(f"a module of class {type(module).__name__}")
    if name == "__dict__":
        raise Abort("a module's __dict__")
    if allow.is_framework_module(module.__name__) and name not in module.__dict__:
        getattr(module, name, None)  # names of the framework are loaded, and kept in the module, on first use
    found = session.namespace(module.__dict__).get(name)
    if found is not None:
        return found
    if allow.is_framework_module(module.__name__):
        try:
            return constant(getattr(module, name))
        except AttributeError as error:
            raise Raised(error) from None
    if "__getattr__" in module.__dict__:
        raise Abort(f"module {module.__name__} defines __getattr__")
    return raise_(AttributeError, f"module {module.__name__!r} has no attribute {name!r}")


def of_function(session: Session, value: Obj, name: str) -> Value:
    if value.source is not None:
        value.source.check_identity()
    if name in ("__name__", "__qualname__", "__module__", "__doc__"):
        found = getattr(value.obj, name)
        return session.lift(found, session.tree.constant(value.obj).child("attr", name, found))
    if name == "__get__":
        raise Abort("a function's __get__")
    own = session.of_function(value.obj).get(name)
    if own is not None:
        return own
    if hasattr(FunctionType, name):
        raise Abort(f"a function's {name}")
    return raise_(AttributeError, f"'function' object has no attribute '{name}'")


def of_own_function(session: Session, value: FunctionV, name: str) -> Value:
    """An attribute of a function that the program made."""
    if value.wrapped is not None:
        if name == "__wrapped__":
            return value.wrapped
        plain = isinstance(value.wrapped, FunctionV) or isinstance(getattr(value.wrapped, "obj", None), FunctionType)
        if plain and name in ("__name__", "__qualname__", "__module__", "__doc__"):
            return attr.load(session, value.wrapped, name)
    elif name in ("__name__", "__qualname__", "__doc__"):
        return constant(getattr(FunctionType(value.code, {}, closure=value.code.co_freevars and tuple(
            [CellType() for _ in value.code.co_freevars])), name))
    raise Abort(f"attribute {name} of a function made inside the program")


def of_method(session: Session, value: Obj, name: str) -> Value:
    if value.source is not None:
        value.source.check_type()
        part = {"__self__": value.obj.__self__, "__func__": value.obj.__func__}
        if name in part:
            return value.source.read("attr", name, part[name])
        return attr.load(session, value.source.read("attr", "__func__", value.obj.__func__), name)
    raise Abort(f"attribute {name} of a bound method")


def of_named_tuple(session: Session, value: TupleV, name: str) -> Value:
    """An attribute of a named tuple that the program made."""
    found, node = attr.lookup(session, value.kind, name)
    if node is None:
        return of_builtin(session, value, value.kind, name)
    if type(found) is attr.FIELD:
        node.check_identity()
        return value.items[place_of(found)]
    return attr.of_made(session, value, value.kind, name, found, node)


def of_own_dict(session: Session, value: DictV, name: str) -> Value:
    """An attribute of a dict, made by the program, of a class of the program."""
    found, node = attr.lookup(session, value.kind, name)
    if found is attr.MISSING:
        return attr.fallback(session, value, value.kind, name, None)
    if isinstance(found, MethodDescriptorType) and node is None:
        return BoundBuiltin(name, value)
    if node is not None:
        return attr.of_made(session, value, value.kind, name, found, node)
    raise Abort(f"attribute {name} of a {value.kind.__name__}")


def of_leaf_object(session: Session, value: Obj, name: str) -> Value:
    """Attributes of dtypes, devices, sizes, enum members: immutable, so read natively."""
    obj = session.concrete(value)
    try:
        found = getattr(obj, name)
    except AttributeError as error:
        raise Raised(error) from None
    if callable(found) and not isinstance(found, type):
        return BoundBuiltin(name, value)
    return constant(found)


def of_enum(session: Session, value: Obj, name: str) -> Value:
    """Attributes of an enum member: its name and value, and what its class defines."""
    member = session.concrete(value)
    found, node = attr.lookup(session, type(member), name)
    if name in ("_name_", "_value_") or any(found is Enum.__dict__[n] for n in ("name", "value")):
        if node is not None:
            node.check_identity()
        attributes = session.attributes(Obj(member, session.tree.constant(member)))
        kept = attributes and attributes.get(f"_{name.strip('_')}_")
        if kept is None:
            raise Abort("an enum member without name and value")
        return kept
    if isinstance(found, FunctionType):
        return MethodV(session.lift(found, node), value)
    if isinstance(found, property):
        node.check_identity()
        return call.call(session, Obj(found.fget, session.tree.constant(found.fget)), [value], {})
    raise Abort(f"attribute {name} of an enum member")


def of_builtin(session: Session, value: Value, kind: type | None, name: str) -> Value:
    if isinstance(value, CellV) and name == "cell_contents" and value.content is not None:
        return value.content
    if isinstance(value, Obj) and isinstance(value.obj, (BuiltinFunctionType, MethodDescriptorType)) and name in (
            "__name__", "__qualname__"):
        return constant(getattr(session.concrete(value), name))
    if kind is not None:
        if name == "__class__":
            return constant(kind)
        if isinstance(value, Obj) and kind is slice and name in ("start", "stop", "step"):
            return constant(getattr(session.concrete(value), name))
        if kind in (int, float, bool, complex, range) and name in ("real", "imag", "numerator", "denominator", "start",
                                                                   "stop", "step"):
            return constant(getattr(session.concrete(value), name))
        found = getattr(kind, name, attr.MISSING)
        if found is attr.MISSING:
            return raise_(AttributeError, f"'{kind.__name__}' object has no attribute '{name}'")
        if not callable(found):
            raise Abort(f"{kind.__name__}.{name}")
    return BoundBuiltin(name, value)


def of_super(session: Session, value: SuperV, name: str) -> Value:
    """An attribute behind a class, in the order of those of an object."""
    start = value.self.obj if isinstance(value.self, Obj) and isinstance(value.self.obj, type) else None
    cls = start or session.type_of(value.self)
    found, node = attr.lookup(session, cls, name, after=value.cls)
    if found is attr.MISSING:
        return raise_(AttributeError, f"'super' object has no attribute '{name}'")
    if isinstance(found, staticmethod):
        return attr.pinned(session, found, node, found.__func__)
    if isinstance(found, classmethod):
        return MethodV(attr.pinned(session, found, node, found.__func__), constant(cls))
    if isinstance(found, property):
        if node is not None:
            node.check_identity()
        return call.call(session, Obj(found.fget, session.tree.constant(found.fget)), [value.self], {})
    if isinstance(found, (FunctionType, MethodDescriptorType, WrapperDescriptorType)):
        bound = session.lift(found, node) if node is not None else constant(found)
        return bound if start else MethodV(bound, value.self)
    if isinstance(found, BuiltinFunctionType):
        return constant(found)
    raise Abort(f"super().{name}")


def place_of(field: Any) -> int:
    """Which item a field of a named tuple is."""
    return field.__reduce__()[1][0]
