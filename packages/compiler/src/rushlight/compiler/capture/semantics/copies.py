"""`copy.copy`, `copy.deepcopy`, and the text of containers."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from types import FunctionType, MemberDescriptorType
from typing import Any

from rushlight.compiler.capture import allow
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.semantics import attr, iterate
from rushlight.compiler.capture.session import Session, immutable
from rushlight.compiler.capture.value import FunctionV, InstanceV, Obj, SetV, TensorV, TupleV, Value
from rushlight.compiler.capture.view import DequeV, DictV, ListV
from rushlight.core.meta import Size

Args = list[Value]
Kwargs = dict[str, Value]


def shallow(session: Session, args: Args, kwargs: Kwargs) -> Value:
    """`copy.copy(value)`."""
    if isinstance(args[0], TensorV):
        raise Abort("a shallow copy of a tensor")
    return _copied(session, args[0], lambda item: item)


def deep(session: Session, args: Args, kwargs: Kwargs) -> Value:
    """`copy.deepcopy(value)`."""
    if len(args) != 1 or kwargs:
        raise Abort("deepcopy with a memo")
    made: dict[Any, Value] = {}
    kept: list[Value] = []

    def copied(value: Value) -> Value:
        base = value.obj if isinstance(value, Obj) else getattr(value, "base", None)
        key = id(value if base is None else base)
        if key not in made:
            kept.append(value)
            made[key] = _copied(session, value, copied)
        return made[key]

    return copied(args[0])


def _copied(session: Session, value: Value, inner: Callable[[Value], Value]) -> Value:
    obj = getattr(value, "obj", None)
    if isinstance(value, FunctionV) or isinstance(value, Obj) and (
            allow.is_plain(obj) or allow.is_leaf_object(obj) or isinstance(obj, (type, FunctionType))):
        return value
    if isinstance(value, TensorV):
        return _tensor(session, value)
    if isinstance(value, TupleV):
        items = [inner(x) for x in value.items]
        same = value.kind is tuple and all(a is b for a, b in zip(items, value.items))
        return value if same else TupleV(items, value.kind)
    if isinstance(value, SetV):
        return SetV(value.keys.copy())
    items_of = session.as_list(value)
    if items_of is not None:
        return ListV([inner(x) for x in items_of.load()])
    queue = session.as_deque(value)
    if queue is not None:
        return DequeV([inner(x) for x in queue.load()], queue.most)
    mapping = session.as_dict(value)
    if mapping is not None:
        if mapping.kind not in (dict, OrderedDict):
            raise Abort(f"a copy of a {mapping.kind.__name__}")
        return DictV({key: inner(x) for key, x in mapping.load().items()}, kind=mapping.kind)
    if isinstance(value, Obj) and type(value.obj) is tuple:
        items = iterate.fixed_items(session, value)
        return value if immutable(value.obj) else TupleV([inner(x) for x in items])
    if isinstance(value, (Obj, InstanceV)):
        return _instance(session, value, inner)
    raise Abort(f"a copy of a {session.type_name(value)}")


def _tensor(session: Session, value: TensorV) -> Value:
    tracer = value.tracer
    if tracer._origin is not None or tracer._parent is not None or tracer._meta.requires_grad:
        raise Abort("a copy of a tensor from outside, of a view, or of one with gradients")
    return session.recorder.value_of(tracer.clone())


def _instance(session: Session, value: Obj | InstanceV, inner: Callable[[Value], Value]) -> Value:
    """An instance of a class that leaves copies to Python."""
    cls = session.type_of(value)
    for name in ("__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__new__",
                 "__getnewargs__", "__getnewargs_ex__", "__getattr__"):
        found, _ = attr.lookup(session, cls, name)
        if found is not attr.MISSING and getattr(found, "__objclass__", None) is not object and found is not getattr(
                object, name, None):
            raise Abort(f"a copy of a {cls.__name__}, which defines {name}")
    if not attr.is_python_class(cls) or cls.__base__ is not object and any(
            not attr.is_python_class(c) for c in cls.__mro__[:-1]):
        raise Abort(f"a copy of a {cls.__name__}")
    attributes = session.attributes(value)
    if attributes is None or any(isinstance(x, MemberDescriptorType) for c in cls.__mro__ for x in vars(c).values()):
        raise Abort("a copy of an object with slots")
    return InstanceV(cls, DictV({name: inner(x) for name, x in attributes.load().items()}))


def plain(session: Session, value: Value) -> Any:
    """A container of plain values as a Python object of its own, to see its text."""
    if isinstance(value, TupleV) and value.kind in (tuple, Size):
        return value.kind([plain(session, x) for x in value.items])
    items = session.as_list(value)
    if items is not None:
        return [plain(session, x) for x in items.load()]
    mapping = session.as_dict(value)
    if mapping is not None and mapping.kind is dict:
        if not all(map(allow.is_plain, mapping.load())):
            raise Abort("the text of a dict with objects as keys")
        return {key: plain(session, x) for key, x in mapping.load().items()}
    return session.plain(value)


FUNCTIONS: dict[Any, Callable] = {copy.copy: shallow, copy.deepcopy: deep}
