"""The handler stack: who sees an op call before it runs.

Eager calls go straight to an op's plan. A pushed handler (compiler tracing, function transforms) sees every call on its
thread first. Autograd is asked once per plan instead, so that calls without gradients cost nothing: see `autograd`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from rushlight.core import fork
from rushlight.core.op import GUEST, HANDLERS, STACK, Op


class Handler(Protocol):
    """Something that takes op calls: `handle(op, operands, params)` returns the call's result."""

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        """Answer one op call."""


@fork.in_child
def _after_fork() -> None:
    """The handlers of other threads are none of the child's."""
    global _CHANGES
    _CHANGES = threading.Lock()  # another thread may have held it
    HANDLERS[:] = STACK.handlers
    PUTTING_OFF[:] = [handler for handler in PUTTING_OFF if handler in STACK.handlers]
    if not PUTTING_OFF:
        GUEST.clear()


def current() -> Handler | None:
    """The innermost handler of this thread."""
    stack = STACK.handlers
    return stack[-1] if stack else None


@contextlib.contextmanager
def push(handler: Handler | None) -> Iterator[None]:
    """Make `handler` see this thread's op calls inside the block; None runs the block below all handlers.

    Blocks may be left in any order: each takes its own handler off.
    """
    stack = STACK.handlers
    stack.append(handler)
    HANDLERS.append(handler)
    try:
        yield
    finally:
        HANDLERS.remove(handler)  # whatever happens below: calls ask for handlers as long as one is here
        at = len(stack) - 1
        while stack[at] is not handler:
            at -= 1
        del stack[at]


class below:
    """Run the block with the innermost handler taken off, as handlers do for their own op calls."""

    __slots__ = ("handler",)

    def __enter__(self) -> None:
        self.handler = STACK.handlers.pop()

    def __exit__(self, *exception: Any) -> None:
        STACK.handlers.append(self.handler)


# Installed by rushlight.autograd: `autograd(op, metas, params, out, run)` returns the plan to use for operands of
# which one requires grad; `run` is the plan without recording.
autograd: Callable[[Op, tuple, tuple, Any, Callable], Callable] | None = None


def set_autograd(recorder: Callable[[Op, tuple, tuple, Any, Callable], Callable]) -> None:
    """Install the function that makes plans record for autograd."""
    global autograd
    autograd = recorder


def handlers() -> tuple[Handler | None, ...]:
    """The handlers of this thread, the innermost last."""
    return tuple(STACK.handlers)


def follow(made: Any, like: Any) -> Any:
    """A fresh tensor that takes what is written to `like`: a handler for which one tensor stands for many may give it
    memory for all of them.
    """
    handler = current() if HANDLERS else None
    return handler.follow(made, like) if hasattr(handler, "follow") else made


def visible(x: Any) -> bool:
    """May elements of a tensor be looked at? A handler for which it stands for many says no."""
    return not any(hasattr(handler, "hides") and handler.hides(x) for handler in (STACK.handlers if HANDLERS else ()))


def with_casts(fn: Callable, policy: str) -> Callable:
    """A public function as the innermost handler that chooses dtypes runs it; `policy` is its own (see
    `front.function`).
    """
    for handler in reversed(STACK.handlers):
        if handler is None:
            break
        if hasattr(handler, "with_casts"):
            return handler.with_casts(fn, policy)
    return fn


def put_off(x: Any) -> bool:
    """Does the innermost handler see to it that a call with this element True is an error, at a later time?"""
    handler = current()
    return hasattr(handler, "put_off") and handler.put_off(x)


def repeats() -> int:
    """How many times as many random numbers a call draws now, for the handlers it passes, as its shapes say."""
    times = 1
    for handler in STACK.handlers:
        times *= getattr(handler, "repeats", 1)
    return times


# Putting operations off: a handler may give tensors that have metadata only, whose memory comes when somebody reads it
# (see `Tensor.__getattr__`). Whoever writes memory without an operation says so beforehand.

PUTTING_OFF: list[Any] = []  # such handlers, of all threads; each has a method `settle`


def settle() -> None:
    """Have all operations run that were put off: code that is no operation is about to write memory that they read, or
    gives it to somebody who may.
    """
    if PUTTING_OFF and STACK.settles:
        for handler in tuple(PUTTING_OFF):
            handler.settle()


def putting_off(handler: Any, function: Callable, args: tuple, kwargs: dict) -> Any:
    """Call a function below a handler that puts operations off; the thread must have no other one. In the end, or when
    an interrupt comes wherever it may, `handler.close()` is called and the handler taken off.
    """
    try:
        with _CHANGES:
            PUTTING_OFF.append(handler)
            GUEST[:] = [_guest]
        HANDLERS.append(handler)
        STACK.handlers.append(handler)
        return function(*args, **kwargs)
    finally:
        try:
            handler.close()
        finally:
            try:
                _take_off(handler)
            except BaseException:  # an interrupt
                _take_off(handler)
                raise


_CHANGES = threading.Lock()


def _take_off(handler: Any) -> None:
    """What is done already is left alone."""
    for handlers in (STACK.handlers, HANDLERS):
        if handler in handlers:
            handlers.remove(handler)
    with _CHANGES:
        if handler in PUTTING_OFF:
            PUTTING_OFF.remove(handler)
        if not PUTTING_OFF:
            GUEST.clear()


def at_once() -> without | contextlib.nullcontext:
    """A block in which this thread puts no operation off, and none is left over from before."""
    settle()
    own = [handler for handler in STACK.handlers if handler in PUTTING_OFF]
    return without(own) if own else contextlib.nullcontext()


class without:
    """Run the block as if some handlers of this thread had not been pushed."""

    __slots__ = ("handlers", "stack", "off")

    def __init__(self, handlers: Iterable) -> None:
        self.handlers = handlers

    def __enter__(self) -> None:
        self.stack = STACK.handlers
        STACK.handlers = [handler for handler in self.stack if handler not in self.handlers]
        self.off = [handler for handler in self.stack if handler in self.handlers]
        for handler in self.off:
            HANDLERS.remove(handler)

    def __exit__(self, *exception: Any) -> None:
        STACK.handlers = self.stack
        HANDLERS.extend(self.off)


class _Guest:
    """What threads without handlers have while another one puts operations off."""

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        if op.mutates:
            settle()
        return op.execute(operands, params)


_guest = _Guest()
