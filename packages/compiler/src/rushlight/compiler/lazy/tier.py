"""Lazy replay of one function: what it has put off so far, and whether that pays."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight.compiler import _config, _logs
from rushlight.compiler.capture import state
from rushlight.compiler.lazy.pieces import TooManyPieces
from rushlight.compiler.lazy.program import Backend, Program
from rushlight.compiler.lazy.session import Session
from rushlight.compiler.lazy.trie import Node
from rushlight.core import dispatch, dtypes
from rushlight.core.op import STACK, WATCHERS


class Break(NamedTuple):
    """Where operations that were put off had to run: why, at which line, and how many there were."""

    why: str
    line: str
    calls: int

    def __str__(self) -> str:
        return f"{self.calls} operations ran together {self.line}: {self.why}"


class Tier:
    """The trie of a function, and its programs."""

    def __init__(self, name: str, backend: Backend, options: dict) -> None:
        self.name, self.backend, self.options = name, backend, options
        self.roots: dict[Any, Node] = {}  # by default dtype
        self.breaks: dict[Node, Break] = {}
        self.compiled = 0
        self.known = True  # were all programs of the last call there already?
        self.lock = threading.RLock()

    def call(self, fn: Callable, args: tuple, kwargs: dict) -> Any:
        """Call a function with its operations put off."""
        if not possible():
            return fn(*args, **kwargs)
        session = Session(self._start, self._program, self._note)
        self.known = True
        with dispatch.putting_off(session):
            try:
                return fn(*args, **kwargs)
            finally:
                session.close()

    def _start(self) -> Node:
        return self.roots.setdefault(dtypes.get_default_dtype(), Node(None))

    def _note(self, node: Node, why: str) -> None:
        if node not in self.breaks:
            made = self.breaks[node] = Break(why, _line(), node.depth)
            _logs.log("breaks", f"{self.name}: {made}")

    def _program(self, node: Node, live: tuple[int, ...]) -> Program | None:
        """The program of calls that wait; None where they are to run one by one: the first time, and where there are
        too many programs already.
        """
        found = node.programs.get(live, 0)
        if type(found) is not int:
            return None if found is None or found.failed else found
        self.known = False
        with self.lock:
            node.programs[live] = found + 1
            if found < _config.LAZY_CALLS_BEFORE or self.compiled >= _config.LAZY_PROGRAMS:
                return None
            self.compiled += 1
            made = node.programs[live] = self._made(node, live)
        return made

    def _made(self, node: Node, live: tuple[int, ...]) -> Program | None:
        try:
            made = Program(node, live, self.backend, self.options)
        except TooManyPieces:
            return None
        except Exception as error:
            if _config.raise_internal_errors:
                raise
            _logs.log("breaks", f"{self.name}: the compiler failed: {type(error).__name__}: {error}")
            return None
        if _logs.wants("graph"):
            for graph in made.graphs:
                _logs.log("graph", f"{self.name}:\n{graph}")
        return made

    def forget(self) -> None:
        """Forget all that was put off before."""
        with self.lock:
            self.roots.clear()
            self.breaks.clear()
            self.compiled = 0


def possible() -> bool:
    """Can operations of this thread be put off now?"""
    modes = state.grad_modes()
    return not STACK.handlers and not WATCHERS and (modes.plain or not modes.enabled)


def _line() -> str:
    """The user's line that runs."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "rushlight":
        frame = frame.f_back  # type: ignore[assignment]
    return "" if frame is None else f"before {frame.f_code.co_filename}:{frame.f_lineno}"
