"""Functions that users marked: what stands for a call of them during capture."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from rushlight.compiler.capture.value import Obj, Value
from rushlight.core import dispatch

if TYPE_CHECKING:
    from rushlight.compiler.capture.session import Session

_SUBSTITUTES: dict[int, FunctionType] = {}  # by the id of the original function, which is kept alive beside it
_kept: list[Callable] = []


def substitute(original: Callable, stand_in: FunctionType, check: bool) -> None:
    """Interpret `stand_in` where a program calls `original`.

    Raises TypeError for what are no functions or take other arguments, ValueError for a second substitute.
    """
    if not callable(original) or isinstance(original, type):
        raise TypeError(f"substitute_in_graph: expected a function, got {type(original).__name__}")
    if not isinstance(stand_in, FunctionType):
        raise TypeError(f"substitute_in_graph: expected a Python function for {original!r}, got "
                        f"{type(stand_in).__name__}")
    if id(original) in _SUBSTITUTES:
        raise ValueError(f"substitute_in_graph: {original!r} has a substitute already, "
                         f"{_SUBSTITUTES[id(original)].__qualname__}")
    if check:
        _check_signature(original, stand_in)
    _kept.append(original)
    _SUBSTITUTES[id(original)] = stand_in


def substitute_of(fn: Any) -> FunctionType | None:
    """The function to interpret in place of another."""
    return _SUBSTITUTES.get(id(fn))


def _check_signature(original: Callable, stand_in: FunctionType) -> None:
    try:
        expected = inspect.signature(original)
    except ValueError:  # builtins need not tell
        return
    given = inspect.signature(stand_in)

    def form(signature: inspect.Signature) -> list[tuple]:
        return [(p.name, p.kind, p.default) for p in signature.parameters.values()]

    if form(expected) != form(given):
        raise TypeError(f"substitute_in_graph: {stand_in.__qualname__}{given} does not take the arguments of "
                        f"{getattr(original, '__qualname__', original)}{expected}; pass skip_signature_check=True if "
                        "that is meant")


def is_constant(fn: FunctionType) -> bool:
    """Did the user say that a function always gives the same result?"""
    return "_rushlight_constant" in fn.__dict__


def constant_call(session: Session, fn: FunctionType, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The result of a function that is called now, once, on the arguments as they are."""
    def known(value: Value) -> Any:
        return value.obj if type(value) is Obj else session.concrete(value)

    with dispatch.push(None):
        result = fn(*map(known, args), **{name: known(value) for name, value in kwargs.items()})
    return session.lift(result, session.tree.constant(result))
