"""The handler stack: who sees an op call before it runs.

Eager calls go straight to an op's plan. A pushed handler (compiler tracing, function transforms) sees every call on its
thread first. Autograd is asked once per plan instead, so that calls without gradients cost nothing: see `autograd`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from rushlight.core import fork
from rushlight.core.op import HANDLERS, Op


class Handler(Protocol):
    """Something that takes op calls: `handle(op, operands, params)` returns the call's result."""

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        """Answer one op call."""


class _Local(threading.local):
    def __init__(self) -> None:
        self.stack: list[Handler | None] = []


_local = _Local()


@fork.in_child
def _after_fork() -> None:
    """The handlers of other threads are none of the child's."""
    HANDLERS[:] = _local.stack


def current() -> Handler | None:
    """The innermost handler of this thread."""
    stack = _local.stack
    return stack[-1] if stack else None


@contextlib.contextmanager
def push(handler: Handler | None) -> Iterator[None]:
    """Make `handler` see this thread's op calls inside the block; None runs the block below all handlers.

    Blocks may be left in any order: each takes its own handler off.
    """
    stack = _local.stack
    stack.append(handler)
    HANDLERS.append(handler)
    try:
        yield
    finally:
        HANDLERS.pop()  # whatever happens below: calls ask for handlers as long as one is here
        at = len(stack) - 1
        while stack[at] is not handler:
            at -= 1
        del stack[at]


class below:
    """Run the block with the innermost handler taken off, as handlers do for their own op calls."""

    __slots__ = ("handler",)

    def __enter__(self) -> None:
        self.handler = _local.stack.pop()

    def __exit__(self, *exception: Any) -> None:
        _local.stack.append(self.handler)


# Installed by rushlight.autograd: `autograd(op, metas, params, out, run)` returns the plan to use for operands of
# which one requires grad; `run` is the plan without recording.
autograd: Callable[[Op, tuple, tuple, Any, Callable], Callable] | None = None


def set_autograd(recorder: Callable[[Op, tuple, tuple, Any, Callable], Callable]) -> None:
    """Install the function that makes plans record for autograd."""
    global autograd
    autograd = recorder


def handlers() -> tuple[Handler | None, ...]:
    """The handlers of this thread, the innermost last."""
    return tuple(_local.stack)


def follow(made: Any, like: Any) -> Any:
    """A fresh tensor that takes what is written to `like`: a handler for which one tensor stands for many may give it
    memory for all of them.
    """
    handler = current() if HANDLERS else None
    return handler.follow(made, like) if hasattr(handler, "follow") else made


def visible(x: Any) -> bool:
    """May elements of a tensor be looked at? A handler for which it stands for many says no."""
    return not any(hasattr(handler, "hides") and handler.hides(x) for handler in (_local.stack if HANDLERS else ()))


def put_off(x: Any) -> bool:
    """Does the innermost handler see to it that a call with this element True is an error, at a later time?"""
    handler = current()
    return hasattr(handler, "put_off") and handler.put_off(x)


def repeats() -> int:
    """How many times as many random numbers a call draws now, for the handlers it passes, as its shapes say."""
    times = 1
    for handler in _local.stack:
        times *= getattr(handler, "repeats", 1)
    return times
