"""What a program does besides computing: it looks at clocks, draws random numbers of Python and numpy, and tells people
something.

Messages are given out with the other effects of the call, in order. A clock is looked at before the graph runs where
nothing was computed yet, else after the part of the program that came before it. Random numbers are drawn before the
graph runs; should the call run eagerly after all, or along another path, the generator is put back first.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import time
import warnings
from collections.abc import Callable
from types import BuiltinFunctionType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rushlight.compiler.capture.derived import Derived
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.late import LateV
from rushlight.compiler.capture.source import Source

if TYPE_CHECKING:
    from rushlight.compiler.capture.session import Session
    from rushlight.compiler.capture.value import Value

CLOCKS: dict[Any, type] = {getattr(time, name + end): kind for name in ("time", "perf_counter", "monotonic",
                                                                        "process_time", "thread_time")
                           for end, kind in (("", float), ("_ns", int)) if hasattr(time, name + end)}
PLAIN: Any = random.Random.__base__  # whose state is all that these draws change, and that nobody replaces
Generator = random.Random | np.random.RandomState
_BETWEEN = ("rushlight.compiler", "rushlight.core.recording")  # whose frames lie between a program and its caller


class Said(NamedTuple):
    """A message: after how many calls that run as they are, the function that gives it out, and its arguments."""

    after: int
    give: Callable
    arguments: list[Value]
    options: dict[str, Value]


class Early:
    """A number that is there before the graph runs: the result of a function without arguments, or of a generator."""

    __slots__ = ("name", "owner", "method", "arguments", "example")

    step = "early"

    def __init__(self, name: str, owner: Any, method: str, arguments: list, example: Any) -> None:
        self.name, self.owner, self.method, self.arguments, self.example = name, owner, method, arguments, example

    def check(self, kind: str = "", *detail: Any) -> None:
        raise Abort("the value of a clock or random number is needed")


class Outside:
    """What a capture has seen of that."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.said: list[Said] = []
        self.early: list[Early] = []
        self.clocks: list[tuple[int, LateV]] = []  # after how many calls that run as they are
        self.generators: dict[int, tuple[Source | None, Generator, Generator]] = {}  # and where they stand

    def say(self, give: Callable, arguments: list[Value], options: dict[str, Value] | None = None) -> None:
        """Give out a message with the other effects."""
        self.said.append(Said(len(self.session.deferred), give, arguments, options or {}))

    def clock(self, read: Any) -> LateV:
        """The time."""
        kind = CLOCKS[read]
        if not self.session.recorder.graph.nodes and not self.session.deferred:
            return self._early(kind, read, "__call__", [], read())
        now = LateV(kind, lambda epilogue: f"{epilogue.writer.hold(read)}()", read)
        self.clocks.append((len(self.session.deferred), now))
        return now

    def draw(self, owner: Generator, source: Source | None, method: str, arguments: list) -> LateV:
        """The next number of a generator."""
        if type(owner) not in (random.Random, np.random.RandomState):
            raise Abort(f"a random number of a {type(owner).__name__}")
        if id(owner) not in self.generators:
            twin = type(owner)()
            try:
                put(twin, standing(owner))
            except ValueError:
                raise Abort("a generator with other bits than those that numpy starts with") from None
            self.generators[id(owner)] = source, owner, twin
        first, _, twin = self.generators[id(owner)]
        if (first is None) is not (source is None):  # the one that we hold on to, and one by a path
            (first or source).check_identity()  # type: ignore[union-attr]
        try:
            found = getattr(twin, method)(*arguments)
        except (TypeError, ValueError) as error:
            raise Abort(f"the random number {method}: {error}") from None
        if type(found) not in (int, float):
            raise Abort(f"the random {type(found).__name__} that {method} gives")
        return self._early(type(found), owner if source is None else source, method, arguments, found)

    def _early(self, kind: type, owner: Any, method: str, arguments: list, found: Any) -> LateV:
        root: Any = Early(f"e{len(self.early)}", owner, method, arguments, found)
        self.early.append(root)
        return LateV(kind, lambda epilogue: root.name, lambda: found,
                     origin=Derived((root,), lambda name: name(root)))

    def counts(self) -> tuple[int, int, int]:
        """How many messages, numbers and looks at clocks there were."""
        return len(self.said), len(self.early), len(self.clocks)

    def sources(self) -> list[Source]:
        """Where generators are read, so that the entry has names for them."""
        owners = [*[source for source, *_ in self.generators.values()], *[item.owner for item in self.early]]
        return [x for x in owners if isinstance(x, Source)]

    def lines(self, epilogue: Any) -> list[str]:
        """The lines that come before the graph runs."""
        def name(owner: Any) -> str:
            return epilogue.source(owner) if isinstance(owner, Source) else epilogue.writer.hold(owner)

        lines = [f"w{i} = {epilogue.writer.hold(standing)}({name(owner if source is None else source)})"
                 for i, (source, owner, _) in enumerate(self.generators.values())]
        for item in self.early:
            call = "" if item.method == "__call__" else f".{item.method}"
            lines.append(f"{item.name} = {name(item.owner)}{call}({', '.join(map(repr, item.arguments))})")
        return lines

    def undo(self, epilogue: Any) -> str:
        """What puts the generators back."""
        parts = []
        for i, (source, owner, _) in enumerate(self.generators.values()):
            name = epilogue.writer.hold(owner) if source is None else epilogue.source(source)
            parts.append(f"{epilogue.writer.hold(put)}({name}, w{i}); ")
        return "".join(parts)


def standing(generator: Generator) -> Any:
    """Where a generator stands."""
    if isinstance(generator, random.Random):
        return PLAIN.getstate(generator)
    return generator.get_state(legacy=False)


def put(generator: Generator, state: Any) -> None:
    """Let a generator stand somewhere."""
    if isinstance(generator, random.Random):
        PLAIN.setstate(generator, state)
    else:
        generator.set_state(state)


# messages


def log(logger: logging.Logger, level: int, path: str, line: int, function: str, message: Any, *args: Any) -> None:
    """`logger.log(level, message, *args)` from somewhere else."""
    if logger.isEnabledFor(level):
        record = logger.makeRecord(logger.name, level, os.path.normcase(path), line, message, args, None, function)
        logger.handle(record)


def logs_plainly(logger: logging.Logger) -> bool:
    """Is what gets a logger's messages all of the standard library, so that nobody acts on them?"""
    at: Any = logger
    while at is not None:
        if not _is_plain(at) or at.filters:
            return False
        for handler in at.handlers:
            form = handler.formatter or logging._defaultFormatter
            if handler.filters or not (_is_plain(handler) and _is_plain(form)):
                return False
        at = at.parent if at.propagate else None
    return logging.getLogRecordFactory() is logging.LogRecord


def _is_plain(x: Any) -> bool:
    kind = type(x)
    return kind.__module__ in ("logging", "logging.handlers") and not any(
        callable(getattr(kind, name, None)) and type(value) is not BuiltinFunctionType
        for name, value in vars(x).items())


def warns_plainly(message: str, category: type[Warning], module: str, line: int) -> bool:
    """Does a warning not become an error? The first filter that fits decides."""
    for action, text, kind, where, at in warnings.filters:
        if (text is None or text.match(message)) and issubclass(category, kind) and (
                where is None or where.match(module)) and at in (0, line):
            return action != "error"
    return warnings.defaultaction != "error"  # type: ignore[attr-defined]


def calling(level: int) -> FrameType | None:
    """The frame that calls the compiled function, or for higher levels one further out; None where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename.startswith("<compiled ")
                                 or (frame.f_globals.get("__name__") or "").startswith(_BETWEEN)):
        frame = frame.f_back
    for _ in range(level - 1):
        frame = frame and frame.f_back
    return frame


def caller_warned_plainly(level: int, message: str, category: type[Warning]) -> bool:
    """Does a warning that names who calls the program not become an error?"""
    frame = calling(level)
    return frame is not None and warns_plainly(
        message, category, frame.f_globals.get("__name__") or "<sys>", frame.f_lineno)


def warn_caller(level: int, message: str, category: type[Warning]) -> None:
    """`warnings.warn(message, category)` from who calls the program."""
    frame = calling(level)
    if frame is not None:  # the guard saw it
        warn(frame.f_globals, frame.f_code.co_filename, frame.f_lineno, message, category)


def warn(space: dict, path: str, line: int, message: str, category: type[Warning]) -> None:
    """`warnings.warn(message, category)` from somewhere else."""
    warnings.warn_explicit(message, category, path, line, space.get("__name__") or "<sys>",
                           space.setdefault("__warningregistry__", {}), None)
