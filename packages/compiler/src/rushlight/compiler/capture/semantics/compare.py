"""Operators: comparison, identity, arithmetic."""

from __future__ import annotations

import operator
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from types import FunctionType, WrapperDescriptorType
from typing import Any

from rushlight.compiler.capture import allow, late, symbolic
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.semantics import arrays, attr, call, container, iterate, tensor
from rushlight.compiler.capture.session import Session, immutable, raise_
from rushlight.compiler.capture.source import Identity
from rushlight.compiler.capture.value import (
    FALSE,
    TRUE,
    IdV,
    InstanceV,
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

RICH = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge}
_RICH_METHODS = {"<": "__lt__", "<=": "__le__", "==": "__eq__", "!=": "__ne__", ">": "__gt__", ">=": "__ge__"}
_SWAPPED = {"<": ">", "<=": ">=", "==": "==", "!=": "!=", ">": "<", ">=": "<="}

BINARY: dict[str, tuple[Callable, str]] = {
    "+": (operator.add, "add"), "-": (operator.sub, "sub"), "*": (operator.mul, "mul"),
    "/": (operator.truediv, "truediv"),
    "//": (operator.floordiv, "floordiv"), "%": (operator.mod, "mod"), "**": (operator.pow, "pow"),
    "@": (operator.matmul, "matmul"),
    "<<": (operator.lshift, "lshift"), ">>": (operator.rshift, "rshift"), "&": (operator.and_, "and"),
    "|": (operator.or_, "or"),
    "^": (operator.xor, "xor"),
}
# names in the `operator` module
OPERATOR_SYMBOLS = {**{f.__name__: symbol for symbol, (f, _) in BINARY.items()},
                    **{f.__name__: symbol for symbol, f in RICH.items()}}
UNARY = {"-": (operator.neg, "__neg__"), "+": (operator.pos, "__pos__"), "~": (operator.invert, "__invert__")}
BIG = 1 << 20  # a cap on what constant arithmetic may build


def same(session: Session, a: Value, b: Value) -> bool:
    """`a is b`."""
    if a is b:
        return True
    if not any(isinstance(x, Obj) and x.obj is None for x in (a, b)):
        late.refuse(a, b)
    if isinstance(a, Obj) and isinstance(b, Obj):
        for x, y in ((a, b), (b, a)):
            if y.obj is None or y.obj is True or y.obj is False or y.source is None and isinstance(y.obj,
                                                                                                   (type, type(...))):
                if y.source is not None:
                    session.concrete(y)
                if x.source is not None:
                    if x.obj is y.obj:
                        x.source.check_identity()
                    else:
                        x.source.check("not", Identity(y.obj))
                return x.obj is y.obj
        result = a.obj is b.obj
        if type(a.obj) is int is type(b.obj) and -5 <= a.obj <= 256 and -5 <= b.obj <= 256:
            return session.concrete(a) == session.concrete(b)  # there is one object for each of these
        if type(a.obj) in (int, float, str, bytes, complex, tuple) and type(b.obj) is type(a.obj):
            raise Abort(f"identity of {type(a.obj).__name__} objects")
        if a.source is not None and b.source is not None:
            session.tree.relate("same" if result else "different", a.source, b.source)
            return result
        for x in (a, b):
            if x.source is not None and immutable(x.obj):
                session.concrete(x)
            elif x.source is not None:
                x.source.check_type()
        if (a.source is None) != (b.source is None) and type(a.obj) is type(b.obj) and not immutable(a.obj):
            raise Abort("identity of objects")
        return result
    if isinstance(a, TensorV) and isinstance(b, TensorV):
        if a.tracer is b.tracer:
            return True
        if a.source is not None and b.source is not None:
            result = session.recorder.real(a.tracer) is session.recorder.real(b.tracer)
            session.tree.relate("same" if result else "different", a.source, b.source)
            return result
        return False
    for x, y in ((a, b), (b, a)):
        view = session.views.get(id(x.obj)) if isinstance(x, Obj) else None
        if view is y:
            return True
        if isinstance(x, Obj) and x.source is not None and (isinstance(y, TensorV) or x.obj is None):
            x.source.check_type()  # not a tensor, hence not that tensor
    if isinstance(a, (TupleV, DictV)) and isinstance(b, (TupleV, DictV)) and type(a) is type(b) and (
            isinstance(a, TupleV) or a.base is not None or b.base is not None):
        raise Abort("identity of containers")
    return False


def rich(session: Session, op: str, a: Value, b: Value) -> Value:
    """`a < b` and its like."""
    if isinstance(a, TensorV) or isinstance(b, TensorV):
        return tensor.operator(session, RICH[op], a, b)
    if arrays.is_operand(a, b) and not (isinstance(a, Obj) and a.obj is None or isinstance(b, Obj) and b.obj is None):
        return arrays.operator(session, RICH[op], a, b)
    decided = late.compared(session, op, a, b)
    if decided is not None:
        return boolean(decided)
    late.refuse(a, b)
    known = symbolic.compared(session, RICH[op], a, b)
    if known is not None:
        return known
    open_ = op in ("==", "!=") and any(map(symbolic.holds_symbols, (a, b)))
    if session.is_concrete(a) and session.is_concrete(b) and not (open_ and None not in _sequences_of(session, a, b)):
        if op in ("==", "!=") and any(allow.own_code(session.concrete(x)) for x in (a, b)):
            return boolean(_equal_constants(session, a, b) is (op == "=="))
        try:
            return constant(RICH[op](session.plain(a), session.plain(b)))
        except Exception as error:
            raise Raised(error) from None
    if isinstance(a, IdV) and isinstance(b, IdV) and op in ("==", "!="):
        return boolean((a.key == b.key) is (op == "=="))
    if isinstance(a, IdV) or isinstance(b, IdV):
        raise Abort("the number that id() gives")
    _check_order(session, a, b)
    for x, y, name in ((a, b, op), (b, a, _SWAPPED[op])):
        method = _user_method(session, x, _RICH_METHODS[name])
        negate = method is None and op == "!="
        if negate:
            method = _user_method(session, x, "__eq__")
        if method is not None:
            result = call.call(session, method, [y], {})
            if not (isinstance(result, Obj) and result.obj is NotImplemented):
                return boolean(not container.truth(session, result)) if negate else result
    if op not in ("==", "!="):
        sequences = [_sequence(session, x) for x in (a, b)]
        if None in sequences:
            raise Abort(f"{op} between a {session.type_name(a)} and a {session.type_name(b)}")
        return _ordered(session, op, *sequences)
    return constant(_equal(session, a, b) is (op == "=="))


def _ordered(session: Session, op: str, a: Any, b: Any) -> Value:
    """Which of two tuples or lists comes first: the first items that differ say so, else the lengths."""
    if a[0] is not b[0]:
        raise Abort(f"{op} between a {a[0].__name__} and a {b[0].__name__}")
    for x, y in zip(a[1], b[1]):
        if not same_or_equal(session, x, y):
            return rich(session, op, x, y)
    return constant(RICH[op](len(a[1]), len(b[1])))


def _check_order(session: Session, a: Value, b: Value) -> None:
    """An operand of a subclass goes first in Python; leave such pairs to eager execution."""
    kinds = [session.type_of(x) for x in (a, b) if isinstance(x, (Obj, InstanceV))]
    if len(kinds) == 2 and kinds[0] is not kinds[1] and issubclass(kinds[1], kinds[0]) and kinds[0] is not object:
        raise Abort("operands of related classes")


def _user_method(session: Session, value: Value, name: str) -> Value | None:
    if not isinstance(value, (Obj, InstanceV)) or isinstance(value, Obj) and (
            type(value.obj) in allow.BUILTIN_TYPES or type(value.obj).__flags__ & attr.IMMUTABLE_TYPE):
        return None
    cls = session.type_of(value)
    found, node = attr.lookup(session, cls, name)
    if found is attr.MISSING or isinstance(found, WrapperDescriptorType):
        return None
    if not isinstance(found, FunctionType):
        raise Abort(f"{cls.__name__}.{name} is not a plain function")
    return MethodV(session.lift(found, node), value)


def _sequences_of(session: Session, *values: Value) -> list[tuple[type, list[Value]] | None]:
    return [_sequence(session, value) for value in values]


def _sequence(session: Session, value: Value) -> tuple[type, list[Value]] | None:
    if isinstance(value, TupleV):
        return tuple, value.items
    found = session.as_list(value)
    if found is not None:
        return list, found.load()
    if isinstance(value, Obj) and type(value.obj) in (tuple, Size):
        return tuple, iterate.fixed_items(session, value)
    return None


def _equal_constants(session: Session, a: Value, b: Value) -> bool:
    """Equality of two things of which one is known by identity: enum members, functions, classes."""
    x, y = session.concrete(a), session.concrete(b)
    for obj in (x, y):
        if type(obj).__eq__ not in (object.__eq__, type.__eq__, int.__eq__, str.__eq__):
            raise Abort(f"equality of a {type(obj).__name__}")
    return x == y


def same_or_equal(session: Session, a: Value, b: Value) -> bool:
    """`a is b or a == b`, which is how containers compare their items."""
    if symbolic.holds_symbols(a) or symbolic.holds_symbols(b):  # shapes: the same ones are equal
        return container.truth(session, rich(session, "==", a, b))
    if session.is_concrete(a) and session.is_concrete(b):
        if any(allow.own_code(session.concrete(v)) for v in (a, b)):
            return _equal_constants(session, a, b)
        x, y = session.concrete(a), session.concrete(b)
        if x != x or y != y:
            raise Abort("comparison of a NaN")
        return x == y
    return same(session, a, b) or container.truth(session, rich(session, "==", a, b))


def _equal(session: Session, a: Value, b: Value) -> bool:
    left, right = _sequence(session, a), _sequence(session, b)
    if left is not None and right is not None:
        if left[0] is not right[0] or len(left[1]) != len(right[1]):
            return False
        return all(same_or_equal(session, x, y) for x, y in zip(left[1], right[1]))
    first, second = session.as_dict(a), session.as_dict(b)
    if first is not None and second is not None:
        x, y = first.load(), second.load()
        if first.kind is not dict or second.kind is not dict:
            raise Abort("equality of ordered dicts")
        return len(x) == len(y) and all(key in y and same_or_equal(session, x[key], y[key]) for key in list(x))
    if isinstance(a, SetV) and isinstance(b, SetV):
        return a.keys == b.keys
    if left is not None or right is not None or first is not None or second is not None:
        for x in (a, b):
            if isinstance(x, Obj) and not session.is_concrete(x):
                session.type_of(x)
            elif isinstance(x, Obj):
                session.concrete(x)
        if isinstance(a, SetV) or isinstance(b, SetV):
            raise Abort("equality of a set")
        return False
    if isinstance(a, SetV) or isinstance(b, SetV):
        raise Abort("equality of a set")
    for x in (a, b):
        if isinstance(x,
                      Obj) and type(x.obj) not in allow.BUILTIN_TYPES and type(x.obj).__flags__ & attr.IMMUTABLE_TYPE \
                and not session.is_concrete(x):
            raise Abort(f"equality of a {type(x.obj).__name__}")
    return same(session, a, b)


def binary(session: Session, op: str, a: Value, b: Value, inplace: bool) -> Value:
    """`a + b` and its like, `a += b` with `inplace`."""
    function, name = BINARY[op]
    if isinstance(a, TensorV) or isinstance(b, TensorV):
        if isinstance(a, TensorV):
            b = late.as_tensor(session.recorder, op, b, a) or symbolic.as_tensor(session.recorder, op, b, a) or b
        else:
            a = late.as_tensor(session.recorder, op, a, b) or symbolic.as_tensor(session.recorder, op, a, b) or a
        if inplace and isinstance(a, TensorV):
            function = getattr(operator, f"i{name}")
        return tensor.operator(session, function, a, b)
    if arrays.is_operand(a, b):
        if inplace and not session.is_concrete(a):
            raise Abort("an array or a list that is changed in place")
        return arrays.operator(session, function, a, b)
    open_ = late.arithmetic(session, op, a, b) or symbolic.arithmetic(session, op, a, b)
    if open_ is not None:
        return open_
    if op == "+" and any(map(symbolic.holds_symbols, (a, b))):
        parts = _sequences_of(session, a, b)
        if all(part is not None and part[0] is tuple for part in parts):
            kind = Size if Size in (session.type_of(a), session.type_of(b)) else tuple
            return TupleV([x for part in parts for x in part[1]], kind)  # type: ignore[index]
    if session.is_concrete(a) and session.is_concrete(b):
        x, y = session.plain(a), session.plain(b)
        _check_size(op, x, y)
        if arrays.holds_numbers(y):
            return arrays.run(session, function, [x, y], {})
        try:
            return constant(function(x, y))
        except Exception as error:
            raise Raised(error) from None
    result = _sequences(session, op, a, b, inplace)
    if result is not None:
        return result
    _check_order(session, a, b)
    names = [f"__i{name}__"] if inplace else []
    for x, y, method in ((a, b, *names), (a, b, f"__{name}__"), (b, a, f"__r{name}__"))[0 if inplace else 1:]:
        found = _user_method(session, x, method)
        if found is not None:
            if method.startswith("__r") and session.type_of(a) is session.type_of(b):
                continue
            out = call.call(session, found, [y], {})
            if not (isinstance(out, Obj) and out.obj is NotImplemented):
                return out
    raise Abort(f"{op} between a {session.type_name(a)} and a {session.type_name(b)}")


def _check_size(op: str, x: Any, y: Any) -> None:
    """Constant arithmetic must not become the expensive part of a dry run."""
    if op == "**" and isinstance(x, int) and isinstance(y, int) and y > 0 and x.bit_length() * y > BIG:
        raise Abort("a huge power")
    if op == "<<" and isinstance(y, int) and y > BIG:
        raise Abort("a huge shift")
    if op == "*" and any(isinstance(v, (str, bytes, tuple)) for v in (x, y)):
        count = x if isinstance(x, int) else y if isinstance(y, int) else 0
        if count * max(len(v) for v in (x, y) if isinstance(v, (str, bytes, tuple))) > BIG:
            raise Abort("a huge sequence")


def _sequences(session: Session, op: str, a: Value, b: Value, inplace: bool) -> Value | None:
    if op == "|":
        left, right = session.as_dict(a), session.as_dict(b)
        if left is not None and right is not None:
            if inplace and attr.lookup(session, left.kind, "__ior__")[0] in (
                    dict.__ior__, OrderedDict.__ior__, defaultdict.__ior__):
                for key, item in list(right.load().items()):
                    left.set(key, item)
                return a
            if left.kind is dict and right.kind is dict:
                return DictV({**left.load(), **right.load()})
    sides = [_key_set(x) for x in (a, b)]
    if None not in sides and op in ("|", "&", "-", "^"):
        keys = BINARY[op][0](*sides)
        if not inplace or not isinstance(a, SetV):
            return SetV(keys)
        a.keys.clear()
        a.keys.update(keys)
        return a
    left, right = _sequence(session, a), _sequence(session, b)
    if op == "+" and left is not None:
        if inplace and left[0] is list:
            session.as_list(a).write("extend", iterate.unpack(session, b))
            return a
        if right is not None:
            if left[0] is not right[0]:
                name, other = left[0].__name__, right[0].__name__
                return raise_(TypeError, f'can only concatenate {name} (not "{other}") to {name}')
            return (ListV if left[0] is list else TupleV)([*left[1], *right[1]])
    if op == "*":
        for sequence, count in ((left, b), (right, a)):
            if sequence is not None and session.is_concrete(count) and isinstance(session.concrete(count), int):
                times = session.concrete(count)
                if len(sequence[1]) * times > BIG:
                    raise Abort("a huge sequence")
                if inplace and sequence[0] is list and sequence is left:
                    session.as_list(a).write("setslice", slice(None), sequence[1] * times)
                    return a
                return (ListV if sequence[0] is list else TupleV)(sequence[1] * times)
    return None


def _key_set(value: Value) -> Any:
    """A real set, or view of the keys of a dict, that stands for an operand of a set operation; None for others."""
    if isinstance(value, DictView) and value.what == "keys":
        return dict.fromkeys(value.mapping.load()).keys()  # results come in the order that views give
    return value.keys if isinstance(value, SetV) else None


def unary(session: Session, op: str, value: Value) -> Value:
    """`-value` and its like."""
    function, name = UNARY[op]
    if isinstance(value, TensorV):
        return tensor.operator(session, function, value)
    if op == "-" and isinstance(value, late.LateV):
        return late.negative(value)
    if op == "-" and (open_ := symbolic.negative(value)) is not None:
        return open_
    if arrays.is_operand(value):
        return arrays.operator(session, function, value)
    if session.is_concrete(value):
        try:
            return constant(function(session.plain(value)))
        except Exception as error:
            raise Raised(error) from None
    method = _user_method(session, value, name)
    if method is None:
        raise Abort(f"unary {op} of a {session.type_name(value)}")
    return call.call(session, method, [], {})


def boolean(value: bool) -> Value:
    """The interpreted True or False."""
    return TRUE if value else FALSE
