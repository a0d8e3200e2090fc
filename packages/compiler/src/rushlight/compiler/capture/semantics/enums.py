"""Members of enums, read where the module `enum` keeps them: what is there may change, as when a library adds one."""

from __future__ import annotations

import enum
from typing import Any

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.semantics import attr
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.value import Value, constant


def members(session: Session, cls: type[enum.Enum]) -> list[Value]:
    """The members, in order."""
    if type(cls).__iter__ is not enum.EnumType.__iter__ or type(cls).__len__ is not enum.EnumType.__len__:
        raise Abort(f"an enum of class {type(cls).__name__}")
    names = session.as_list(_kept(session, cls, "_member_names_", list))
    found = [named(session, cls, session.concrete(name)) for name in names.load()]  # type: ignore[union-attr]
    if None in found:
        raise Abort(f"an enum without all of its members: {cls.__name__}")
    return found  # type: ignore[return-value]


def named(session: Session, cls: type[enum.Enum], name: Any) -> Value | None:
    """The member with a name; None where there is none."""
    return _entry(session, cls, "_member_map_", name)


def valued(session: Session, cls: type[enum.Enum], value: Any) -> Value | None:
    """The member with a value; None where it has to be looked for."""
    return _entry(session, cls, "_value2member_map_", value)


def attribute(session: Session, cls: type[enum.Enum], name: str) -> Value:
    """A member by its name, as an attribute of the class."""
    found, node = attr.lookup(session, cls, name)
    if node is not None and isinstance(found, cls):
        return session.lift(found, node)
    member = None
    if node is not None and type(found) is enum.property:
        node.check_identity()
        own = getattr(found, "member", None)  # since CPython 3.12
        member = named(session, cls, name) if own is None else constant(own)
    if member is None:
        raise Abort(f"attribute {name} of an enum class")
    return member


def _entry(session: Session, cls: type[enum.Enum], table: str, key: Any) -> Value | None:
    return session.as_dict(_kept(session, cls, table, dict)).get(key)  # type: ignore[union-attr]


def _kept(session: Session, cls: type[enum.Enum], name: str, kind: type) -> Any:
    found, node = attr.lookup(session, cls, name)
    if type(found) is not kind or node is None:
        raise Abort(f"{name} of the enum {cls.__name__}, which is no {kind.__name__}")
    return session.lift(found, node)
