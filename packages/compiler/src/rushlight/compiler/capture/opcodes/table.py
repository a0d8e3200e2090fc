"""The decorator that enters a handler into the table of instructions."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rushlight.compiler.capture.frame import HANDLERS, Frame

Handler = Callable[[Frame, int], None]


def op(*names: str, since: tuple[int, int] = (3, 11)) -> Callable[[Handler], Handler]:
    """Register a handler for instructions as they are since a version of CPython; older ones pay no heed to it."""

    def add(handler: Handler) -> Handler:
        if sys.version_info >= since:
            for name in names:
                HANDLERS[name] = handler
        return handler

    return add
