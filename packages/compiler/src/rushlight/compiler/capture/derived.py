"""The source of a number that stays open: an expression over inputs of the call, see `symbolic` and `sizes`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import ref

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.source import Source
from rushlight.compiler.graph.facts import Atom
from rushlight.compiler.graph.symbolic import Sym, SymFloat

Name = Callable[[Source], str]


class Derived:
    """An expression over sources whose values are not fixed. Whole numbers are symbols; `sym` is None for floats, of
    which `fraction` is one that graphs can hold, where it is computed from sizes alone. One that `fails` raises for
    some numbers, and a `mere` one is a number as it was found.
    """

    __slots__ = ("roots", "write", "sym", "wanted", "fraction", "fails", "mere")

    step = "derived"

    def __init__(self, roots: tuple[Source | Sym, ...], write: Callable[[Name], str], sym: Sym | None = None,
                 fraction: SymFloat | None = None, fails: bool = False, mere: bool = False) -> None:
        self.roots, self.write, self.sym, self.wanted, self.fraction = roots, write, sym, False, fraction
        self.fails, self.mere = fails, mere

    def check_type(self) -> None:
        """It is checked already."""

    def check_identity(self) -> None:
        """Identity says more than can stay open."""
        self.check()

    def check(self, kind: str = "", *detail: Any) -> None:
        """Somebody looked at the value: fix all that it was computed from."""
        if kind == "not":  # a number is never None, or another object that is there once
            return
        for root in self.roots:
            fix(root)


class Asked(NamedTuple):
    """What a program wanted to know of an expression over numbers that stay open, and what it found."""

    roots: tuple[Source | Sym, ...]
    write: Callable[[Name], str]
    value: Any

    def condition(self, name: Name) -> str:
        """What a call must agree with, as Python source."""
        found = self.write(name)
        return f"({found}) is {self.value}" if type(self.value) is bool else f"repr({found}) == {repr(self.value)!r}"


def fix(root: Source | Sym) -> None:
    """Make a number count by its value."""
    if isinstance(root, Sym):
        root.facts.need(root.terms, "its value counts")
        return
    number = root.example
    if number != number:
        raise Abort("control over a NaN")
    root.check("eq", type(number), repr(number) if type(number) is float else number)


def derived(sym: Sym) -> Derived:
    """The source of a whole number that a symbol stands for."""
    return Derived((sym,), lambda name: expression(sym, name), sym)


def expression(sym: Sym, name: Name) -> str:
    """A symbol as Python source over the inputs of the call."""
    return f"({sym.facts.text(sym.terms, lambda atom: place(atom, name))})"


def came_from(source: Source, dim: int | None) -> tuple[ref[Source], int | None]:
    """The origin of an atom: the source of a number, or of a tensor and a dimension.

    Symbols live on in caches of functions of shapes, which must not keep what a program was captured from.
    """
    return ref(source), dim


def source_of(atom: Atom) -> Source:
    """The source of the number or tensor that the value of an atom comes from."""
    source: Source = atom.origin[0]()
    return source


def place(atom: Atom, name: Name) -> str:
    """Where the value of an atom is found."""
    found, dim = name(source_of(atom)), atom.origin[1]
    return found if dim is None else f"{found}._meta.shape[{dim}]"
