"""What is known of the sizes of one capture, and what a call must agree with.

See `rushlight.compiler.graph.symbolic`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from rushlight.compiler.graph.polynomials import Terms, added, divided, multiplied
from rushlight.compiler.graph.symbolic import Sym


class Fixed(BaseException):
    """Somebody asked for the number behind a symbol: its atoms must be plain numbers.

    A BaseException, so that no `except Exception` in user or framework code swallows it.
    """

    def __init__(self, atoms: frozenset[Atom], reason: str) -> None:
        super().__init__(reason)
        self.atoms, self.reason = atoms, reason


class Undecided(RuntimeError):
    """A comparison of symbols after their capture, to which there is no answer for all values."""


class Atom:
    """A size or number of its own; `hint` is its value in the call that is captured.

    It lies between `least` and `most`, and between `low` and `high` where all guards hold.

    `origin` says where the value comes from: whatever the maker of the atom wants. An atom that is the quotient or
    remainder of two polynomials has none, but `parts`: `(operator, terms, terms)`.
    """

    __slots__ = ("number", "name", "hint", "least", "most", "low", "high", "origin", "parts")

    def __init__(self, number: int, name: str, hint: int, low: float, high: float, origin: Any = None,
                 parts: tuple[str, Terms, Terms] | None = None) -> None:
        self.number, self.name, self.hint = number, name, hint
        self.least, self.most = self.low, self.high = low, high
        self.origin, self.parts = origin, parts

    def __repr__(self) -> str:
        return self.name


class Facts:
    """The atoms of one capture and what is known of them; `guards` are the answers that hold for some values only.

    A guard is `(terms, relation, answer)`: it says whether `terms relation 0`, with `==`, `>` or `>=`. It is looked at
    when the captured program is about to be used for other values, see `holds`.
    """

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self.guards: dict[tuple, tuple[Terms, str, bool]] = {}
        self.settled: dict[tuple, tuple[Terms, str, bool]] = {}  # guards that hold whenever these facts are used
        self.open = True  # does the capture go on?
        self.fractions = False  # may floats be computed from sizes? See `SymFloat`
        self.learnt: dict[Atom, str] | None = None  # where captures note atoms that must be numbers, and why
        self._symbols: dict[frozenset, Sym] = {}
        self._parts: dict[tuple, Atom] = {}
        self._same: dict[int, int] = {}  # atoms that are guarded to be equal to an earlier one

    def atom(self, name: str, hint: int, origin: Any, low: float = -math.inf, high: float = math.inf) -> Sym:
        """A new atom, as a symbol."""
        self.atoms.append(Atom(len(self.atoms), name, hint, low, high, origin))
        found: Any = self.sym({(len(self.atoms) - 1,): 1})
        return found

    def sym(self, terms: Terms) -> Any:
        """The symbol of a polynomial; a plain int when it is a constant."""
        if self._same:
            terms = self._merged(terms)
        if not terms:
            return 0
        if len(terms) == 1 and () in terms:
            return terms[()]
        key = frozenset(terms.items())
        found = self._symbols.get(key)
        if found is None:
            found = self._symbols[key] = object.__new__(Sym)
            found.facts, found.terms, found.hint = self, terms, self.evaluate(terms)
        return found

    def terms_of(self, x: Any) -> Terms | None:
        """The polynomial of a symbol or an int; None for anything else."""
        if type(x) is Sym:
            return x.terms if x.facts is self else None
        if isinstance(x, int):
            return {(): int(x)} if x else {}
        return None

    def _merged(self, terms: Terms) -> Terms:
        made: Terms = {}
        for monomial, factor in terms.items():
            monomial = tuple(sorted([self._same.get(a, a) for a in monomial]))
            made[monomial] = made.get(monomial, 0) + factor
        return {m: c for m, c in made.items() if c}

    # division

    def divide(self, a: Terms, b: Terms) -> tuple[Any, Any]:
        """Quotient and remainder, rounded down as Python does."""
        if not self.evaluate(b) or self.decide(b, "=="):
            raise ZeroDivisionError("integer division or modulo by zero")
        quotient, rest = divided(a, b)
        if not rest:
            return self.sym(quotient), 0
        if set(rest) == {()} and set(b) == {()}:
            whole, left = divmod(rest[()], b[()])
            return self.sym(added(quotient, {(): whole} if whole else {})), left
        if self.known(rest, ">=") and self.known(added(b, rest, -1), ">"):  # 0 <= rest < b
            return self.sym(quotient), self.sym(rest)
        if self.known(rest, ">=") is False and self.known(added(b, rest), ">="):  # -b <= rest < 0
            return self.sym(quotient) - 1, self.sym(added(b, rest))
        return (self.sym(quotient) + self._part("//", rest, b)), self._part("%", rest, b)

    def _part(self, operator: str, a: Terms, b: Terms) -> Any:
        key = operator, frozenset(a.items()), frozenset(b.items())
        found = self._parts.get(key)
        if found is None:
            x, y = self.evaluate(a), self.evaluate(b)
            low, high = -math.inf, math.inf
            if self.known(b, ">"):
                least, most = self.range(b)
                low, high = (0, most - 1) if operator == "%" else _quotients(self.range(a), least, most)
            hint = x // y if operator == "//" else x % y
            found = Atom(len(self.atoms), f"a{len(self.atoms)}", hint, low, high, None, (operator, a, b))
            self._parts[key] = found
            self.atoms.append(found)
        return self.sym({(found.number,): 1})

    # questions

    def decide(self, terms: Terms, relation: str) -> bool:
        """Is `terms relation 0`? The answer becomes a guard where it does not hold for all values."""
        if self._same:
            terms = self._merged(terms)
        answer = self.known(terms, relation)
        if answer is not None:
            return answer
        key = _key(terms, relation)
        found = self.guards.get(key) or self.settled.get(key)
        if found is not None:
            return found[2]
        if not self.open:
            raise Undecided(f"whether {self.text(terms)} {relation} 0 was not asked when the program was captured")
        value = self.evaluate(terms)
        if relation == "==" and value:  # at an end of its range, to differ is to be larger or smaller
            if self.known(terms, ">="):
                return not self.decide(terms, ">")
            if self.known(terms, ">") is False:
                return not self.decide(added({}, terms, -1), ">")
        answer = value == 0 if relation == "==" else value > 0 if relation == ">" else value >= 0
        if answer and relation == "==":
            self._equal(terms)
        self.guards[key] = (terms, relation, answer)
        self._narrow(terms, relation, answer)
        return answer

    def reopened(self, values: Mapping[int, int]) -> Facts:
        """Facts that can be asked more, for a program that is made of a captured one: atoms have these values now, by
        number. What holds here holds there; answers to new questions become guards there.
        """
        made = Facts()
        made.fractions, made.settled = self.fractions, {**self.settled, **self.guards}
        values = {atom.number: atom.hint for atom in self.atoms if atom.parts is None} | dict(values)
        for atom in self.atoms:
            hint = self._value(atom, values)
            copy = Atom(atom.number, atom.name, hint, atom.low, atom.high, atom.origin, atom.parts)
            copy.least, copy.most = atom.least, atom.most
            made.atoms.append(copy)
        made._parts = {key: made.atoms[atom.number] for key, atom in self._parts.items()}
        made._same = dict(self._same)
        return made

    def assume(self, terms: Terms, relation: str, answer: bool) -> None:
        """Enter the answer to a question as a guard."""
        self.guards[_key(terms, relation)] = terms, relation, answer

    def known(self, terms: Terms, relation: str) -> bool | None:
        """The answer where the ranges of the atoms give it."""
        low, high = self.range(terms)
        if relation == ">":
            return True if low > 0 else False if high <= 0 else None
        if relation == ">=":
            return True if low >= 0 else False if high < 0 else None
        return True if low == high == 0 else False if low > 0 or high < 0 else None

    def range(self, terms: Terms) -> tuple[float, float]:
        """Bounds of a polynomial."""
        if not terms:
            return 0, 0
        if len(terms) == 1 and () in terms:
            return terms[()], terms[()]
        low: float = 0
        high: float = 0
        for monomial, factor in terms.items():
            bounds: tuple[float, float] = (factor, factor)
            for number in monomial:
                bounds = _product(bounds, (self.atoms[number].low, self.atoms[number].high))
            low, high = low + bounds[0], high + bounds[1]
        shifted = self._from_lowest(terms)
        if shifted is not None:  # every atom as its lowest value and what it has above that, which is not negative
            constant = shifted.pop((), 0)
            if all(c > 0 for c in shifted.values()):
                low = max(low, constant)
            if all(c < 0 for c in shifted.values()):
                high = min(high, constant)
        return low, high

    def _from_lowest(self, terms: Terms) -> Terms | None:
        if any(self.atoms[a].low == -math.inf for monomial in terms for a in monomial):
            return None
        result: Terms = {}
        for monomial, factor in terms.items():
            product: Terms = {(): factor}
            for number in monomial:
                low = int(self.atoms[number].low)
                product = multiplied(product, {(number,): 1, (): low} if low else {(number,): 1})
            result = added(result, product)
        return result

    def _equal(self, terms: Terms) -> None:
        """Use that a polynomial is 0: an atom that only one number fits is one; of two equal atoms the first serves."""
        names = {a for monomial in terms for a in monomial}
        if len(names) == 1:
            atom = self.atoms[next(iter(names))]
            if atom.parts is None:
                self.need(terms, f"it must be {atom.hint}")
            atom.low = atom.high = atom.hint
        if len(terms) == 2 and all(len(m) == 1 for m in terms) and sorted(terms.values()) == [-1, 1]:
            first, second = sorted(names)
            a, b = self.atoms[first], self.atoms[second]
            a.low, a.high = max(a.low, b.low), min(a.high, b.high)
            self._same = {k: first if v == second else v for k, v in self._same.items()} | {second: first}

    def _narrow(self, terms: Terms, relation: str, answer: bool) -> None:
        """Use a comparison of one atom with a number for its range."""
        names = [m for m in terms if m]
        if relation == "==" or len(names) != 1 or len(names[0]) != 1:
            return
        atom, factor, rest = self.atoms[names[0][0]], terms[names[0]], terms.get((), 0)
        if not answer:  # not (factor * atom + rest > 0)  is  -factor * atom - rest >= 0
            factor, rest, relation = -factor, -rest, ">=" if relation == ">" else ">"
        if relation == ">":
            rest -= 1
        if factor > 0:
            atom.low = max(atom.low, -(rest // factor))
        else:
            atom.high = min(atom.high, rest // -factor)

    def need(self, terms: Terms, why: str) -> None:
        """The number behind a polynomial is needed. A capture that notes such goes on with it, to learn of others too,
        and then starts again.
        """
        if not self.open or self.learnt is None:
            self.fix(terms, why)
        for atom in self.roots(terms):
            self.learnt.setdefault(atom, why)

    def fix(self, terms: Terms, why: str) -> NoReturn:
        """End the capture: the number behind a polynomial is needed."""
        if not self.open:
            raise Undecided(f"the number of {self.text(terms)} is not known before the program runs")
        raise Fixed(self.roots(terms), why)

    def roots(self, terms: Terms) -> frozenset[Atom]:
        """The atoms with an origin that a polynomial is computed from."""
        found: set[Atom] = set()
        pending = [self.atoms[a] for monomial in terms for a in monomial]
        while pending:
            atom = pending.pop()
            if atom.parts is None:
                found.add(atom)
            else:
                pending += [self.atoms[a] for part in atom.parts[1:] for monomial in part for a in monomial]
        return frozenset(found)

    # values

    def evaluate(self, terms: Terms, values: Mapping[int, int] | None = None) -> int:
        """The value of a polynomial for values of the atoms that have an origin, by number; of the hints without."""
        total = 0
        for monomial, product in terms.items():
            for number in monomial:
                product *= self._value(self.atoms[number], values)
            total += product
        return total

    def _value(self, atom: Atom, values: Mapping[int, int] | None) -> int:
        if values is None:
            return atom.hint
        if atom.parts is None:
            return values[atom.number]
        operator, a, b = atom.parts
        x, y = self.evaluate(a, values), self.evaluate(b, values)
        return x // y if operator == "//" else x % y

    def holds(self, values: Mapping[int, int]) -> bool:
        """Do these values lie in the ranges of the atoms, and do all guards hold for them?"""
        inside = all(self.atoms[number].least <= value <= self.atoms[number].most for number, value in values.items())
        return inside and all(self.agrees(guard, values) for guard in self.guards.values())

    def agrees(self, guard: tuple[Terms, str, bool], values: Mapping[int, int]) -> bool:
        """Does a guard hold?"""
        terms, relation, answer = guard
        value = self.evaluate(terms, values)
        return (value == 0 if relation == "==" else value > 0 if relation == ">" else value >= 0) is answer

    def text(self, terms: Terms, name: Callable[[Atom], str] = lambda atom: atom.name) -> str:
        """A polynomial as Python source; `name` says how atoms with an origin are written."""
        if not terms:
            return "0"
        parts = []
        for monomial, factor in sorted(terms.items(), key=lambda item: (-len(item[0]), item[0])):
            words = [self._atom_text(self.atoms[a], name) for a in monomial]
            if factor != 1 or not words:
                words.insert(0, str(factor))
            parts.append("*".join(words))
        return " + ".join(parts).replace("+ -1*", "- ").replace("+ -", "- ")

    def _atom_text(self, atom: Atom, name: Callable[[Atom], str]) -> str:
        if atom.parts is None:
            return name(atom)
        operator, a, b = atom.parts
        return f"(({self.text(a, name)}) {operator} ({self.text(b, name)}))"

    def guard_text(self, guard: tuple[Terms, str, bool], name: Callable[[Atom], str] = lambda atom: atom.name) -> str:
        """A guard as a reader would write it: `s0 + s1 <= 64`."""
        terms, relation, answer = guard
        positive = {m: c for m, c in terms.items() if c > 0}
        negative = {m: -c for m, c in terms.items() if c < 0}
        relation = relation if answer else _NEGATED[relation]
        return f"{self.text(positive, name)} {relation} {self.text(negative, name)}"

    def guard_texts(self) -> list[str]:
        """All guards as a reader would write them."""
        return [self.guard_text(guard) for guard in self.guards.values()]


_NEGATED = {"==": "!=", ">": "<=", ">=": "<"}


def _quotients(a: tuple[float, float], least: float, most: float) -> tuple[float, float]:
    """Bounds of a quotient, rounded down, by a number of at least `least` > 0 and at most `most`."""
    low = a[0] // (least if a[0] < 0 else most) if math.isfinite(a[0]) else a[0]
    high = a[1] // (most if a[1] < 0 else least) if math.isfinite(a[1]) else a[1]
    return low, high


def _product(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    corners = [0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return min(corners), max(corners)


def _key(terms: Terms, relation: str) -> tuple:
    """A name for a question that does not depend on how it was asked."""
    if relation == "==" and min(terms.items())[1] < 0:
        terms = {m: -c for m, c in terms.items()}
    return relation, frozenset(terms.items())
