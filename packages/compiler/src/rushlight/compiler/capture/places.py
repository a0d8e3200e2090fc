"""Where in the program something happens, for the tracebacks of calls that run after the graph."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import CodeType, FunctionType, TracebackType
from typing import Any

Place = tuple[CodeType, int]  # a function of the program, and a line in it


def standing_at(places: list[Place], fn: FunctionType) -> Callable[..., Any]:
    """The function, whose errors pass through these places of the program, outermost first, as they do eagerly."""

    @functools.wraps(fn)
    def call(*args: Any) -> Any:
        try:
            return fn(*args)
        except Exception as error:
            below = error.__traceback__.tb_next if error.__traceback__ else None
            error.__traceback__ = functools.reduce(_through, reversed(places), below)
            raise

    return call


def _through(below: TracebackType | None, place: Place) -> TracebackType:
    """A traceback that passes a place before it goes on."""
    code, line = place
    stands = compile("\n" * (line - 1) + "frame = look()", code.co_filename, "exec").replace(
        co_name=code.co_name, co_qualname=code.co_qualname)
    found: dict[str, Any] = {"look": sys._getframe}
    exec(stands, found)
    frame = found["frame"]
    return TracebackType(below, frame, frame.f_lasti, line)
