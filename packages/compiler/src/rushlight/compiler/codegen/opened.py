"""What of a program depends on sizes that are not known yet, and is made when they come.

A program of a graph with symbols is the same for all sizes for which the questions asked while it was made have the
same answers. What differs are numbers: sizes, strides, counts, the places of values in memory, metadata. They stand in
the program as symbols, or as `Open` where something is made from concrete metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from rushlight.compiler.graph.symbolic import SYMBOLS, has_symbols
from rushlight.compiler.graph.values import Values
from rushlight.compiler.native import programs
from rushlight.core.meta import Meta
from rushlight.kernels.layout import OpenWords


class Open(NamedTuple):
    """An object that is made for the sizes that come."""

    make: Callable[[Values], Any]


def extent_of(m: Meta) -> Any:
    """How many elements lie between the first and the last of a tensor that has some, these included."""
    return 1 + sum([(n - 1) * stride for n, stride in zip(m.shape, m.strides)])


def is_open(x: Any) -> bool:
    """Does an object depend on open sizes?"""
    kind = type(x)
    if kind is Meta:
        return has_symbols(x.shape) or has_symbols(x.strides)
    return kind is Open or kind is OpenWords or kind in SYMBOLS or kind is tuple and has_symbols(x)


def settled(x: Any, values: Values) -> Any:
    """An open object for some sizes."""
    kind = type(x)
    if kind is Open:
        return x.make(values)
    if kind is Meta:
        return values.meta(x)
    if kind is OpenWords:
        return np.array([values.value(n) for n in x], np.int64)
    return values.params(x)


class OpenRecord:
    """The record of a native part, some of whose words are open."""

    def __init__(self, words: list[Any]) -> None:
        self.words, self.held = [], []
        numbers: list[Any] = []  # those of all arrays of words, one after the other
        self._single: list[tuple[int, Any]] = []
        self._arrays: list[tuple[int, int]] = []
        for place, x in enumerate(words):
            if not is_open(x):
                self.words.append(programs.word(x, self.held))
                continue
            self.words.append(0)
            if type(x) is OpenWords:
                self._arrays.append((place, 8 * len(numbers)))
                numbers += x
            else:
                self._single.append((place, x))
        self._open = [i for i, n in enumerate(numbers) if is_open(n)]
        self._symbols = [numbers[i] for i in self._open]
        self._numbers = np.array([0 if is_open(n) else n for n in numbers], np.int64)

    def at(self, values: Values, python: Callable) -> Callable:
        """The builtin for some sizes."""
        words, held = [*self.words], [*self.held]
        array = self._numbers.copy()
        array[self._open] = [*map(values.value, self._symbols)]
        first = programs.word(array, held)
        for place, offset in self._arrays:
            words[place] = first + offset
        for place, x in self._single:
            words[place] = programs.word(settled(x, values), held)
        return programs.function(python, words, held)


class OpenPart(NamedTuple):
    """A native part in the namespace of a program; `text` is the Python function that does the same."""

    name: str
    text: str
    record: OpenRecord


def namespace_at(
    namespace: dict[str, Any], opened: dict[str, Any], values: Values, used: Container[str]
) -> dict[str, Any]:
    """A program's namespace for some sizes. Names that only the text of parts uses wait until that is called."""
    made = {**namespace}
    waiting = {name: x for name, x in opened.items() if name not in used}

    def complete() -> None:
        made.update({name: settled(x, values) for name, x in waiting.items()})

    for name in opened.keys() - waiting.keys():
        x = opened[name]
        if isinstance(x, OpenPart):
            made[name] = x.record.at(values, when_called(x.name, x.text, made, complete))
        else:
            made[name] = settled(x, values)
    return made


def when_called(
    name: str, text: str, namespace: dict[str, Any], complete: Callable[[], None] = lambda: None
) -> Callable[..., Any]:
    """A function of a text that is compiled when first called, which takes longer than most else of making a part; then
    the namespace is made complete, too.
    """

    @cache
    def function() -> Callable[..., Any]:
        complete()
        own: dict[str, Any] = {}
        exec(compile(text, "<rushlight program>", "exec"), namespace, own)  # noqa: S102  our own text
        return own[name]

    return lambda *arrays: function()(*arrays)
