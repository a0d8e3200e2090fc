"""A compiled function: its captured variants, and what to do when none fits."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from rushlight.compiler import _config, _failures, _logs
from rushlight.compiler.backends.registry import BackendError
from rushlight.compiler.capture.capture import MISS, Abort, Entry, Reason, capture
from rushlight.compiler.capture.sizes import ConstraintViolationError, Policy
from rushlight.compiler.lazy.tier import Tier
from rushlight.core.dispatch import PUTTING_OFF, at_once
from rushlight.core.fork import Lock
from rushlight.core.recording import RECORDINGS, Site


class Compiled:
    """The state behind one compiled function."""

    def __init__(self, fn: Callable, backend: Callable, options: dict, fullgraph: bool, lazy: bool = False) -> None:
        self.fn, self.backend, self.options, self.fullgraph = fn, backend, options, fullgraph
        self.lazy = lazy  # is nothing to be captured whole?
        self.tier = Tier(self.name, backend, options)
        self.entries: list[Entry] = []
        self.aborts: list[str] = []
        self.recompiles: list[str] = []
        self.policy = Policy(options.get("dynamic"), fractions=True)
        self.captures = 0
        self.waiting = 0
        self.lengths: list[tuple[str, int] | None] = []  # see `_grows`
        self.grown = 0
        self.decides = True
        self.outcomes = 0  # decisions that came out in a way for which there is no variant, nor will be
        self.tried = threading.local()  # the paths that the calls of this thread are trying
        self.lock = Lock()

    @property
    def name(self) -> str:
        """The function's name, for messages."""
        return getattr(self.fn, "__qualname__", None) or type(self.fn).__name__

    def call(self, args: tuple, kwargs: dict) -> Any:
        """Answer a call that the first variant did not fit."""
        if PUTTING_OFF:  # a variant is quicker than operations that are put off
            with at_once():
                return self._answer(args, kwargs, self.entries)
        return self._answer(args, kwargs, self.entries[1:])

    def _answer(self, args: tuple, kwargs: dict, entries: list[Entry]) -> Any:
        if _config.stance.name == "force_eager" or _config.stance.disabled:
            return self.fn(*args, **kwargs)
        if self.lazy:
            return self.tier.call(self.fn, args, kwargs)
        for entry in entries:
            result = entry.run(args, kwargs)
            if result is not MISS:
                self._to_front(entry)
                return result
        return self._captured(args, kwargs)

    def branch(self, args: tuple, kwargs: dict, path: tuple) -> Any:
        """Answer a call in which a decision on data came out in another way than in the variant that was tried: `path`
        has the outcomes up to that one.

        Different programs may round differently, so that a decision comes out in two ways: then the call runs eagerly.
        """
        tried = self.tried.__dict__.setdefault("paths", [])
        if path in tried:
            return self.fn(*args, **kwargs)
        tried.append(path)
        try:
            for entry in self.entries:
                if entry.path[:len(path)] == path:
                    result = entry.run(args, kwargs)
                    if result is not MISS:
                        self._to_front(entry)
                        return result
            siblings = {entry.path[len(path) - 1] for entry in self.entries
                        if len(entry.path) >= len(path) and entry.path[:len(path) - 1] == path[:-1]}
            if len(siblings) >= _config.CHILD_LIMIT:
                self._count_outcome()
                return self.fn(*args, **kwargs)
            return self._captured(args, kwargs, "a decision on the value of a tensor comes out in another way")
        finally:
            tried.pop()

    def _count_outcome(self) -> None:
        """Give up paths whose decisions come out in ever new ways: trying one in vain costs more than it gains."""
        self.outcomes += 1
        if self.outcomes >= _config.OUTCOME_LIMIT:
            self.decides = False
            self.entries = [entry for entry in self.entries if not entry.path]
            self.aborts.append(f"decisions on the values of tensors come out in more than {_config.CHILD_LIMIT} ways")

    def _captured(self, args: tuple, kwargs: dict, reason: str | None = None) -> Any:
        entry = self._new_entry(args, kwargs, reason)
        if entry is None:
            if _config.LAZY and _config.stance.name == "default":
                return self.tier.call_if_quicker(self.fn, args, kwargs)
            return self.fn(*args, **kwargs)
        result = entry.run(args, kwargs)
        return self.fn(*args, **kwargs) if result is MISS else result

    def _to_front(self, entry: Entry) -> None:
        with self.lock:
            self.entries = [entry, *[e for e in self.entries if e is not entry]]

    def _new_entry(self, args: tuple, kwargs: dict, reason: str | None = None) -> Entry | None:
        """Capture this call; None when it has to run eagerly."""
        if self.waiting:
            self.waiting -= 1
            return None
        if self.entries and _config.stance.name == "eager_on_recompile":
            return None
        reasons = [Reason(reason)] if reason else [entry.why(args, kwargs) for entry in self.entries]
        if self.entries and _config.stance.name == "fail_on_recompile":
            raise RuntimeError(f"{self.name} would be compiled again under the stance fail_on_recompile: "
                               f"{reasons[0].text}")
        paths = sum(bool(entry.path) for entry in self.entries)
        if len(self.entries) - paths >= _config.ENTRY_LIMIT or paths >= _config.PATH_LIMIT:
            self.waiting = _config.RETRY_AFTER[-1]
            _logs.log("recompiles", f"{self.name}: {len(self.entries)} variants, calls that fit none run eagerly; the "
                                    f"last one failed because {reasons[0].text}")
            return None
        if reasons and self._grows(reasons[0]):
            return None
        with self.lock:
            if reasons:
                self.recompiles.append(reasons[0].text)
                _logs.log("recompiles", f"{self.name}: {reasons[0].text}")
            return self._capture(args, kwargs)

    def _grows(self, reason: Reason) -> bool:
        """Was a container longer by as much in each of the last calls, so that the next variant would fit none either?
        Then it is tried again after some calls: the container may have come to its end.
        """
        last = self.lengths = [*self.lengths[-2:], reason.length]
        if len(last) < 3 or any(x is None for x in last) or len({x[0] for x in last}) > 1:  # type: ignore[index]
            return False
        first, second, third = [x[1] for x in last]  # type: ignore[index]
        if not first < second or second - first != third - second:
            return False
        self.lengths = []
        self.grown += 1
        self.waiting = _config.RETRY_AFTER[min(1 + self.grown, len(_config.RETRY_AFTER) - 1)]
        _logs.log("recompiles", f"{self.name}: {reason.text}, and so it was in the calls before; the next "
                                f"{self.waiting} that fit no variant run eagerly")
        return True

    def _capture(self, args: tuple, kwargs: dict) -> Entry | None:
        try:
            entry = capture(self.fn, args, kwargs, self.backend, self.options, self.run_eagerly, self.policy,
                            self.branch if self.decides and not self.fullgraph else None)
        except (BackendError, ConstraintViolationError):
            raise
        except Exception as error:
            if _config.raise_internal_errors or self.fullgraph:
                raise
            self._give_up(f"the compiler failed: {type(error).__name__}: {error}")
            _failures.report(f"{self.name} could not be compiled", error)
            return None
        except Abort as abort:
            if self.fullgraph:
                raise RuntimeError(f"compile(fullgraph=True): {self.name} cannot be captured whole: {abort}. Leave "
                                   "fullgraph away to let calls like this run eagerly") from None
            self._give_up(str(abort))
            _logs.log("aborts", f"{self.name}: {abort}")
            return None
        self.captures += 1
        self.entries = [entry, *self.entries]
        if _logs.wants("guards"):
            _logs.log("guards", f"{self.name}:\n{entry.source}")
        if _logs.wants("graph"):
            _logs.log("graph", f"{self.name}:\n{entry.graph}")
        return entry

    def _give_up(self, reason: str) -> None:
        """Remember why a call was not captured, and leave the next calls alone for a while."""
        self.waiting = _config.RETRY_AFTER[min(len(self.aborts), len(_config.RETRY_AFTER) - 1)]
        self.aborts.append(reason)

    def run_eagerly(self, args: tuple, kwargs: dict) -> Any:
        """The original call, which is right whatever happened before it."""
        return self.fn(*args, **kwargs)

    def reset(self) -> None:
        """Forget all variants."""
        self.tier.forget()
        with self.lock:
            self.entries, self.aborts, self.recompiles = [], [], []
            self.policy = Policy(self.options.get("dynamic"), fractions=True)
            self.waiting = self.outcomes = self.grown = 0
            self.lengths = []
            self.decides = True


def original_of(fn: Any) -> Any:
    """The function behind a compiled one; anything else as it is."""
    return fn.__dict__.get("_rushlight_original", fn) if type(fn) is FunctionType else fn


def wrapper(state: Compiled) -> Callable:
    """The function that users call."""
    fn = state.fn
    compiled: Any = _answering(state, _answering(state, None))
    if hasattr(fn, "__name__"):
        functools.update_wrapper(compiled, fn)
    compiled._rushlight_original = fn
    compiled._rushlight_state = state
    return compiled


def _answering(state: Compiled, unwatched: Callable | None) -> Callable:
    """The function that answers calls. While a profiler records it calls `unwatched`, the same without that question,
    as one event: a profiler cannot look into a native program.
    """
    stance = _config.stance

    def compiled(*args: Any, **kwargs: Any) -> Any:
        if RECORDINGS and unwatched is not None:
            return _recorded(state.name, functools.partial(unwatched, *args, **kwargs))
        entries = state.entries
        if entries and stance.name != "force_eager" and not stance.disabled:
            result = entries[0].run(args, kwargs)
            if result is not MISS:
                return result
        return state.call(args, kwargs)

    return compiled


def _recorded(name: str, call: Callable) -> Any:
    recording = next(iter(RECORDINGS), None)  # it may have ended, on another thread, since somebody looked
    return call() if recording is None else recording.call(Site(f"compiled {name}", "op"), call)
