"""Integers that change from call to call: counters and the like.

A first capture fixes every integer that it looks at. When a guard later fails because of one, the next capture keeps
it open: sums, differences and products of open integers are written into the entry as expressions. Any other use looks
at the value after all, which fixes it again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from rushlight.compiler.capture.source import Source
from rushlight.compiler.capture.value import Obj, Value

_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


class Derived:
    """The source of an open integer: an expression over sources whose values are not fixed."""

    __slots__ = ("roots", "write", "wanted")

    step = "derived"

    def __init__(self, roots: tuple[Source, ...], write: Callable[[Callable[[Source], str]], str]) -> None:
        self.roots, self.write, self.wanted = roots, write, False

    def check_type(self) -> None:
        """It is an int; nothing to add."""

    def check_identity(self) -> None:
        """Identity says more than can stay open."""
        self.check()

    def check(self, *detail: Any) -> None:
        """Somebody looked at the value: fix all that it was computed from."""
        for root in self.roots:
            root.check("eq", int, root.example)


def opened(obj: int, source: Source) -> Obj:
    """An integer read through a source, left open."""
    source.check_type()
    source.wanted = True
    return Obj(obj, Derived((source,), lambda name: name(source)))  # type: ignore[arg-type]


def arithmetic(op: str, a: Value, b: Value) -> Obj | None:
    """The result of an operation on integers of which one is open; None when it is another case."""
    function = _OPERATORS.get(op)
    if function is None or not all(isinstance(x, Obj) and type(x.obj) is int for x in (a, b)):
        return None
    kinds = [type(x.source) is Derived for x in (a, b)]
    if not any(kinds):
        return None
    for x, open_ in zip((a, b), kinds):
        if not open_ and x.source is not None:
            x.source.check("eq", int, x.obj)
    roots = tuple(dict.fromkeys(r for x, open_ in zip((a, b), kinds) if open_ for r in x.source.roots))
    left, right = (x.source.write if open_ else _literal(x.obj) for x, open_ in zip((a, b), kinds))
    return Obj(function(a.obj, b.obj), Derived(roots, lambda name: f"({left(name)} {op} {right(name)})"))


def _literal(number: int) -> Callable[[Any], str]:
    return lambda name: repr(number)
