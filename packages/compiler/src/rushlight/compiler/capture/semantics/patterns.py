"""Regular expressions over texts that are known: they run natively, and neither patterns nor matches ever change.

What tells people something is left to eager execution: patterns that Python warns of, and `re.DEBUG`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.value import BoundBuiltin, Obj, Value, constant
from rushlight.compiler.capture.view import ListV

Args = list[Value]
Kwargs = dict[str, Value]
TYPES = (re.Pattern, re.Match)
METHODS = frozenset("match search fullmatch findall split sub subn group groups start end span expand "
                    "__getitem__".split())


def is_one(value: Value) -> bool:
    """Is it a pattern or a match?"""
    return isinstance(value, Obj) and type(value.obj) in TYPES


def load(value: Value, name: str) -> Value:
    """A method of a pattern or match."""
    if name not in METHODS:
        raise Abort(f"{name} of a pattern or match")
    return BoundBuiltin(name, value)


def method(session: Session, owner: Obj, name: str, args: Args, kwargs: Kwargs) -> Value:
    """`pattern.search(text)`, `match.group(1)`."""
    if name not in METHODS:
        raise Abort(f"{name} of a pattern or match")
    return _run(session, getattr(_plain(session, owner), name), args, kwargs)


def _plain(session: Session, value: Value) -> Any:
    if not is_one(value):
        return session.plain(value)
    if value.source is not None:  # type: ignore[attr-defined]
        value.source.check_identity()  # type: ignore[attr-defined]
    return value.obj  # type: ignore[attr-defined]


def _run(session: Session, function: Callable, args: Args, kwargs: Kwargs) -> Value:
    given = [_plain(session, x) for x in args]
    named = {name: _plain(session, x) for name, x in kwargs.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # so that `re` does not keep the pattern, and warns again
            return _value(function(*given, **named))
    except Warning as said:
        raise Abort(f"a regular expression that Python warns of: {said}") from None
    except Exception as error:
        raise Raised(error.with_traceback(None)) from None


def _value(found: Any) -> Value:
    if type(found) is list:
        return ListV([constant(x) for x in found])
    return Obj(found) if type(found) in TYPES else constant(found)


def _native(function: Callable) -> Callable:
    def call(session: Session, args: Args, kwargs: Kwargs) -> Value:
        if any(isinstance(x, Obj) and isinstance(x.obj, int) and x.obj & re.DEBUG for x in (*args, *kwargs.values())):
            raise Abort("a pattern that is printed")
        return _run(session, function, args, kwargs)

    return call


FUNCTIONS = {f: _native(f) for f in (re.match, re.search, re.fullmatch, re.findall, re.split, re.sub, re.subn,
                                     re.escape, re.compile)}
