"""Methods of builtin types: list, dict, set, str, tuple, generators."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from io import TextIOBase
from typing import Any

from rushlight.compiler.capture import allow
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.late import LateV
from rushlight.compiler.capture.semantics import arrays, compare, container, iterate, outside, patterns, sets
from rushlight.compiler.capture.semantics import call as calls
from rushlight.compiler.capture.session import Session, raise_
from rushlight.compiler.capture.value import (
    NONE,
    GeneratorV,
    IterV,
    Obj,
    SetV,
    TupleV,
    Value,
    constant,
)
from rushlight.compiler.capture.view import DequeV, DictV, DictView, ListV
from rushlight.core.meta import Size

Args = list[Value]


def call(session: Session, owner: Value, name: str, args: Args, kwargs: dict[str, Value]) -> Value:
    """`owner.name(*args, **kwargs)` for an owner of a builtin type."""
    found = session.as_list(owner)
    if found is not None:
        return _list_method(session, found, name, args, kwargs)
    queue = session.as_deque(owner)
    if queue is not None:
        return _deque_method(session, queue, name, args, kwargs)
    mapping = session.as_dict(owner)
    if mapping is not None:
        return _dict_method(session, mapping, name, args, kwargs)
    existing = session.as_set(owner)
    if existing is not None:
        return sets.existing_set_method(session, existing, name, args)
    if isinstance(owner, SetV):
        return sets.set_method(session, owner, name, args)
    if isinstance(owner, (IterV, GeneratorV)):
        return _iterator_method(session, owner, name, args)
    if isinstance(owner, TupleV):
        return _tuple_method(session, owner, name, args)
    if isinstance(owner, Obj):
        kind = type(owner.obj)
        if kind is tuple and not session.is_concrete(owner):
            return _tuple_method(session, TupleV(iterate.fixed_items(session, owner)), name, args)
        if arrays.is_operand(owner):
            session.concrete(owner) if owner.source is not None else owner
            return arrays.method(session, owner, name, args, kwargs)
        if kind in allow.PURE_METHOD_TYPES or allow.is_leaf_object(owner.obj):
            return _pure(session, owner, name, args, kwargs)
    if patterns.is_one(owner):
        return patterns.method(session, owner, name, args, kwargs)  # type: ignore[arg-type]
    if isinstance(owner, Obj) and isinstance(owner.obj, TextIOBase) and not kwargs:
        return outside.stream(session, owner, name, args)
    raise Abort(f"method {name} of a {session.type_name(owner)}")


def _pure(session: Session, owner: Obj, name: str, args: Args, kwargs: dict[str, Value]) -> Value:
    obj = session.plain(owner)
    if name == "join" and len(args) == 1:
        positional = [[session.plain(x) for x in iterate.unpack(session, args[0])]]
    elif name == "encode" and not kwargs and all(
            isinstance(a, Obj) and a.obj in ("utf-8", "utf8", "ascii", "latin-1", "strict", "surrogateescape", "ignore",
                                             "replace") for a in args):
        positional = [session.plain(a) for a in args]
    elif name in ("__iter__", "encode", "__reduce__", "__reduce_ex__", "__getnewargs__", "__init__", "__class__"):
        raise Abort(f"method {name} of a {type(obj).__name__}")
    else:
        positional = [session.plain(a) for a in args]
    named = {k: session.plain(v) for k, v in kwargs.items()}
    if arrays.holds_numbers(*positional, *named.values()):
        return arrays.run(session, getattr(obj, name), positional, named)
    try:
        result = getattr(obj, name)(*positional, **named)
    except Exception as error:
        raise Raised(error.with_traceback(None)) from None
    if isinstance(result, list):
        return ListV([constant(x) for x in result])
    if not session.is_concrete(constant(result)):
        raise Abort(f"method {name} of a {type(obj).__name__}")
    return constant(result)


def _list_method(session: Session, owner: ListV, name: str, args: Args, kwargs: dict[str, Value]) -> Value:
    if kwargs and name != "sort":
        raise Abort(f"list.{name} with keywords")
    match name, args:
        case "append", [value]:
            owner.write("append", value)
            return NONE
        case ("extend" | "__iadd__"), [values]:
            items = iterate.unpack(session, values)
            if items or owner.base is None:
                owner.write("extend", items)
            return NONE if name == "extend" else owner
        case "insert", [at, value] if isinstance(session.concrete(at), int):
            owner.write("insert", session.concrete(at), value)
            return NONE
        case "pop", [] | [_] if all(isinstance(session.concrete(a), int) for a in args):
            at = [session.concrete(a) for a in args]
            if not owner.load():
                return raise_(IndexError, "pop from empty list")
            try:
                owner.load()[at[0] if at else -1]
            except IndexError:
                return raise_(IndexError, "pop index out of range")
            return owner.write("pop", *at)
        case ("clear" | "reverse"), []:
            owner.load()
            owner.write(name)
            return NONE
        case "copy", []:
            return ListV(list(owner.load()))
        case ("index" | "count" | "remove"), [value]:
            return _search(session, owner.load(), name, value, owner)
        case "sort", []:
            _sort(session, owner, kwargs)
            return NONE
        case "__len__", []:
            return constant(len(owner.load()))
        case "__getitem__", [index]:
            return container.get_item(session, owner, index)
        case "__setitem__", [index, value]:
            container.set_item(session, owner, index, value)
            return NONE
        case "__contains__", [value]:
            return constant(container.contains(session, owner, value))
        case "__iter__", []:
            return iterate.iterate(session, owner)
    raise Abort(f"list.{name}")


def _deque_method(session: Session, owner: DequeV, name: str, args: Args, kwargs: dict[str, Value]) -> Value:
    match name, args:
        case ("append" | "appendleft"), [value]:
            owner.write(name, value)
            return NONE
        case ("extend" | "extendleft"), [values]:
            owner.write(name, iterate.unpack(session, values))
            return NONE
        case ("pop" | "popleft"), []:
            if not owner.load():
                return raise_(IndexError, "pop from an empty deque")
            return owner.write(name)
        case ("clear" | "reverse"), []:
            owner.write(name)
            return NONE
        case "rotate", _ if len(args) < 2:
            owner.write(name, session.concrete(args[0]) if args else 1)
            return NONE
        case "copy", []:
            return DequeV(list(owner.load()), owner.most)
    raise Abort(f"deque.{name}")


def _search(session: Session, items: list[Value], name: str, value: Value, owner: ListV | None) -> Value:
    hits = 0
    for i, item in enumerate(items):
        if compare.same_or_equal(session, item, value):
            if name == "index":
                return constant(i)
            if name == "remove":
                owner.write("pop", i)
                return NONE
            hits += 1
    if name == "count":
        return constant(hits)
    if name == "index" and session.is_concrete(value):
        text = repr(session.concrete(value))
        message = f"{text} is not in list" if owner is not None else "tuple.index(x): x not in tuple"
        return raise_(ValueError, message)
    return raise_(ValueError, "list.remove(x): x not in list")


class _Ordered:
    """What `sorted` sees of a key whose order the program says."""

    __slots__ = ("session", "value")

    def __init__(self, session: Session, value: Value) -> None:
        self.session, self.value = session, value

    def __lt__(self, other: _Ordered) -> bool:
        return container.truth(self.session, compare.rich(self.session, "<", self.value, other.value))


def sorted_items(session: Session, items: list[Value], kwargs: dict[str, Value]) -> list[Value]:
    """The items in order, as `sorted` gives them."""
    key, reverse = kwargs.get("key", NONE), kwargs.get("reverse")
    if set(kwargs) - {"key", "reverse"}:
        raise Abort("sorted with unknown keywords")
    keys = items if key is NONE else [calls.call(session, key, [x], {}) for x in items]
    alone = all(isinstance(k, LateV) or session.is_concrete(k) for k in keys)
    plain = [session.plain(k) if alone else _Ordered(session, k) for k in keys]
    try:
        order = sorted(range(len(items)), key=plain.__getitem__,
                       reverse=reverse is not None and container.truth(session, reverse))
    except Raised:
        raise
    except Exception as error:
        raise Raised(error) from None
    return [items[i] for i in order]


def _sort(session: Session, owner: ListV, kwargs: dict[str, Value]) -> None:
    items, written = list(owner.load()), len(owner.log)
    owner.items = []  # so it is seen by what says the order
    try:
        ordered = sorted_items(session, items, kwargs)
    except Raised:
        raise Abort("a list that is left half sorted") from None
    finally:
        changed, owner.items = bool(owner.items) or len(owner.log) != written, items
    if changed:
        raise Abort("a list that changes while it is sorted")
    owner.write("setslice", slice(None), ordered)


def _tuple_method(session: Session, owner: TupleV, name: str, args: Args) -> Value:
    match name, args:
        case ("index" | "count"), [value]:
            return _search(session, owner.items, name, value, None)
        case "__len__", []:
            return constant(len(owner.items))
        case "__getitem__", [index]:
            return container.get_item(session, owner, index)
        case "__iter__", []:
            return iterate.iterate(session, owner)
        case "__contains__", [value]:
            return constant(container.contains(session, owner, value))
        case "numel", [] if owner.kind is Size:
            total: Value = constant(1)
            for item in owner.items:
                total = compare.binary(session, "*", total, item, inplace=False)
            return total
    raise Abort(f"tuple.{name}")


def _dict_method(session: Session, owner: DictV, name: str, args: Args, kwargs: dict[str, Value]) -> Value:
    if name == "update" or name == "__init__" and owner.base is None:
        update(session, owner, args, kwargs)
        return NONE
    if name in ("move_to_end", "popitem") and kwargs.keys() == {"last"}:
        args, kwargs = [*args, kwargs["last"]], {}
    if kwargs:
        raise Abort(f"dict.{name} with keywords")
    match name, args:
        case "get", [key, *default]:
            found = owner.get(container.key_of(session, key))
            return found if found is not None else default[0] if default else NONE
        case ("__getitem__" | "__contains__" | "__len__" | "__setitem__" | "__delitem__"), _:
            return _dict_protocol(session, owner, name, args)
        case "setdefault", [key, *default]:
            plain = container.key_of(session, key)
            found = owner.get(plain)
            if found is None:
                found = default[0] if default else NONE
                owner.set(plain, found)
            return found
        case "pop", [key, *default]:
            plain = container.key_of(session, key)
            found = owner.get(plain)
            if found is None:
                return default[0] if default else raise_(KeyError, plain)
            owner.delete(plain)
            return found
        case "popitem", [] | [_] if not args or owner.kind is OrderedDict:
            if not owner.load():
                return raise_(KeyError, "dictionary is empty" if args else "popitem(): dictionary is empty")
            key = list(owner.load())[-1 if not args or container.truth(session, args[0]) else 0]
            found = owner.load()[key]
            owner.delete(key)
            return TupleV([constant(key), found])
        case "clear", []:
            for key in list(owner.load()):
                owner.delete(key)
            return NONE
        case "copy", []:
            made = DictV(dict(owner.load()), kind=owner.kind if owner.kind in (OrderedDict, defaultdict) else dict)
            made.factory = owner.missing()
            return made
        case "move_to_end", [key, *last] if owner.kind is OrderedDict:
            return _move(session, owner, container.key_of(session, key), not last or container.truth(session, last[0]))
        case ("keys" | "values" | "items"), []:
            owner.load()
            return DictView(owner, name)
        case "__iter__", []:
            return iterate.iterate(session, owner)
    raise Abort(f"dict.{name}")


def _move(session: Session, owner: DictV, key: Any, last: bool) -> Value:
    entries = owner.load()
    if key not in entries:
        return raise_(KeyError, key)
    value = entries[key]
    others = [] if last else [(k, v) for k, v in entries.items() if k != key]
    for k, v in [(key, value), *others]:
        owner.delete(k)
        owner.set(k, v)
    return NONE


def _dict_protocol(session: Session, owner: DictV, name: str, args: Args) -> Value:
    match name, args:
        case "__getitem__", [key]:
            return container.get_item(session, owner, key)
        case "__contains__", [key]:
            return constant(container.contains(session, owner, key))
        case "__len__", []:
            return constant(len(owner.load()))
        case "__setitem__", [key, value]:
            container.set_item(session, owner, key, value)
            return NONE
        case "__delitem__", [key]:
            container.delete_key(session, owner, key)
            return NONE
    raise Abort(f"dict.{name}")


def update(session: Session, owner: DictV, args: Args, kwargs: dict[str, Value]) -> None:
    """`d.update(...)`, also what `dict(...)` does with its arguments."""
    for source in args:
        mapping = session.as_dict(source)
        if mapping is not None:
            for key, value in list(mapping.load().items()):
                owner.set(key, value)
        elif isinstance(source, (DictView, ListV, TupleV, IterV, GeneratorV)) or session.as_list(source) is not None:
            for pair in iterate.steps(session, source):
                key, value = iterate.unpack_exactly(session, pair, 2)
                owner.set(container.key_of(session, key), value)
        else:
            raise Abort(f"updating a dict with a {session.type_name(source)}")
    for name, value in kwargs.items():
        owner.set(name, value)


def _iterator_method(session: Session, owner: IterV | GeneratorV, name: str, args: Args) -> Value:
    match name, args:
        case "__next__", []:
            found = owner.next(session)
            if found is None:
                return raise_(StopIteration, *stop_value(session, owner))
            return found
        case "__iter__", []:
            return owner
        case "send", [value] if isinstance(owner, GeneratorV):
            if not owner.frame.yielding and not session.is_none(value):
                return raise_(TypeError, "can't send non-None value to a just-started generator")
            found = owner.next(session, value)
            if found is None:
                return raise_(StopIteration, *stop_value(session, owner))
            return found
        case "close", [] if isinstance(owner, GeneratorV) and (owner.done or not owner.frame.guarded()):
            owner.done = True
            return NONE
    raise Abort(f"method {name} of an iterator")


def stop_value(session: Session, owner: Value) -> tuple:
    """The arguments of the StopIteration that ends an iterator."""
    result = getattr(owner, "result", None)
    if result is None or session.is_none(result):
        return ()
    if not session.is_concrete(result):
        raise Abort("the return value of a generator")
    return (session.concrete(result),)
