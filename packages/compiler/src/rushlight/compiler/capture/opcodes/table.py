"""The decorator that enters a handler into the table of instructions."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.compiler.capture.frame import HANDLERS, Frame

Handler = Callable[[Frame, int], None]


def op(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler for instructions."""

    def add(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return add
