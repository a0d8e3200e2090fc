"""Lazy replay of one function: what it has put off so far, and whether that pays."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight.compiler import _config, _failures, _logs
from rushlight.compiler.capture import state
from rushlight.compiler.lazy.pieces import TooManyPieces
from rushlight.compiler.lazy.program import Backend, Program
from rushlight.compiler.lazy.session import Session
from rushlight.compiler.lazy.trie import Node
from rushlight.core import dispatch, dtypes
from rushlight.core.fork import Lock
from rushlight.core.op import STACK, WATCHERS

EAGER_FIRST = 2  # calls that run eagerly before anything is tried: the first ones prepare many things
LEAST_TIME = 50e-6  # seconds that eager calls must take for others to be tried
TRIES = 3  # calls that are timed either way
LEAST_GAIN = 0.9  # how long lazy calls may take at most, relative to eager ones
MOST_IN_VAIN = 8  # lazy calls that may want programs which are not there yet: in all at first, in a row later
MOST_LIVE = 64  # different sets of results that are needed after one call
MOST_BREAKS = 512  # different ends of pieces that are remembered


class Break(NamedTuple):
    """Where operations that were put off had to run: why, at which line, and how many there were."""

    why: str
    line: str
    calls: int

    def __str__(self) -> str:
        return f"{self.calls} operations ran together {self.line}: {self.why}"


class Tier:
    """The trie of a function, its programs, and whether they are quicker than its operations one by one."""

    def __init__(self, name: str, backend: Backend, options: dict) -> None:
        self.name, self.backend, self.options = name, backend, options
        self.lock = Lock()
        self.forget()

    def forget(self) -> None:
        """Forget all that was put off before, and what it gained."""
        with self.lock:
            self.roots: dict[Any, Node] = {}  # by default dtype
            self.breaks: dict[Node, Break] = {}
            self.compiled = 0
            self.fresh = 0  # how often a program was wanted that was not there
            self.in_vain = 0  # calls that did
            self.quicker: bool | None = None  # than eager calls; None until that is known
            self.eager_times: list[float] = []
            self.times: list[float] = []  # of calls for which all programs were there

    def call(self, fn: Callable, args: tuple, kwargs: dict) -> Any:
        """Call a function with its operations put off."""
        if not possible():
            return fn(*args, **kwargs)
        return dispatch.putting_off(Session(self._start, self._program, self._note), fn, args, kwargs)

    def call_if_quicker(self, fn: Callable, args: tuple, kwargs: dict) -> Any:
        """Call a function either way. Both are tried in turn first, and the quicker one stays.

        How long operations take, and what programs make of them, is not to be said beforehand: small tensors gain
        nothing, as putting off an operation takes about 1.2 us and running some together 20; and where one value after
        the other is looked at, there is nothing to run together.
        """
        if self.quicker is False:
            return fn(*args, **kwargs)
        if self.quicker:
            return self._watched(fn, args, kwargs)
        lazily = len(self.eager_times) >= max(EAGER_FIRST, len(self.times) + 1)
        fresh, start = self.fresh, time.perf_counter()
        result = self.call(fn, args, kwargs) if lazily else fn(*args, **kwargs)
        took = time.perf_counter() - start
        if not lazily:
            self.eager_times.append(took)
        elif self.fresh == fresh:
            self.times.append(took)
        else:
            self.in_vain += 1
        self._decide()
        return result

    def _watched(self, fn: Callable, args: tuple, kwargs: dict) -> Any:
        """Call lazily, and no longer when ever new programs are wanted, as for ever new sizes."""
        fresh = self.fresh
        result = self.call(fn, args, kwargs)
        if self.fresh == fresh:
            self.in_vain = 0
        else:
            self.in_vain += 1
            self._give_up_in_vain()
        return result

    def _give_up_in_vain(self) -> None:
        if self.in_vain > MOST_IN_VAIN:
            self.quicker = False
            _logs.log("breaks", f"{self.name}: runs eagerly, as its operations do not come in a pattern")

    def told(self) -> list[str]:
        """What is known, in words."""
        if self.quicker is False:
            return []
        return list(map(str, self.breaks.values()))

    def _decide(self) -> None:
        if len(self.eager_times) >= EAGER_FIRST and min(self.eager_times) < LEAST_TIME:
            self.quicker = False
        elif len(self.times) < TRIES:
            self._give_up_in_vain()
        else:
            self.in_vain = 0
            lazy, eager = min(self.times), min(self.eager_times)
            self.quicker = lazy < LEAST_GAIN * eager
            _logs.log("breaks", f"{self.name}: runs {'lazily' if self.quicker else 'eagerly'}, as that takes "
                                f"{1e6 * min(lazy, eager):.0f} us instead of {1e6 * max(lazy, eager):.0f}")

    def _start(self) -> Node:
        default = dtypes.get_default_dtype()
        found = self.roots.get(default)
        return self.roots.setdefault(default, Node(None)) if found is None else found

    def _note(self, node: Node, why: str) -> None:
        if node not in self.breaks:
            if len(self.breaks) >= MOST_BREAKS:  # a program with ever new pieces starts over instead of growing
                self.roots.clear()
                self.breaks.clear()
            made = self.breaks[node] = Break(why, _line(), node.depth)
            _logs.log("breaks", f"{self.name}: {made}")

    def _program(self, node: Node, live: tuple[int, ...]) -> Program | None:
        """The program of calls that wait; None where they are to run one by one: the first time, and where there are
        too many programs already.
        """
        found = node.programs.get(live, 0)
        if type(found) is not int:
            return None if found is None or found.failed else found
        with self.lock:
            self.fresh += 1
            found = node.programs.get(live, 0)
            if type(found) is not int:
                return found
            if found or len(node.programs) < MOST_LIVE:
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
            _failures.report(f"{self.name}: operations that were put off could not be compiled", error)
            return None
        if _logs.wants("graph"):
            for graph in made.graphs:
                _logs.log("graph", f"{self.name}:\n{graph}")
        return made


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
