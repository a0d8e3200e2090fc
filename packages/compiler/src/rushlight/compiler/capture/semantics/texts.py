"""Texts of values: `str`, `repr`, `format` and f-strings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import FunctionType
from typing import Any

from rushlight.compiler.capture import allow
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.semantics import arrays, attr, call, copies, exceptions
from rushlight.compiler.capture.session import Session, raise_
from rushlight.compiler.capture.value import InstanceV, Obj, SetV, TensorV, Value

NAMES: dict[Callable | None, str] = {None: "__format__", str: "__str__", repr: "__repr__"}


def has_own(session: Session, value: Value) -> bool:
    """Does the class of a value say what its text is, or is it an exception?"""
    if exceptions.is_own(value) or isinstance(value, InstanceV):
        return True
    return isinstance(value, Obj) and type(value.obj) not in allow.BUILTIN_TYPES and not session.is_concrete(
        value) and session.as_list(value) is None and session.as_dict(value) is None and session.as_deque(value) is None


def text(session: Session, value: Value, conversion: Callable | None, spec: str = "") -> str:
    """`format(conversion(value), spec)`."""
    if has_own(session, value) and conversion in NAMES:
        if conversion is None:
            return _formatted(session, value, spec)
        obj: Any = _own(session, value, NAMES[conversion])
    else:
        obj = copies.plain(session, value)
        if isinstance(obj, type) or isinstance(value, (SetV, TensorV)):
            raise Abort("the text of an object")
        if arrays.holds_numbers(obj):
            arrays.watch_texts(session)
        obj = conversion(obj) if conversion else obj
    try:
        return format(obj, spec)
    except Exception as error:
        raise Raised(error) from None


def _formatted(session: Session, value: Value, spec: str) -> str:
    cls = session.type_of(value)
    found, node = attr.lookup(session, cls, "__format__")
    if isinstance(found, FunctionType):
        return _given(session, found, node, [value, Obj(spec)])
    if found is not object.__format__:
        raise Abort(f"{cls.__name__}.__format__ is not a plain function")
    if spec:
        return raise_(TypeError, f"unsupported format string passed to {cls.__name__}.__format__")
    return _own(session, value, "__str__")


def _own(session: Session, value: Value, name: str) -> str:
    """What a special method gives."""
    cls = session.type_of(value)
    found, node = attr.lookup(session, cls, name)
    if isinstance(found, FunctionType):
        names = found.__code__.co_freevars
        if found.__globals__ is vars(dataclasses) and "user_function" in names and node is not None:
            node.check_identity()  # what looks for objects that hold themselves
            inner = found.__closure__[names.index("user_function")].cell_contents  # type: ignore[index]
            return _given(session, inner, session.tree.constant(inner), [value])
        return _given(session, found, node, [value])
    if found is object.__str__ and node is None:
        return _own(session, value, "__repr__")
    if exceptions.is_own(value) and node is None:
        return exceptions.text(session, value.obj, name)  # type: ignore[attr-defined]
    raise Abort(f"the text of a {cls.__name__}")


def _given(session: Session, function: FunctionType, node: Any, args: list[Value]) -> str:
    result = session.concrete(call.call(session, session.lift(function, node), args, {}))
    if type(result) is not str:
        raise Abort("a text that is no str")
    return result
