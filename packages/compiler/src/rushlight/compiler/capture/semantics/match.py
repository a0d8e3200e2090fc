"""The match statement."""

from __future__ import annotations

from rushlight.compiler.capture import allow
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.semantics import attr, builtins, container, iterate
from rushlight.compiler.capture.session import Session, raise_
from rushlight.compiler.capture.value import NONE, TupleV, Value, constant

# Py_TPFLAGS_SEQUENCE and Py_TPFLAGS_MAPPING, by which the patterns go.
_SEQUENCE, _MAPPING = 1 << 5, 1 << 6
# Builtin classes whose positional pattern is the subject itself.
_SELF = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


def is_sequence(session: Session, value: Value) -> bool:
    """Does a sequence pattern accept the value?"""
    return bool(_flags(session, value) & _SEQUENCE)


def is_mapping(session: Session, value: Value) -> bool:
    """Does a mapping pattern accept the value?"""
    return bool(_flags(session, value) & _MAPPING)


def _flags(session: Session, value: Value) -> int:
    kind = session.type_of(value)
    if kind.__flags__ & (_SEQUENCE | _MAPPING) and not allow.is_plain_container(kind):
        raise Abort(f"matching a {kind.__name__}")
    return kind.__flags__


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
