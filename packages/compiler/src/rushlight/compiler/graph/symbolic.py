"""Sizes that are not known before a program runs.

A `Sym` stands where an int would: in the shapes and strides of metadata, and among the operands and params of nodes. It
is an integer polynomial over *atoms*: sizes of inputs, numbers, and quotients and remainders that no polynomial says.
Equal polynomials of one capture are the same object, so metadata and caches that hold symbols compare by identity.

Arithmetic on symbols makes symbols. A comparison is a question to the `Facts` of the capture: what follows from the
ranges of the atoms and from earlier answers is answered; else the answer for the values at hand is given and becomes a
guard. Nothing else reads a value: where Python or C code asks for the number itself, `Facts.fix` ends the capture,
which starts again with that atom as a plain number (`Fixed`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from rushlight.compiler.graph.polynomials import Terms, added, multiplied
from rushlight.core.meta import Symbolic

if TYPE_CHECKING:
    from rushlight.compiler.graph.facts import Facts


# How far beyond a size where another choice would be quicker a program is used: choices change at many different sizes,
# and each such program takes as long to make as hundreds that only differ in numbers.
SLACK = 4


class Sym(Symbolic):
    """An integer polynomial over the atoms of one capture; `hint` is its value in the call that is captured."""

    __slots__ = ("facts", "terms", "hint", "__weakref__")

    facts: Facts
    terms: Terms
    hint: int

    # arithmetic

    def _combine(self, other: Any, function: Callable[[Facts, Terms, Terms], Any], swap: bool = False) -> Any:
        terms = self.facts.terms_of(other)
        if terms is None:
            return self._beside(other)
        return function(self.facts, terms, self.terms) if swap else function(self.facts, self.terms, terms)

    def __add__(self, other: Any) -> Any:
        return self._combine(other, lambda facts, a, b: facts.sym(added(a, b)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._combine(other, lambda facts, a, b: facts.sym(added(a, b, -1)))

    def __rsub__(self, other: Any) -> Any:
        return self._combine(other, lambda facts, a, b: facts.sym(added(a, b, -1)), swap=True)

    def __mul__(self, other: Any) -> Any:
        return self._combine(other, lambda facts, a, b: facts.sym(multiplied(a, b)))

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return self._combine(other, lambda facts, a, b: facts.divide(a, b)[0])

    def __rfloordiv__(self, other: Any) -> Any:
        return self._combine(other, lambda facts, a, b: facts.divide(a, b)[0], swap=True)

    def __mod__(self, other: Any) -> Any:
        return self._combine(other, lambda facts, a, b: facts.divide(a, b)[1])

    def __rmod__(self, other: Any) -> Any:
        return self._combine(other, lambda facts, a, b: facts.divide(a, b)[1], swap=True)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __pow__(self, exponent: Any) -> Any:
        if type(exponent) is not int or not 0 <= exponent <= 4:
            return NotImplemented
        return math.prod([self] * exponent)

    def __neg__(self) -> Any:
        return 0 - self

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    # comparison

    def _compare(self, other: Any, relation: str, swap: bool = False) -> Any:
        terms = self.facts.terms_of(other)
        if terms is None:
            return self._beside(other)
        difference = added(terms, self.terms, -1) if swap else added(self.terms, terms, -1)
        return self.facts.decide(difference, relation)

    def __eq__(self, other: object) -> Any:
        return self is other or self._compare(other, "==")

    def __ne__(self, other: object) -> Any:
        equal = self == other
        return equal if equal is NotImplemented else not equal

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, ">")

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, ">=")

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, ">", swap=True)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, ">=", swap=True)

    @staticmethod
    def below(a: Any, b: Any) -> bool:
        """Is `a < b` in the call at hand? Programs for which that was asked serve sizes for which it is nearly so."""
        if hint(a) < hint(b):
            return a < SLACK * b or True
        return not (SLACK * a >= b or True)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return not self.facts.decide(self.terms, "==")

    def _beside(self, other: Any) -> Any:
        """What an operation with something else than an int gives."""
        if isinstance(other, SymFloat):
            return NotImplemented
        if isinstance(other, (float, complex, np.generic, np.ndarray)):
            self._fix(f"it meets a {type(other).__name__}")
        return NotImplemented

    # the number itself

    def _fix(self, why: str) -> NoReturn:
        self.facts.fix(self.terms, why)

    def __index__(self) -> int:
        self.facts.need(self.terms, "its number is needed")
        return self.hint

    __int__ = __index__

    def __float__(self) -> float:
        self.facts.need(self.terms, "it is needed as a float")
        return float(self.hint)

    def __truediv__(self, other: Any) -> Any:
        return fraction(self.facts, "truediv", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return fraction(self.facts, "truediv", other, self)

    def __round__(self, digits: Any = None) -> Any:
        return self if digits is None else self._fix("it is rounded")

    def __floor__(self) -> Any:
        return self

    __ceil__ = __trunc__ = __floor__

    def __repr__(self) -> str:
        if self.facts.open:
            self._fix("its text is needed")
        return self.facts.text(self.terms)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __reduce__(self) -> Any:
        self._fix("it is copied")


class SymFloat(Symbolic):
    """A float that is computed from symbols, such as `n / (n - 1)`: an operand of operations, of which nothing can be
    asked. `parts` are the name of an operator and one or two symbols or numbers; `terms` names all atoms in it.
    """

    __slots__ = ("facts", "terms", "hint", "parts")
    kind = float

    def __init__(self, facts: Facts, terms: Terms, parts: tuple) -> None:
        self.facts, self.terms, self.parts = facts, terms, parts
        self.hint = self.compute(lambda x: x.hint)

    @classmethod
    def of(cls, facts: Facts, name: str, *operands: Any) -> SymFloat:
        """What an operator makes of symbols and numbers."""
        terms: Terms = {}
        for x in operands:
            if isinstance(x, SYMBOLS):
                terms = {**terms, **dict.fromkeys(x.terms, 1)}
        return cls(facts, terms, (name, *operands))

    def compute(self, value: Callable[[Any], Any]) -> float:
        """Its value, for a function that gives those of symbols."""
        name, *operands = self.parts
        return OPERATORS[name](*[x.compute(value) if isinstance(x, SymFloat) else value(x) if isinstance(x, Sym) else x
                                 for x in operands])

    def _fix(self, *arguments: Any) -> NoReturn:
        self.facts.fix(self.terms, "a float that is computed from it is needed")

    __float__ = __int__ = __index__ = __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _fix
    __round__ = __floor__ = __ceil__ = __trunc__ = __pow__ = __rpow__ = __abs__ = __format__ = __reduce__ = _fix
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _fix
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        if self.facts.open:
            self._fix()
        return f"float({self.facts.text(self.terms)})"


_BINARY = ("add", "sub", "mul", "truediv")
OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in _BINARY}, "pow": math.pow, "sqrt": math.sqrt, "log": math.log,
    "float": float}


def fraction(facts: Facts, name: str, a: Any, b: Any) -> Any:
    """The float that an operator makes of symbols and numbers, where the facts allow such."""
    if not all(type(x) in (int, float, *SYMBOLS) for x in (a, b)):
        return NotImplemented
    made = SymFloat.of(facts, name, a, b)
    if not facts.fractions:
        facts.fix(made.terms, "it is divided")
    return made


_EXACT = 1 << 14  # products with such numbers are exact in float64, for all sizes of tensors that fit in memory


def as_ratio(x: Any) -> tuple[Any, int] | None:
    """A number that rounds as the quotient of a whole number or symbol and an int; None for others."""
    if type(x) in (int, Sym):
        return x, 1
    if type(x) is float and math.isfinite(x):
        ratio = x.as_integer_ratio()
        return ratio if max(map(abs, ratio)) < _EXACT else None
    if type(x) is not SymFloat or x.parts[0] not in ("float", "mul", "truediv"):
        return None
    parts = [as_ratio(part) for part in x.parts[1:]]
    if any(part is None for part in parts):
        return None
    (a, b), (c, d) = (*parts, (1, 1))[:2]  # type: ignore[misc]
    if x.parts[0] == "truediv":
        if type(c) is not int or not 0 < c < _EXACT or b & b - 1:  # rounded once, and never up to a whole number
            return None
        c, d = d, c
    elif b & b - 1 or d & d - 1:  # a rounded quotient
        return None
    top = a * c
    factors = top.terms.values() if type(top) is Sym else (top,)
    return (top, b * d) if max(map(abs, factors), default=0) < _EXACT else None


def positive(x: Any) -> bool:
    """Is a number above 0 for all values of symbols? Asks nothing that would become a guard."""
    if type(x) is Sym:
        return x.facts.known(x.terms, ">") is True
    if type(x) is SymFloat:
        name, *operands = x.parts
        return name not in ("sub", "log") and all(map(positive, operands[:1] if name == "pow" else operands))
    return x > 0


def _operators(name: str) -> None:
    setattr(SymFloat, f"__{name}__", lambda self, other: fraction(self.facts, name, self, other))
    setattr(SymFloat, f"__r{name}__", lambda self, other: fraction(self.facts, name, other, self))


for _name in _BINARY:
    _operators(_name)
setattr(SymFloat, "__neg__", lambda self: self * -1.0)  # noqa: B010
SYMBOLS = (Sym, SymFloat)


def has_symbols(x: Any) -> bool:
    """Is there a symbol in a nested tuple, or a slice?"""
    if isinstance(x, (tuple, list)):
        return any(map(has_symbols, x))
    if type(x) is slice:
        return has_symbols((x.start, x.stop, x.step))
    return type(x) in SYMBOLS


def hint(n: Any) -> Any:
    """A number to weigh choices by: that of a symbol in the call at hand."""
    return n.hint if type(n) in SYMBOLS else n


def never_less(a: Any, b: Any) -> bool:
    """Is `a >= b` for all values of symbols? Asks nothing that would become a guard."""
    difference = a - b
    return difference.facts.known(difference.terms, ">=") is True if type(difference) is Sym else difference >= 0


def replaced(x: Any, value: Callable[[Any], Any]) -> Any:
    """A nested tuple with `value(symbol)` in the place of symbols."""
    if type(x) in SYMBOLS:
        return value(x)
    if isinstance(x, tuple):
        items = [replaced(item, value) for item in x]
        if any(map(operator.is_not, items, x)):
            return type(x)(items)
    return x
