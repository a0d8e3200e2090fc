"""Recording which ops run, when, and what memory they take: the ground that `rushlight.profiler` stands on.

Nothing is recorded by calls that ask whether they should: `Recording.start` puts a wrapper around every plan,
and `stop` takes the wrappers away again. So an op costs nothing more while nobody records, and about 0.5 us more while
somebody does; what is fast because plans are remembered, or runs as a compiled program, stays so.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from threading import get_ident
from time import perf_counter_ns
from types import CodeType, NoneType
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from rushlight.core import op as ops
from rushlight.core.memo import MEMOS
from rushlight.core.meta import Meta, of_number
from rushlight.core.op import Op
from rushlight.core.tensor import Tensor

RECORDINGS: list[Recording] = []  # the one that runs, or none
_starting = threading.Lock()
_MOST_FRAMES = 64

Frames = tuple[tuple[CodeType, int], ...]


class Site(NamedTuple):
    """What all calls of a plan, or of a named range, have in common. `kind` is "op", "backward" or "user"."""

    name: str
    kind: str
    metas: tuple[Meta | None, ...] = ()
    params: tuple = ()


class Call(NamedTuple):
    """Something that ran from `start` to `end` (nanoseconds of `perf_counter_ns`) on a thread, called from `stack`."""

    site: Site
    start: int
    end: int
    thread: int
    stack: Frames | None


class Memory(NamedTuple):
    """`nbytes` of results taken at a time, or given back when negative."""

    time: int
    nbytes: int
    thread: int


class _Alive(ref):
    """A reference to the array that owns the memory of a recorded result."""

    __slots__ = ("key", "nbytes")


class Recording:
    """Notes op calls of all threads between `start` and `stop`.

    With `memory` also the bytes of new results and when they are freed, with `stacks` the Python lines that called.
    Only one recording runs at a time.
    """

    # Notes lie flat in lists, one field after the other: a million small objects would keep the garbage collector busy.

    def __init__(self, memory: bool = False, stacks: bool = False) -> None:
        self.watches_memory, self.takes_stacks = memory, stacks
        self._calls: list[Any] = []
        self._memory: list[int] = []
        self._alive: dict[int, _Alive] = {}
        self._running: list[bool] = []  # empty unless it records: a plan that another thread holds may still be called

    def start(self) -> None:
        """Begin to record; RuntimeError when another recording runs."""
        with _starting:
            if RECORDINGS:
                raise RuntimeError("profile: another profile is recording already; stop it first")
            RECORDINGS.append(self)
        self._running.append(True)
        ops.WATCHERS.append(self._wrapped)
        for op in _all_ops():
            for key, plan in list(op.plans.items()):
                if not hasattr(plan, "watched"):  # else another thread has made it just now
                    op.plans[key] = self._wrapped(op, key, plan)
        _forget()

    def stop(self) -> None:
        """Record no more."""
        ops.WATCHERS.remove(self._wrapped)
        self._running.clear()
        for op in _all_ops():
            for key, plan in list(op.plans.items()):
                op.plans[key] = getattr(plan, "watched", plan)
        _forget()
        RECORDINGS.remove(self)

    def calls(self) -> list[Call]:
        """What was recorded so far, in the order in which it ended."""
        return _records(Call, self._calls)

    def memory(self) -> list[Memory]:
        """The memory taken and given back so far."""
        return _records(Memory, self._memory)

    def note(self, site: Site, start: int, end: int, thread: int) -> None:
        """Enter a range that somebody else has timed."""
        self._calls += (site, start, end, thread, _frames() if self.takes_stacks else None)

    def call(self, site: Site, function: Callable, *args: Any) -> Any:
        """Call a function as a recorded range."""
        stack = _frames() if self.takes_stacks else None
        start = perf_counter_ns()
        try:
            return function(*args)
        finally:
            if self._running:
                self._calls += (site, start, perf_counter_ns(), get_ident(), stack)

    def _wrapped(self, op: Op, key: tuple, plan: Callable) -> Callable:
        """A plan that notes its calls. `key` is the one under which the op keeps it, which begins with the operands."""
        count = len(key) - len(op.params)
        metas = tuple([_meta(entry) for entry in key[:count]])
        site = Site(op.name, "op", metas, key[count:])
        run = plan
        if self.watches_memory and op.kind != "view" and not op.mutates:
            run = self._accounting(plan)
        watched = partial(self.call, site, run) if self.takes_stacks else self._timed(site, run)
        watched.watched = plan  # type: ignore[attr-defined]
        return watched

    def _timed(self, site: Site, run: Callable) -> Callable:
        """What `call` does, in the form whose cost distorts least what is measured."""
        note, clock, thread, running = self._calls.extend, perf_counter_ns, get_ident, self._running

        def timed(*operands: Any) -> Any:
            start = clock()
            try:
                return run(*operands)
            finally:
                if running:
                    note((site, start, clock(), thread(), None))

        return timed

    def _accounting(self, plan: Callable) -> Callable:
        """A plan that notes the memory of its results."""
        note, clock, thread, running = self._memory.extend, perf_counter_ns, get_ident, self._running
        alive = self._alive

        def gone(dead: _Alive) -> None:
            del alive[dead.key]
            if running:
                note((clock(), -dead.nbytes, thread()))

        def take(x: Tensor, operands: tuple) -> None:
            array = x._array if x._array.base is None else owner(x)
            key = id(array)
            if key in alive:
                return
            for y in operands:
                if isinstance(y, Tensor) and (y._array is array or owner(y) is array):
                    return
            nbytes = x.nbytes
            entry = alive[key] = _Alive(array, gone)
            entry.key, entry.nbytes = key, nbytes
            note((clock(), nbytes, thread()))

        def accounting(*operands: Any) -> Any:
            result = plan(*operands)
            if not running:
                return result
            for x in result if isinstance(result, tuple) else (result,):
                if isinstance(x, Tensor) and x._array is not None:
                    take(x, operands)
            return result

        return accounting


def _records(kind: Any, notes: list) -> list:
    """The named tuples of which the fields lie in a list, one after the other."""
    fields = iter(notes)
    return list(map(kind, *[fields] * len(kind._fields)))


def _meta(entry: Any) -> Meta | None:
    """The metadata behind an entry of a plan's key: itself, or the type of a number or of None."""
    return entry if isinstance(entry, Meta) else None if entry is NoneType else of_number(entry)


def owner(x: Tensor) -> np.ndarray:
    """The array that lives as long as the memory of a tensor, all its views included."""
    array = x._array
    while type(array.base) is np.ndarray:
        array = array.base
    return array


def _all_ops() -> Iterator[Op]:
    yield from list(ops.REGISTRY.values())
    yield from list(ops.INPLACE.values())


def _forget() -> None:
    """Let public functions forget the plans that they remember: with wrapper, or without."""
    for memo in MEMOS:
        memo.clear()


def _frames() -> Frames:
    """The Python code that is running, innermost first, and the line each part is at."""
    found = []
    frame: Any = sys._getframe(2)
    while frame is not None and len(found) < _MOST_FRAMES:
        found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)
