"""Open sizes in files: symbols as text and back, and what is known of them as JSON."""

from __future__ import annotations

import ast
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rushlight.compiler.graph.facts import Atom, Facts, Fixed
from rushlight.compiler.graph.polynomials import Terms, added, multiplied
from rushlight.compiler.graph.symbolic import Sym

_RELATIONS = ("==", ">", ">=")
_STEPS = 10_000  # few lines of a file could ask for more than anybody waits for


def symbol_text(sym: Sym) -> str:
    """A symbol as a polynomial over the names of its atoms: `2*batch + 1`."""
    return terms_text(sym.facts, sym.terms)


def terms_text(facts: Facts, terms: Terms) -> str:
    """A polynomial over the names of atoms."""
    parts = []
    for monomial, factor in sorted(terms.items(), key=lambda item: (-len(item[0]), item[0])):
        names = [facts.atoms[number].name for number in monomial]
        parts.append("*".join(names if factor == 1 and names else [str(factor), *names]))
    return " + ".join(parts) or "0"


def reader(facts: Facts) -> Callable[[str], Any]:
    """The function from the text of a polynomial to a symbol or number. ValueError for other texts."""
    numbers = {atom.name: atom.number for atom in facts.atoms}

    def terms(node: ast.expr) -> Terms:
        match node:
            case ast.Constant(value=int() as value) if type(value) is int:
                return {(): value} if value else {}
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)) if type(value) is int:
                return {(): -value}
            case ast.Name(id=name) if name in numbers:
                return {(numbers[name],): 1}
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return added(terms(left), terms(right))
            case ast.BinOp(op=ast.Mult(), left=left, right=right):
                a, b = terms(left), terms(right)
                if len(a) <= 1 >= len(b):  # powers of sums would be long, and are not written
                    return multiplied(a, b)
        raise ValueError(f"no size: {ast.unparse(node)!r}")

    def read(source: str) -> Any:
        found = terms(ast.parse(source.strip(), mode="eval").body)
        same, facts._same = facts._same, {}  # as it is written, whatever was found to be equal
        try:
            return facts.sym(found)
        finally:
            facts._same = same

    return read


OPENING = threading.RLock()  # held while facts of a program are open: threads may share the program


@contextmanager
def reading(facts: Facts | None) -> Iterator[Callable[[str], Any]]:
    """While metadata is made of texts: gives what reads a size. Metadata asks how sizes compare (is it row-major?); the
    answers for the example do, and are forgotten, because calls use metadata for the sizes that come.
    """
    if facts is None:
        yield int
        return
    with OPENING:
        before, opened = dict(facts.guards), facts.open
        facts.open = True
        try:
            yield reader(facts)
        except Fixed as error:
            raise ValueError(f"the number of an open size is needed: {error}") from None
        finally:
            facts.guards, facts.open = before, opened


def facts_to_json(facts: Facts) -> dict[str, Any]:
    """What is known of the sizes, as JSON can hold it."""
    return {"atoms": [_atom(atom) for atom in facts.atoms],
            "guards": [[_terms(terms), relation, answer] for terms, relation, answer in facts.guards.values()]}


def _atom(atom: Atom) -> dict[str, Any]:
    made: dict[str, Any] = {"name": atom.name, "example": atom.hint}
    for name in ("least", "most", "low", "high"):
        value = getattr(atom, name)
        made[name] = None if math.isinf(value) else int(value)
    if atom.parts is not None:
        operator, a, b = atom.parts
        made["parts"] = [operator, _terms(a), _terms(b)]
    return made


def _terms(terms: Terms) -> list:
    return [[list(monomial), factor] for monomial, factor in terms.items()]


def facts_from_json(data: Any) -> Facts:
    """What is known of the sizes. ValueError for what says nothing sensible."""
    facts = Facts()
    facts.fractions = True
    steps: list[int] = []  # that it takes to compute each atom
    for i, given in enumerate(data["atoms"]):
        name, hint = given["name"], given["example"]
        if not (isinstance(name, str) and name.isidentifier() and type(hint) is int):
            raise ValueError(f"no size: {given!r}")
        low, high = _bound(given["least"], -math.inf), _bound(given["most"], math.inf)
        atom = Atom(i, name, hint, low, high, None if "parts" in given else ("size", i))
        atom.low, atom.high = _bound(given["low"], -math.inf), _bound(given["high"], math.inf)
        if "parts" in given:
            operator, a, b = given["parts"]
            if operator not in ("//", "%"):
                raise ValueError(f"no operator: {operator!r}")
            atom.parts = operator, _terms_from(a, i), _terms_from(b, i)  # of earlier ones alone: no circles
        steps.append(1 + sum([steps[n] for part in (atom.parts or ())[1:] for key in part for n in key]))
        if steps[-1] > _STEPS:
            raise ValueError(f"a size that takes more than {_STEPS} steps: {name}")
        facts.atoms.append(atom)
    if len({atom.name for atom in facts.atoms}) != len(facts.atoms):
        raise ValueError("two sizes have one name")
    for terms, relation, answer in data["guards"]:
        if relation not in _RELATIONS or type(answer) is not bool:
            raise ValueError(f"no comparison: {relation!r}")
        facts.assume(_terms_from(terms, len(facts.atoms)), relation, answer)
    facts.open = False
    return facts


def _bound(value: Any, otherwise: float) -> float:
    if value is not None and type(value) is not int:
        raise ValueError(f"no limit: {value!r}")
    return otherwise if value is None else value


def _terms_from(data: Any, known: int) -> Terms:
    made: Terms = {}
    for monomial, factor in data:
        key = tuple(monomial)
        if type(factor) is not int or not factor or not all(type(n) is int and 0 <= n < known for n in key):
            raise ValueError(f"no polynomial: {data!r}")
        made[key] = factor
    return made


def told(facts: Facts, terms: Terms, values: Mapping[int, int]) -> str:
    """A polynomial as text, the same for equal ones of several captures, with numbers in the place of some atoms."""
    parts: dict[tuple[str, ...], int] = {}
    for monomial, factor in terms.items():
        names = []
        for number in monomial:
            atom = facts.atoms[number]
            if number in values:
                factor *= values[number]
            elif atom.parts is None:
                names.append(atom.name)
            else:
                operator, a, b = atom.parts
                x, y = told(facts, a, values), told(facts, b, values)
                if x.lstrip("-").isdigit() and y.isdigit() and int(y):
                    factor *= int(x) // int(y) if operator == "//" else int(x) % int(y)
                else:
                    names.append(f"(({x}) {operator} ({y}))")
        key = tuple(sorted(names))
        parts[key] = parts.get(key, 0) + factor
    return " + ".join("*".join([str(c)] * (c != 1 or not key) + [*key]) for key, c in sorted(parts.items()) if c) or "0"
