"""Iteration."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from enum import EnumType
from typing import Any

from rushlight.compiler.capture import allow
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.semantics import arrays, attr, call, enums, tensor
from rushlight.compiler.capture.session import Session, raise_
from rushlight.compiler.capture.value import (
    GeneratorV,
    InstanceV,
    IterV,
    MethodV,
    Obj,
    ObjectKey,
    SetV,
    TensorV,
    TupleV,
    Value,
    constant,
)
from rushlight.compiler.capture.view import DequeV, DictV, DictView, ListV


def iterate(session: Session, value: Value) -> IterV | GeneratorV | Value:
    """`iter(value)`."""
    if isinstance(value, (IterV, GeneratorV)):
        return value
    if isinstance(value, TupleV):
        return IterV(iter(list(value.items)))
    if isinstance(value, TensorV):
        return IterV(iter(unpack(session, tensor.call_method(session, value, "unbind", [constant(0)]))))
    if isinstance(value, SetV):
        return IterV(_guarded_set(value))
    if isinstance(value, DictView):
        return IterV(DictSteps(value.mapping, value.what))
    found = session.as_list(value)
    if found is not None:
        return IterV(_list_steps(found))
    mapping = session.as_dict(value)
    if mapping is not None:
        return IterV(DictSteps(mapping, "keys"))
    queue = session.as_deque(value)
    if queue is not None:
        return IterV(_deque_steps(queue))
    if isinstance(value, Obj) and isinstance(value.obj, EnumType):
        return IterV(iter(enums.members(session, session.concrete(value))))
    if arrays.is_own(value) and value.obj.ndim:
        return IterV(iter([Obj(x) for x in value.obj]))
    if isinstance(value, Obj):
        items = fixed_items(session, value)
        if items is not None:
            return IterV(iter(items))
        if type(value.obj) in allow.BUILTIN_TYPES:
            raise Abort(f"iterating over a {type(value.obj).__name__}")
    if isinstance(value, (Obj, InstanceV)):
        cls = session.type_of(value)
        if isinstance(cls, type) and cls is not type and attr.lookup(session, cls, "__iter__")[0] is not attr.MISSING:
            made = call.call(session, _special(session, value, "__iter__"), [], {})
            return made if _advances(session, made) else iterate(session, made)
        if attr.lookup(session, cls, "__getitem__")[0] is attr.MISSING:
            return raise_(TypeError, f"'{cls.__name__}' object is not iterable")
    raise Abort(f"iterating over a {session.type_name(value)}")


def _advances(session: Session, value: Value) -> bool:
    """Is it an object of the program with a `__next__` of its own?"""
    if not isinstance(value, (Obj, InstanceV)):
        return False
    return attr.lookup(session, session.type_of(value), "__next__")[0] is not attr.MISSING


def _special(session: Session, value: Value, name: str) -> Value:
    """A special method, looked up on the type as Python does."""
    cls = session.type_of(value)
    found, node = attr.lookup(session, cls, name)
    if not hasattr(found, "__code__"):
        raise Abort(f"{cls.__name__}.{name} is not a plain function")
    return MethodV(session.lift(found, node), value)


def fixed_items(session: Session, value: Obj) -> list[Value] | None:
    """The items of an existing immutable sequence; fixes its type and length."""
    obj = value.obj
    if type(obj) is tuple or isinstance(obj, tuple) and hasattr(type(obj), "_fields"):
        session.check_tuple(type(obj))
        if value.source is None:
            return [constant(x) for x in obj]
        value.source.check_type()
        value.source.check("len", len(obj))
        return [value.source.read("item", i, x) for i, x in enumerate(obj)]
    if type(obj) in (str, bytes, range, *allow.PURE_METHOD_TYPES[-1:]):
        return [constant(x) for x in session.concrete(value)]
    if type(obj) is frozenset:
        return [constant(x) for x in session.concrete(value)]
    return None


def _list_steps(found: ListV) -> Iterator[Value]:
    at = 0
    while at < len(found.load()):
        yield found.load()[at]
        at += 1


def _deque_steps(queue: DequeV) -> Iterator[Value]:
    before = list(queue.load())
    for item in before:
        if len(queue.load()) != len(before) or any(a is not b for a, b in zip(queue.load(), before)):
            raise Abort("a deque that changes while it is iterated over")
        yield item


class DictSteps:
    """Goes over a dict's keys, values or items."""

    def __init__(self, mapping: DictV, what: str) -> None:
        self.mapping, self.what = mapping, what
        self.keys = list(mapping.load())
        self.shape, self.at, self.changed = mapping.shape, 0, False

    def __iter__(self) -> Iterator[Value]:
        return self

    def __next__(self) -> Value:
        if self.at > len(self.keys):
            raise StopIteration
        entries = self.mapping.load()
        if self.changed or len(entries) != len(self.keys) and not issubclass(self.mapping.kind, OrderedDict):
            self.changed = True  # for good, whatever size it gets
            raise_(RuntimeError, "dictionary changed size during iteration")
        if self.mapping.shape != self.shape:
            raise Abort("a dict that changes while it is iterated over")
        self.at += 1
        if self.at > len(self.keys):
            raise StopIteration
        key = self.keys[self.at - 1]
        if self.what == "keys":
            return constant(key)
        return entries[key] if self.what == "values" else TupleV([constant(key), entries[key]])


def _guarded_set(value: SetV) -> Iterator[Value]:
    size = len(value.keys)
    if any(type(key) is ObjectKey for key in value.keys):
        raise Abort("the order of a set of objects")
    for key in value.keys:
        yield constant(key)
        if len(value.keys) != size:
            raise Abort("a set that changes while it is iterated over")


def advance(session: Session, iterator: Value) -> Value | None:
    """The next value of an iterator, None at its end."""
    if isinstance(iterator, (IterV, GeneratorV)):
        return iterator.next(session)
    if isinstance(iterator, (Obj, InstanceV)):
        cls = session.type_of(iterator)
        if attr.lookup(session, cls, "__next__")[0] is not attr.MISSING:
            try:
                return call.call(session, _special(session, iterator, "__next__"), [], {})
            except Raised as raised:
                if type(raised.value) is StopIteration:
                    return None
                raise
    raise Abort(f"next() of a {session.type_name(iterator)}")


def unpack(session: Session, value: Value) -> list[Value]:
    """All items of an iterable, in order."""
    if isinstance(value, TupleV):
        return list(value.items)
    iterator = iterate(session, value)
    items = []
    while (item := advance(session, iterator)) is not None:
        items.append(item)
        session.steps += 1
        session.check_budget()
    return items


def steps(session: Session, value: Value) -> Iterator[Value]:
    """A Python iterator over the items of an iterable, one at a time."""
    iterator = iterate(session, value)
    while (item := advance(session, iterator)) is not None:
        session.steps += 1
        session.check_budget()
        yield item


def unpack_exactly(session: Session, value: Value, count: int) -> list[Any]:
    """The items of `a, b, c = value`; ValueError in the program when the number differs."""
    items: list[Value] = []
    iterator = iterate(session, value)
    while (item := advance(session, iterator)) is not None:
        if len(items) == count:
            raise_(ValueError, f"too many values to unpack (expected {count})")
        items.append(item)
    if len(items) < count:
        raise_(ValueError, f"not enough values to unpack (expected {count}, got {len(items)})")
    return items
