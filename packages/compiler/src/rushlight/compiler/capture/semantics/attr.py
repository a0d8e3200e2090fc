"""Attribute reads and writes, with every lookup they depend on guarded."""

from __future__ import annotations

from collections import namedtuple
from enum import Enum, EnumType
from functools import cached_property
from types import (
    BuiltinFunctionType,
    BuiltinMethodType,
    ClassMethodDescriptorType,
    FunctionType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any

from rushlight.compiler.capture import allow
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.semantics import (
    arrays,
    call,
    enums,
    exceptions,
    functions,
    hooks,
    kinds,
    patterns,
    tensor,
    transforms,
)
from rushlight.compiler.capture.session import BY_VALUE, Session, raise_
from rushlight.compiler.capture.source import IMMUTABLE_TYPE, Source, is_python_class
from rushlight.compiler.capture.value import (
    NONE,
    BoundBuiltin,
    CellV,
    ContextV,
    FunctionV,
    GeneratorV,
    InstanceV,
    IterV,
    MethodV,
    Obj,
    SetV,
    Special,
    SuperV,
    TensorV,
    TupleV,
    Value,
    constant,
)
from rushlight.compiler.capture.view import DictV, ListV

MISSING = object()
FIELD = type(namedtuple("_One", "field").field)  # what reads a field of a named tuple
# The same function under different names: instances first look into their class, and then into themselves.
GENERIC_LOOKUPS = frozenset((object.__getattribute__, tuple.__getattribute__, dict.__getattribute__,
                             list.__getattribute__, SimpleNamespace.__getattribute__))


def load(session: Session, value: Value, name: str) -> Value:
    """`value.name`; raises AttributeError in the program when there is none."""
    match value:
        case TensorV():
            return tensor.attribute(session, value, name)
        case ContextV():
            return functions.load(session, value, name)
        case hooks.HandleV() if name == "remove":
            return Special(name, lambda session, args, kwargs: hooks.remove(session, value))
        case transforms.LevelV():
            return transforms.load(session, value, name)
        case SuperV():
            return kinds.of_super(session, value, name)
        case InstanceV():
            return _of_instance(session, value, value.cls, name)
        case Obj():
            obj = value.obj
            if isinstance(obj, ModuleType):
                return kinds.of_module(session, value, name)
            if isinstance(obj, type):
                return of_class(session, value, name)
            if isinstance(obj, FunctionType):
                return kinds.of_function(session, value, name)
            if type(obj) is MethodType:
                return kinds.of_method(session, value, name)
            if isinstance(obj, Enum):
                return kinds.of_enum(session, value, name)
            if arrays.is_own(value):
                return arrays.load(session, value, name)
            if patterns.is_one(value):
                return patterns.load(value, name)
            if allow.is_leaf_object(obj):
                return kinds.of_leaf_object(session, value, name)
            if type(obj) in allow.BUILTIN_TYPES:
                return kinds.of_builtin(session, value, type(obj), name)
            if isinstance(obj, BaseException):
                return exceptions.load(session, value, name)
            if (session.as_dict(value) or session.as_deque(value)) is not None and isinstance(
                    lookup(session, type(obj), name)[0], MethodDescriptorType):
                return BoundBuiltin(name, value)
            return _of_instance(session, value, session.type_of(value), name)
        case MethodV():
            if name == "__self__":
                return value.self
            if name == "__func__":
                return value.func
            return load(session, value.func, name)
        case FunctionV():
            return kinds.of_own_function(session, value, name)
        case TupleV() if value.kind is not tuple and hasattr(value.kind, "_fields"):
            return kinds.of_named_tuple(session, value, name)
        case DictV() if value.attrs and name in value.attrs:
            return value.attrs[name]
        case DictV() if is_python_class(value.kind) and not value.kind.__module__.startswith("rushlight."):
            return kinds.of_own_dict(session, value, name)
        case ListV() | DictV() | SetV() | TupleV() | IterV() | GeneratorV() | CellV() | BoundBuiltin():
            return kinds.of_builtin(session, value, session.type_of(value) if not isinstance(
                value, (IterV, GeneratorV, CellV, BoundBuiltin)) else None, name)
    raise Abort(f"attribute {name} of a {session.type_name(value)}")


def has(session: Session, value: Value, name: str) -> bool:
    """`hasattr(value, name)`."""
    try:
        load(session, value, name)
    except Raised as raised:
        if isinstance(raised.value, AttributeError):
            return False
        raise
    return True


# classes


def lookup(session: Session, cls: type, name: str, after: type | None = None) -> tuple[Any, Source | None]:
    """Find a name along the MRO (behind `after`, for super) and guard the way there; MISSING when absent."""
    if name in session.class_writes:
        raise Abort(f"the attribute {name} of a class, which the program has set")
    return _find(session, cls, name, after)


def written(session: Session, cls: type, name: str) -> Value | None:
    """What the program has set an attribute of a class to, if it has."""
    if name in session.class_writes:
        for owner in session.tree.mro(cls):
            if (id(owner), name) in session.slots:
                return session.slots[id(owner), name][2]
            if name in owner.__dict__:
                break
            if not owner.__flags__ & IMMUTABLE_TYPE:
                session.tree.constant(owner).child("class_vars", None, owner.__dict__).check("lacks", str, name)
    return None


def _find(session: Session, cls: type, name: str, after: type | None = None) -> tuple[Any, Source | None]:
    mro = session.tree.mro(cls)
    for owner in mro[mro.index(after) + 1:] if after else mro:
        if owner.__flags__ & IMMUTABLE_TYPE:
            if name in owner.__dict__:
                return owner.__dict__[name], None
            continue
        node = session.tree.constant(owner).child("class_vars", None, owner.__dict__)
        if name in owner.__dict__:
            found = owner.__dict__[name]
            return found, node.child("item", name, found)
        node.check("lacks", str, name)
    return MISSING, None


def of_class(session: Session, value: Obj, name: str) -> Value:
    """An attribute of a class object."""
    cls = value.obj
    if value.source is not None:
        value.source.check_identity()
    if name == "__class__":
        return constant(type(cls))
    if name in ("__name__", "__qualname__", "__module__", "__doc__") and type(cls) is type:
        found = getattr(cls, name)
        return session.lift(found, session.tree.constant(cls).child("attr", name, found))
    if issubclass(type(cls), EnumType):
        return enums.attribute(session, cls, name)
    if not allow.known_metaclass(type(cls)):
        raise Abort(f"an attribute of a class with metaclass {type(cls).__name__}")
    on_meta = next((m.__dict__[name] for m in type(cls).__mro__ if name in m.__dict__), None)
    if hasattr(type(on_meta), "__set__"):
        raise Abort(f"{cls.__name__}.{name}")
    own = written(session, cls, name)
    if own is not None:
        return own
    found, node = _find(session, cls, name)
    if found is MISSING:
        if on_meta is not None:
            raise Abort(f"{cls.__name__}.{name}, found on the metaclass")
        return raise_(AttributeError, f"type object '{cls.__name__}' has no attribute '{name}'")
    return _bind_to_class(session, found, node, value)


def _bind_to_class(session: Session, found: Any, node: Source | None, owner: Obj) -> Value:
    if isinstance(found, staticmethod):
        return pinned(session, found, node, found.__func__)
    if isinstance(found, classmethod):
        return MethodV(pinned(session, found, node, found.__func__), owner)
    if isinstance(found, ClassMethodDescriptorType):
        return constant(getattr(owner.obj, found.__name__))
    return _class_attribute(session, found, node, owner)


def pinned(session: Session, found: Any, node: Source | None, result: Any) -> Value:
    """A part of a descriptor object: the descriptor is guarded by identity, its parts cannot change."""
    if node is not None:
        node.check_identity()
    return Obj(result, session.tree.constant(result) if not immutable_leaf(result) else None)


def immutable_leaf(obj: Any) -> bool:
    """Does the object need no source of its own once it is pinned?"""
    return type(obj) in BY_VALUE or isinstance(obj, (FunctionType, BuiltinFunctionType, type))


def _class_attribute(session: Session, found: Any, node: Source | None, owner: Obj | None = None) -> Value:
    if node is None:
        return constant(found)
    if isinstance(found, property):
        node.check_identity()
        return constant(found)
    if hasattr(type(found), "__get__") and not isinstance(found, (FunctionType, type, *BUILTIN_CALLABLES)):
        if isinstance(getattr(type(found), "__get__", None), FunctionType) and owner is not None:
            return _user_descriptor(session, NONE, owner.obj, found, node)
        raise Abort(f"a descriptor of type {type(found).__name__} read from a class")
    return session.lift(found, node)


BUILTIN_CALLABLES = (BuiltinFunctionType, BuiltinMethodType, MethodDescriptorType, WrapperDescriptorType)


# instances


def _of_instance(session: Session, value: Value, cls: type, name: str) -> Value:
    if not allow.known_metaclass(type(cls)):
        raise Abort(f"an instance of a class with metaclass {type(cls).__name__}")
    getter, _ = lookup(session, cls, "__getattribute__")
    if getter not in GENERIC_LOOKUPS:
        raise Abort(f"{cls.__name__} defines __getattribute__")
    if name == "__class__":
        return constant(cls)
    if name == "__dict__":
        return _instance_dict(session, value)
    of_cls = written(session, cls, name)
    if of_cls is not None:
        attributes = session.attributes(value)
        own = None if attributes is None else attributes.get(name)
        return of_cls if own is None else own
    found, node = _find(session, cls, name)
    if found is not MISSING:
        if isinstance(found, property):
            if node is not None:
                node.check_identity()
            if found.fget is None:
                return raise_(AttributeError, f"property of {cls.__name__!r} object has no getter")
            try:
                return call.call(session, Obj(found.fget, session.tree.constant(found.fget)), [value], {})
            except Raised as raised:
                if isinstance(raised.value, AttributeError):
                    return fallback(session, value, cls, name, raised)
                raise
        if isinstance(found, MemberDescriptorType):
            if node is not None:
                node.check_identity()
            return _slot(session, value, cls, name, found)
        if type(found) is FIELD and issubclass(cls, tuple):
            node.check_identity()
            session.check_tuple(cls)
            value.source.check("len", len(value.obj))
            index = kinds.place_of(found)
            return value.source.read("item", index, value.obj[index])
        if _says(session, found, "__set__", "__delete__"):
            return _user_descriptor(session, value, cls, found, node)
    attributes = session.attributes(value)
    if attributes is not None:
        own = attributes.get(name)
        if own is not None:
            if found is not MISSING and node is not None:
                node.check_type() if not isinstance(found, FunctionType) else node.check_identity()
            return own
    if found is MISSING:
        return fallback(session, value, cls, name, None)
    if isinstance(found, FunctionType):
        return MethodV(session.lift(found, node) if node is not None else constant(found), value)
    if isinstance(found, staticmethod):
        return pinned(session, found, node, found.__func__)
    if isinstance(found, classmethod):
        return MethodV(pinned(session, found, node, found.__func__), constant(cls))
    if isinstance(found, (MethodDescriptorType, WrapperDescriptorType)):
        if node is not None:
            node.check_identity()
        return MethodV(constant(found), value)
    if not isinstance(found, (type, BuiltinFunctionType)) and _says(session, found, "__get__"):
        return _user_descriptor(session, value, cls, found, node)
    return _class_attribute(session, found, node)


def _says(session: Session, found: Any, *names: str) -> bool:
    """Does the class of a class attribute define one of these methods of descriptors? A class of a program may change.
    """
    cls = type(found)
    if not is_python_class(cls):
        return any(hasattr(cls, name) for name in names)
    return any(lookup(session, cls, name)[0] is not MISSING for name in names)


def of_made(session: Session, value: Value, cls: type, name: str, found: Any, node: Source) -> Value:
    """What the class of an object gives that has no such attribute itself."""
    if isinstance(found, property):
        node.check_identity()
        return call.call(session, Obj(found.fget, session.tree.constant(found.fget)), [value], {})
    if isinstance(found, FunctionType):
        return MethodV(session.lift(found, node), value)
    if isinstance(found, staticmethod):
        return pinned(session, found, node, found.__func__)
    if isinstance(found, classmethod):
        return MethodV(pinned(session, found, node, found.__func__), constant(cls))
    if hasattr(type(found), "__get__"):
        raise Abort(f"attribute {name} of a {cls.__name__}")
    return _class_attribute(session, found, node)


def _user_descriptor(session: Session, value: Value, cls: type, found: Any, node: Source | None) -> Value:
    if type(found) is cached_property and node is not None:
        return _cached(session, value, found, node)
    getter, place = lookup(session, type(found), "__get__")
    if not isinstance(getter, FunctionType) or node is None:
        raise Abort(f"a descriptor of type {type(found).__name__}")
    node.check_type()
    return call.call(session, session.lift(getter, place), [session.lift(found, node), value, constant(cls)], {})


def _cached(session: Session, value: Value, found: cached_property, node: Source) -> Value:
    """A `functools.cached_property` that has not been computed yet."""
    node.check_identity()
    attributes = session.attributes(value)
    if attributes is None:
        raise Abort("a cached_property of an object without a __dict__")
    result = call.call(session, Obj(found.func, session.tree.constant(found.func)), [value], {})
    attributes.set(found.attrname, result)
    return result


def fallback(session: Session, value: Value, cls: type, name: str, raised: Raised | None) -> Value:
    hook, node = lookup(session, cls, "__getattr__")
    if hook is MISSING:
        if raised is not None:
            raise raised
        return raise_(AttributeError, f"'{cls.__name__}' object has no attribute '{name}'")
    if hook is dict.__getitem__ and node is not None:
        node.check_identity()
        return call.call(session, constant(hook), [value, constant(name)], {})
    if not isinstance(hook, FunctionType):
        raise Abort(f"{cls.__name__}.__getattr__ is not a plain function")
    return call.call(session, session.lift(hook, node), [value, constant(name)], {})


def _instance_dict(session: Session, value: Value) -> Value:
    attributes = session.attributes(value)
    if isinstance(value, InstanceV) and any(isinstance(getattr(value.cls, name, None), MemberDescriptorType)
                                            for name in attributes.entries):
        raise Abort("the __dict__ of an object with slots")
    if attributes is None:
        return raise_(AttributeError, f"'{session.type_name(value)}' object has no attribute '__dict__'")
    if attributes.base is not None:
        session.note(attributes.base, attributes.source)
    return attributes


def _slot(session: Session, value: Value, cls: type, name: str, slot: MemberDescriptorType) -> Value:
    if isinstance(value, InstanceV):
        own = value.attrs.get(name)
        if own is None:
            return raise_(AttributeError, f"'{cls.__name__}' object has no attribute '{name}'")
        return own
    if not isinstance(value, Obj) or value.source is None:
        raise Abort(f"slots of a {session.type_name(value)}")
    key = (id(value.obj), name)
    if key in session.slots:
        return session.slots[key][2]
    try:
        found = slot.__get__(value.obj)
    except AttributeError:
        raise Abort(f"the empty slot {name}") from None
    session.note(value.obj, value.source)
    return value.source.read("slot", slot, found)
