"""Random draws of a captured program.

A draw takes counters from the default generator. During a dry run the generator must not move, so `take` hands out
markers instead; the entry takes all counters at once, and makes each random tensor before the graph runs. Order and
values are those of eager execution.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.graph.symbolic import Sym
from rushlight.core.fork import Lock
from rushlight.core.generator import Generator, default_generator
from rushlight.core.op import Op

_one_capture = Lock()
_WORD = (1 << 64) - 1


class Seed(int):
    """Stands for the default generator's seed."""


class Offset(int):
    """Stands for the default generator's offset at the start of the call, plus this number: `at`, maybe a symbol."""

    at: Any

    def __new__(cls, at: Any) -> Offset:
        made = int.__new__(cls, at.hint if isinstance(at, Sym) else at)
        made.at = at
        return made


class Draw(NamedTuple):
    """A random op call: all its operands are numbers."""

    op: Op
    operands: tuple
    params: tuple


class Draws:
    """The draws of one capture; while it is entered, this thread's draws from the default generator are only noted."""

    def __init__(self) -> None:
        self.counters: Any = 0
        self._thread = 0

    def __enter__(self) -> Draws:
        _one_capture.__enter__()
        self._thread = threading.get_ident()
        default_generator.__dict__["take"] = self._take
        return self

    def __exit__(self, *exception: object) -> None:
        default_generator.__dict__.pop("take", None)
        _one_capture.__exit__()

    def _take(self, counters: Any) -> tuple[int, int]:
        if threading.get_ident() != self._thread:
            return Generator.take(default_generator, counters)
        at = self.counters
        self.counters = at + counters
        return Seed(0), Offset(at)


def draw_of(op: Op, operands: tuple, params: tuple) -> Draw:
    """The draw that a random op call makes; Abort when it is no plain draw from the default generator."""
    seed, offset, *others = operands
    if type(seed) is not Seed or type(offset) is not Offset or any(hasattr(x, "_meta") for x in others):
        raise Abort(f"the random op {op.name}")
    return Draw(op, operands, params)


def draw(item: Draw, seed: int, start: int) -> Any:
    """Make the random tensor of a draw, given where the generator stood."""
    return item.op.execute((seed, start + item.operands[1] & _WORD, *item.operands[2:]), item.params)


def give_back(seed: int, start: int) -> None:
    """Put the default generator back to where a failed call found it."""
    if default_generator.initial_seed() == seed:
        default_generator.set_offset(start)
