"""Attribute writes, with every lookup they depend on guarded."""

from __future__ import annotations

from abc import ABCMeta
from collections import OrderedDict
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType

from rushlight.compiler.capture import allow, leaves
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.late import LateV
from rushlight.compiler.capture.semantics import attr, call, functions
from rushlight.compiler.capture.session import Session, raise_
from rushlight.compiler.capture.source import IMMUTABLE_TYPE
from rushlight.compiler.capture.value import ContextV, InstanceV, Obj, SetV, TensorV, TupleV, Value, constant
from rushlight.compiler.capture.view import DictV, ListV


def store(session: Session, target: Value, name: str, value: Value) -> None:
    """`target.name = value`."""
    if isinstance(target, ContextV):
        functions.store(session, target, name, value)
        return
    if isinstance(target, TensorV):
        if name == "requires_grad":
            leaves.require_grad(session.recorder, target.tracer, session.concrete(value) is True)
        elif name == "data" and isinstance(value, TensorV):
            session.recorder.replace(target.tracer, value.tracer)
        elif name == "grad":
            session.gradients.write(session, target.tracer, value)
        else:
            raise Abort(f"setting {name} of a tensor")
        return
    if isinstance(target, DictV) and target.base is None and target.kind is OrderedDict:
        if hasattr(OrderedDict, name):
            raise Abort(f"setting {name} of an OrderedDict")
        target.attrs[name] = value
        return
    if isinstance(target, Obj) and isinstance(target.obj, ModuleType):
        target.source is None or target.source.check_identity()
        session.namespace(target.obj.__dict__).set(name, value)
        return
    if isinstance(target, Obj) and type(target.obj) is FunctionType and not hasattr(FunctionType, name):
        target.source is None or target.source.check_identity()
        session.of_function(target.obj).set(name, value)
        return
    if isinstance(target, Obj) and isinstance(target.obj, type):
        _store_on_class(session, target, name, value)
        return
    own_dict = isinstance(target, DictV) and target.base is None and attr.is_python_class(target.kind)
    if not isinstance(target, (Obj, InstanceV)) and not own_dict or isinstance(target, Obj) and isinstance(
            target.obj, (FunctionType, MethodType)):
        raise Abort(f"setting {name} of a {session.type_name(target)}")
    cls = session.type_of(target)
    if cls in allow.BUILTIN_TYPES:
        raise Abort(f"setting {name} of a {cls.__name__}")
    setter, node = attr.lookup(session, cls, "__setattr__")
    if isinstance(setter, FunctionType):
        call.call(session, session.lift(setter, node), [target, constant(name), value], {})
    elif setter in (object.__setattr__, BaseException.__setattr__):
        plain_store(session, target, name, value)
    else:
        raise Abort(f"{cls.__name__}.__setattr__")


def _store_on_class(session: Session, target: Obj, name: str, value: Value) -> None:
    """`cls.name = value`, of values that are there for instances, too, as they are."""
    cls = target.obj
    if target.source is not None:
        target.source.check_identity()
    if type(cls) not in (type, ABCMeta) or cls.__flags__ & IMMUTABLE_TYPE or name.startswith("__") or \
            allow.is_framework_module(str(cls.__dict__.get("__module__"))):
        raise Abort(f"setting {name} of the class {cls.__name__}")
    before = None
    if attr.written(session, cls, name) is None and name not in session.class_writes:
        before, node = attr.lookup(session, cls, name)
        if node is not None:
            node.check_type()
    if not isinstance(value, (TensorV, TupleV, ListV, DictV, SetV, LateV)) and not (
            isinstance(value, Obj) and session.is_concrete(value) and not isinstance(value.obj, type)):
        raise Abort(f"setting {name} of the class {cls.__name__} to a {session.type_name(value)}")
    if any(hasattr(type(x), "__get__") for x in (before, getattr(value, "obj", None)) if x is not attr.MISSING):
        raise Abort(f"setting {name} of the class {cls.__name__}, where a descriptor is or comes")
    session.class_writes.add(name)
    session.slots[id(cls), name] = (session.tree.constant(cls), name, value)


def plain_store(session: Session, target: Value, name: str, value: Value) -> None:
    """`object.__setattr__(target, name, value)`."""
    cls = session.type_of(target)
    found, node = attr.lookup(session, cls, name)
    if found is not attr.MISSING:
        if isinstance(found, property):
            if node is not None:
                node.check_identity()
            if found.fset is None:
                raise_(AttributeError, f"property '{name}' of '{cls.__name__}' object has no setter")
            call.call(session, Obj(found.fset, session.tree.constant(found.fset)), [target, value], {})
            return
        if isinstance(found, MemberDescriptorType):
            if isinstance(target, InstanceV):
                target.attrs.set(name, value)
                return
            if not isinstance(target, Obj):
                raise Abort(f"slots of a {session.type_name(target)}")
            if node is not None:
                node.check_identity()
            session.note(target.obj, target.source)
            session.slots[id(target.obj), name] = (target.source, name, value)
            return
        if hasattr(type(found), "__set__") or hasattr(type(found), "__delete__"):
            setter, place = attr.lookup(session, type(found), "__set__")
            if not isinstance(setter, FunctionType) or node is None:
                raise Abort(f"a descriptor of type {type(found).__name__} that is written to")
            node.check_type()
            call.call(session, session.lift(setter, place), [session.lift(found, node), target, value], {})
            return
        if node is not None:
            node.check_type()
    if name in ("__class__", "__dict__"):
        raise Abort(f"assigning {name}")
    if isinstance(target, DictV) and target.base is None:
        target.attrs[name] = value
        return
    attributes = session.attributes(target)
    if attributes is None or isinstance(target, InstanceV) and not cls.__dictoffset__:
        raise_(AttributeError, f"'{cls.__name__}' object has no attribute '{name}'")
    attributes.set(name, value)


def delete(session: Session, target: Value, name: str) -> None:
    """`del target.name`."""
    if not isinstance(target, (Obj, InstanceV)) or isinstance(target, Obj) and isinstance(
            target.obj, (ModuleType, type, FunctionType)):
        raise Abort(f"deleting {name} of a {session.type_name(target)}")
    cls = session.type_of(target)
    deleter, node = attr.lookup(session, cls, "__delattr__")
    if isinstance(deleter, FunctionType):
        call.call(session, session.lift(deleter, node), [target, constant(name)], {})
        return
    plain_delete(session, target, name)


def plain_delete(session: Session, target: Value, name: str) -> None:
    """`object.__delattr__(target, name)`."""
    cls = session.type_of(target)
    found, node = attr.lookup(session, cls, name)
    if node is not None:
        node.check_type()
    if found is not attr.MISSING and (hasattr(type(found), "__set__") or hasattr(type(found), "__delete__")):
        raise Abort(f"deleting the descriptor {name}")
    attributes = session.attributes(target)
    if attributes is None or not attributes.delete(name):
        raise_(AttributeError, f"'{cls.__name__}' object has no attribute '{name}'")
