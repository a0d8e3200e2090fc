"""Subscripts, membership, length, truth."""

from __future__ import annotations

import enum
import operator
from types import FunctionType
from typing import Any

from rushlight.compiler.capture import allow, late
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.semantics import arrays, attr, call, compare, enums, iterate, patterns, tensor
from rushlight.compiler.capture.session import BY_VALUE, Session, immutable, raise_
from rushlight.compiler.capture.symbolic import symbol
from rushlight.compiler.capture.value import (
    BoundBuiltin,
    FunctionV,
    GeneratorV,
    IdV,
    InstanceV,
    IterV,
    MethodV,
    Obj,
    SetV,
    TensorV,
    TupleV,
    Value,
    constant,
)
from rushlight.compiler.capture.view import DictV, DictView, ListV
from rushlight.core.meta import Size


def special(session: Session, value: Value, name: str) -> Value | None:
    """A special method of a user class, bound; None when the class has none."""
    if not isinstance(value, (Obj, InstanceV)) or isinstance(value, Obj) and type(value.obj) in allow.BUILTIN_TYPES:
        return None
    cls = session.type_of(value)
    found, node = attr.lookup(session, cls, name)
    if found is attr.MISSING:
        return None
    if isinstance(found, FunctionType):
        return MethodV(session.lift(found, node), value)
    raise Abort(f"{cls.__name__}.{name} is not a plain function")


def of_class(session: Session, value: Value, cls: type, name: str) -> Value | None:
    """A special method of a dict that its class defines in Python, bound; None where it does not."""
    if not attr.is_python_class(cls):
        return None
    found, node = attr.lookup(session, cls, name)
    if isinstance(found, FunctionType):
        return MethodV(session.lift(found, node), value)
    if node is not None:
        raise Abort(f"{cls.__name__}.{name} is not a plain function")
    return None


def key_of(session: Session, value: Value) -> Any:
    """A dict or set key as a Python object."""
    if isinstance(value, IdV):
        return value.key
    found = session.object_key(value)
    if found is not None:
        if not isinstance(value, TensorV):
            for name in ("__eq__", "__hash__"):  # the class must go on comparing by identity
                attr.lookup(session, session.type_of(value), name)
        return found
    key = session.concrete(value)
    try:
        hash(key)
    except TypeError as error:
        raise Raised(error) from None
    if isinstance(key, enum.Enum) and type(key).__hash__ not in (enum.Enum.__hash__, int.__hash__, str.__hash__):
        raise Abort("an enum with its own hash as key")
    if isinstance(key, float) and key != key:
        raise Abort("a NaN as key")
    return key


def get_item(session: Session, value: Value, index: Value) -> Value:
    """`value[index]`."""
    if isinstance(value, TensorV) or isinstance(index, TensorV):
        return tensor.call_method(session, value, "__getitem__", [index])
    if patterns.is_one(value):
        return patterns.method(session, value, "__getitem__", [index], {})  # type: ignore[arg-type]
    if isinstance(value, TupleV):
        kind = Size if value.kind is Size else tuple
        return _item(session, value.items, index, "tuple", lambda items: TupleV(items, kind))
    found = session.as_list(value)
    if found is not None:
        return _item(session, found.load(), index, "list", lambda items: ListV(items))
    mapping = session.as_dict(value)
    if mapping is not None:
        key = key_of(session, index)
        result = mapping.get(key)
        if result is None:
            own = of_class(session, value, mapping.kind, "__missing__")
            if own is not None:
                return call.call(session, own, [index], {})
            factory = mapping.missing()
            if factory is None or session.is_none(factory):
                return raise_(KeyError, key)
            result = call.call(session, factory, [], {})
            mapping.set(key, result)
        return result
    queue = session.as_deque(value)
    if queue is not None:
        if type(session.concrete(index)) is not int:
            raise Abort("a deque indexed by something else than a number")
        return _item(session, queue.load(), index, "deque", None)
    if isinstance(value, Obj):
        if isinstance(value.obj, enum.EnumType):
            return _member(session, value, index)
        if isinstance(value.obj, type):
            raise Abort("subscripting a class")
        if type(value.obj) is tuple or isinstance(value.obj, tuple) and hasattr(type(value.obj), "_fields"):
            session.check_tuple(type(value.obj))
            items = iterate.fixed_items(session, value)
            return _item(session, items, index, "tuple", lambda items: TupleV(items))
        if type(value.obj) in allow.PURE_METHOD_TYPES:
            try:
                return constant(operator.getitem(session.plain(value), session.plain(index)))
            except Exception as error:
                raise Raised(error) from None
    if arrays.is_own(value):
        return arrays.operator(session, operator.getitem, value, index)
    getter = special(session, value, "__getitem__")
    if getter is not None:
        return call.call(session, getter, [index], {})
    raise Abort(f"subscripting a {session.type_name(value)}")


def _member(session: Session, value: Obj, index: Value) -> Value:
    """`Mode["FAST"]`."""
    cls = session.concrete(value)
    if type(cls).__getitem__ is not enum.EnumType.__getitem__:
        raise Abort(f"an enum of class {type(cls).__name__}")
    key = session.plain(index)
    found = enums.named(session, cls, key)
    return raise_(KeyError, key) if found is None else found


def _item(session: Session, items: list[Value], index: Value, kind: str, build: Any) -> Value:
    at = session.concrete(index)
    try:
        found = items[at]
    except IndexError:
        return raise_(IndexError, f"{kind} index out of range")
    except TypeError:
        return raise_(TypeError, f"{kind} indices must be integers or slices, not {type(at).__name__}")
    return build(found) if isinstance(at, slice) else found


def set_item(session: Session, target: Value, index: Value, value: Value) -> None:
    """`target[index] = value`."""
    if isinstance(target, TensorV):
        tensor.call_method(session, target, "__setitem__", [index, value])
        return
    found = session.as_list(target)
    if found is not None:
        at = session.concrete(index)
        try:
            if isinstance(at, slice):
                found.write("setslice", at, iterate.unpack(session, value))
            else:
                found.load()[at]
                found.write("setitem", at, value)
        except IndexError:
            raise_(IndexError, "list assignment index out of range")
        except (TypeError, ValueError) as error:
            raise Raised(error) from None
        return
    queue = session.as_deque(target)
    if queue is not None:
        at = session.concrete(index)
        if type(at) is not int or not -len(queue.load()) <= at < len(queue.load()):
            raise Abort("a deque indexed by something else than one of its places")
        queue.write("setitem", at, value)
        return
    mapping = session.as_dict(target)
    if mapping is not None:
        mapping.set(key_of(session, index), value)
        return
    setter = special(session, target, "__setitem__")
    if setter is None:
        raise Abort(f"assigning to an item of a {session.type_name(target)}")
    call.call(session, setter, [index, value], {})


def delete_item(session: Session, target: Value, index: Value) -> None:
    """`del target[index]`."""
    found = session.as_list(target)
    if found is not None:
        at = session.concrete(index)
        if not isinstance(at, (int, slice)):
            raise Abort(f"deleting what is not a position of a list, but a {type(at).__name__}")
        try:
            found.load()[at]
        except IndexError:
            raise_(IndexError, "list assignment index out of range")
        found.write("delitem", at)
        return
    mapping = session.as_dict(target)
    if mapping is not None:
        own = of_class(session, target, mapping.kind, "__delitem__")
        if own is None:
            delete_key(session, mapping, index)
        else:
            call.call(session, own, [index], {})
        return
    deleter = special(session, target, "__delitem__")
    if deleter is None:
        raise Abort(f"deleting an item of a {session.type_name(target)}")
    call.call(session, deleter, [index], {})


def delete_key(session: Session, mapping: DictV, index: Value) -> None:
    """`dict.__delitem__(mapping, index)`."""
    key = key_of(session, index)
    if not mapping.delete(key):
        raise_(KeyError, key)


def contains(session: Session, container: Value, item: Value) -> bool:
    """`item in container`."""
    if isinstance(container, DictView) and container.what == "keys":
        container = container.mapping
    if isinstance(container, SetV):
        return key_of(session, item) in container.keys
    mapping = session.as_dict(container)
    if mapping is not None:
        return mapping.get(key_of(session, item)) is not None
    if isinstance(container, Obj) and type(container.obj) is frozenset and container.source is not None and any(
            type(x) is type for x in container.obj) and all(type(x) in (type, *BY_VALUE) for x in container.obj):
        container.source.check_identity()  # its elements cannot change
        return session.plain(item) in container.obj
    if isinstance(container, Obj) and type(container.obj) in (str, bytes, range, frozenset):
        try:
            return session.plain(item) in session.plain(container)
        except TypeError as error:
            raise Raised(error) from None
    existing = session.as_set(container)
    if existing is not None:
        return existing.has(key_of(session, item))
    if isinstance(container, Obj) and isinstance(container.obj, tuple):
        return any(compare.same_or_equal(session, x, item) for x in iterate.unpack(session, container))
    checker = special(session, container, "__contains__")
    if checker is not None:
        return truth(session, call.call(session, checker, [item], {}))
    if isinstance(container, TensorV):
        raise Abort("membership in a tensor")
    for candidate in iterate.steps(session, container):
        if compare.same_or_equal(session, candidate, item):
            return True
    return False


def open_length(session: Session, value: Value) -> Value | None:
    """`len(value)` of an existing list or dict that has changed its length, and of whose contents the program has seen
    nothing: it stays open. None for others.
    """
    items, mapping = session.as_list(value), session.as_dict(value)
    more = 0
    if items is not None and items.items is None:
        found: ListV | DictV = items
        more = sum([1 if method == "append" else len(arguments[0]) for method, *arguments in items.log])
    elif mapping is not None and mapping.kind is dict and not (mapping.complete or mapping.log):
        found = mapping
    else:
        return None
    source: Any = found.source
    now = len(found.base)  # type: ignore[arg-type]
    count = session.sizes.number(now, source.child("len", None, now))
    if count is None:
        del source.children["len", type(None), None]  # no guard reads it
        return None
    return compare.binary(session, "+", count, constant(more), inplace=False)


def length(session: Session, value: Value) -> int:
    """`len(value)`."""
    if arrays.is_own(value) and value.obj.ndim:  # type: ignore[attr-defined]
        return len(value.obj)  # type: ignore[attr-defined]
    if isinstance(value, TupleV):
        return len(value.items)
    if isinstance(value, SetV):
        return len(value.keys)
    if isinstance(value, DictView):
        return len(value.mapping.load())
    if isinstance(value, TensorV):
        if not value.tracer._meta.shape:
            raise_(TypeError, "len() of a 0-d tensor")
        return value.tracer._meta.shape[0]
    found = session.as_list(value) or session.as_deque(value)
    if found is not None:
        return len(found.load())
    mapping = session.as_dict(value)
    if mapping is not None:
        return len(mapping.load())
    if isinstance(value, Obj):
        if isinstance(value.obj, enum.EnumType):
            return len(enums.members(session, session.concrete(value)))
        if isinstance(value.obj, tuple) and type(value.obj) is not allow.PURE_METHOD_TYPES[-1]:
            return len(iterate.fixed_items(session, value))
        if type(value.obj) in allow.PURE_METHOD_TYPES:
            try:
                return len(session.concrete(value))
            except TypeError as error:
                raise Raised(error) from None
        existing = session.as_set(value)
        if existing is not None:
            if existing.mutated:
                raise Abort("the size of an existing set that was written to")
            existing.source.check("len", len(existing.base))
            return len(existing.base)
    method = special(session, value, "__len__")
    if method is None:
        raise Abort(f"len() of a {session.type_name(value)}")
    size = session.concrete(call.call(session, method, [], {}))
    if type(size) is not int or size < 0:
        raise Abort("a __len__ that gives no length")
    return size


def truth(session: Session, value: Value) -> bool:
    """`bool(value)`."""
    if isinstance(value, late.LateV):
        return late.truth(session, value)
    if (sym := symbol(value)) is not None:
        return bool(sym)
    if isinstance(value, Obj):
        obj = value.obj
        if obj is None or obj is True or obj is False or type(obj) in (int, float, str, bytes, complex, range,
                                                                       frozenset):
            return bool(session.concrete(value))
        if isinstance(obj, tuple):
            session.check_tuple(type(obj))
            if value.source is None:
                return bool(obj)
            value.source.check_type()
            value.source.check("true" if obj else "empty")
            return bool(obj)
        if immutable(obj) and allow.is_leaf_object(obj):
            return bool(session.concrete(value))
        if isinstance(obj, type) or isinstance(obj, enum.Enum):
            if hasattr(type(obj), "__len__") or type(obj).__dict__.get("__bool__", bool) is not bool:
                raise Abort(f"the truth of a {type(obj).__name__}")
            session.type_of(value)
            return bool(session.plain(value)) if isinstance(obj, int) else True
        if type(obj) in patterns.TYPES:
            session.type_of(value)
            return True
        if type(obj) is list:
            found = session.as_list(value)
            if found.items is None and not found.log:
                value.source.check("true" if obj else "empty")
                return bool(obj)
    if isinstance(value, (TupleV, ListV, SetV, DictView)) or session.as_list(value) is not None:
        return length(session, value) != 0
    mapping = session.as_dict(value)
    if mapping is not None:
        return not mapping.empty()
    if session.as_deque(value) is not None:
        return length(session, value) != 0
    if isinstance(value, TensorV):
        session.decisions.require("the truth of a tensor")
        return late.truth(session, late.item(session, value))
    if isinstance(value, (FunctionV, MethodV, BoundBuiltin, IterV, GeneratorV)):
        return True
    method = special(session, value, "__bool__")
    if method is not None:
        result = session.concrete(call.call(session, method, [], {}))
        if type(result) is not bool:
            raise Abort("a __bool__ that gives no bool")
        return result
    if isinstance(value, Obj) and type(value.obj) in allow.BUILTIN_TYPES:
        if type(value.obj) is set and value.source is not None:
            return length(session, value) != 0
        session.type_of(value)
        return True
    if special(session, value, "__len__") is not None:
        return length(session, value) != 0
    if isinstance(value, Obj) and not isinstance(value.obj,
                                                 FunctionType) and type(value.obj).__flags__ & attr.IMMUTABLE_TYPE:
        raise Abort(f"the truth of a {type(value.obj).__name__}")
    if isinstance(value, DictV):
        return bool(value.load())
    return True
