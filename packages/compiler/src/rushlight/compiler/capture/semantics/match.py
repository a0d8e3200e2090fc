"""The match statement."""

from __future__ import annotations

from rushlight.compiler.capture import allow
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.semantics import attr, builtins, container, iterate
from rushlight.compiler.capture.session import Session, raise_
from rushlight.compiler.capture.value import NONE, Obj, TensorV, TupleV, Value, constant

# Builtin classes whose positional pattern is the subject itself.
_SELF = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


def is_sequence(session: Session, value: Value) -> bool:
    """Does a sequence pattern accept the value?"""
    if isinstance(value, TupleV) or session.as_list(value) is not None:
        return True
    if isinstance(value, Obj) and isinstance(value.obj, tuple):
        session.type_of(value)
        return True
    return _known_otherwise(session, value)


def is_mapping(session: Session, value: Value) -> bool:
    """Does a mapping pattern accept the value?"""
    return session.as_dict(value) is not None or _known_otherwise(session, value)


def _known_otherwise(session: Session, value: Value) -> bool:
    """False for values that are certainly no sequence and no mapping; Abort for others."""
    if isinstance(value, TensorV) or session.as_dict(value) is not None or session.as_list(value) is not None:
        return False
    if session.type_of(value) in allow.BUILTIN_TYPES - {range, bytearray}:
        return False
    raise Abort(f"matching a {session.type_name(value)}")


def keys(session: Session, value: Value, wanted: Value) -> Value:
    """The values of a mapping pattern's keys, None when one is missing."""
    mapping = session.as_dict(value)
    found = [mapping.get(container.key_of(session, key)) for key in iterate.unpack(session, wanted)]
    return NONE if None in found else TupleV(found)


def attributes(session: Session, value: Value, cls: Value, positional: int, names: tuple[str, ...]) -> Value:
    """What a class pattern takes apart, None when the value is no instance or has not the attributes."""
    if not builtins.instance_of(session, value, cls):
        return NONE
    kind = session.concrete(cls)
    first: list[Value] = []
    if positional:
        found, node = attr.lookup(session, kind, "__match_args__")
        if found is attr.MISSING:
            if kind not in _SELF or positional > 1:
                return raise_(TypeError, f"{kind.__name__}() accepts 0 positional sub-patterns ({positional} given)")
            first = [value]
        else:
            order = session.concrete(session.lift(found, node) if node is not None else constant(found))
            if positional > len(order):
                return raise_(TypeError, f"{kind.__name__}() accepts {len(order)} positional sub-patterns "
                                         f"({positional} given)")
            names = (*order[:positional], *names)
    try:
        return TupleV([*first, *[attr.load(session, value, name) for name in names]])
    except Raised as raised:
        if isinstance(raised.value, AttributeError):
            return NONE
        raise
