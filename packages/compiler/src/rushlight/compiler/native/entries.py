"""Entries whose guards become machine code after some calls.

An entry is Python first: writing a record takes about as long as a hundred calls of the guard gain by it. After
`_config.CALLS_BEFORE_NATIVE_GUARDS` calls that fit, the part of the entry that guards is replaced by one native call.
Where that cannot tell (a class has changed in a way that may not matter, say), Python's entry answers, and the record
is written anew after more calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from rushlight.compiler import _config
from rushlight.compiler.capture.guard_codegen import MISS
from rushlight.compiler.capture.source import Source, SourceTree
from rushlight.core import native

_MOST_FAILURES = 10


class Unsure:
    """What a native guard gives when Python has to answer."""


UNSURE = Unsure()


def _unsure(args: tuple, kwargs: dict) -> Unsure:
    return UNSURE


class Warming:
    """The calls of an entry until it is native, and whenever the native guard cannot tell.

    `lines` are those of the entry: from `start` to `stop` the guards, up to `found` those that find the program for the
    sizes that came, then the two that end their `try`.
    """

    def __init__(
        self, lines: list[str], start: int, stop: int, found: int, namespace: dict[str, Any],
        sources: dict[Source, str], tree: SourceTree, count: int, keywords: tuple[str, ...],
    ) -> None:
        self.head, self.until_tail, self.key, self.tail = lines[:start], lines[:stop], lines[stop:found], lines[found:]
        self.namespace, self.sources, self.tree = namespace, sources, tree
        self.count, self.keywords = count, keywords
        self.python: Callable[[tuple, dict], Any] = namespace["entry"]
        self.left, self.failures = _config.CALLS_BEFORE_NATIVE_GUARDS, 0
        self.entry: Any = None

    def attach(self, entry: Any) -> None:
        """Let an entry's calls be counted."""
        if native.possible() and self.left >= 0:
            self.entry, entry.run = entry, self.run

    def run(self, args: tuple, kwargs: dict) -> Any:
        """Answer a call in Python, and make the entry native when it is time."""
        if self.left <= 0 and self._holds(args, kwargs):
            self.entry.run = self._native(args, kwargs) or self.python
            return self.python(args, kwargs)
        result = self.python(args, kwargs)
        self.left -= result is not MISS  # what other entries answer says nothing of this one
        return result

    def again(self, args: tuple, kwargs: dict) -> Any:
        """Answer a call that the native guard could not tell of."""
        result = self.python(args, kwargs)
        if result is not MISS:
            self.failures += 1
            self.left = _config.CALLS_BEFORE_NATIVE_GUARDS << self.failures
            self.entry.run = self.run if self.failures < _MOST_FAILURES else self.python
        return result

    def _native(self, args: tuple, kwargs: dict) -> Callable | None:
        from rushlight.compiler.native.guard_records import native_guard  # it imports llvmlite

        made = native_guard(self.tree, self.count, self.keywords, list(self.sources), _unsure,
                            lambda: self._holds(args, kwargs))
        if made is None:
            return None
        guard, results = made
        names = [*self.sources.values()] + ["_"] * (results - len(self.sources))
        lines = [
            *self.head, "        found = guard(args, kwargs)", "        if found is MISS: return MISS",
            *([f"        if found is not UNSURE: {', '.join(names)}, = found"] if names else []), *self.tail[:2],
            "    if found is UNSURE: return again(args, kwargs)",
            *(["    try:", *self.key, *self.tail[:2]] if self.key else []), *self.tail[2:],
        ]  # fmt: skip
        return self._function(lines, guard=guard, UNSURE=UNSURE, again=self.again)

    def _holds(self, args: tuple, kwargs: dict) -> bool:
        """Does the Python guard pass?"""
        return self._check(args, kwargs) is True

    @cached_property
    def _check(self) -> Callable:
        return self._function([*self.until_tail, "    except Exception:", "        return MISS", "    return True"])

    def _function(self, lines: list[str], **more: Any) -> Callable:
        namespace = {**self.namespace, **more}
        exec(compile("\n".join(lines), "<compiled call>", "exec"), namespace)  # noqa: S102  our own text
        return namespace["entry"]
