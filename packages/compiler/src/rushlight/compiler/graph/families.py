"""Families of programs: what a graph with symbols becomes, by regions of sizes.

A compiler asks questions about sizes: is a loop long enough for threads, does a product fit the cache? The answers hold
for a region of sizes, and so does what is made with them. For sizes outside of all regions so far one more is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rushlight.compiler import _failures, _logs
from rushlight.compiler.graph.facts import Facts, Fixed
from rushlight.compiler.graph.ir import Graph
from rushlight.compiler.graph.values import Values, reopened
from rushlight.core.fork import Lock

MOST_REGIONS = 24
MOST_FAILURES = 6  # sets of sizes whose numbers were needed, before nobody tries any more


class _Member:
    """Something with `at(values)`, and for which sizes it holds."""

    def __init__(self, made: Any, facts: Facts) -> None:
        self.made, self.facts = made, facts
        guards = [f"({facts.guard_text(guard, _name)})" for guard in facts.guards.values()]
        self.holds = _function(facts, " and ".join(guards) or "True")
        # Symbols whose numbers were needed, and a function that computes these: one thing, since threads share it.
        self._known: tuple[list[Any], Callable[..., tuple]] | None = None

    def at(self, sizes: Mapping[int, int], order: tuple[int, ...]) -> Any:
        """What it is for some sizes."""
        values = Values(self.facts, sizes)
        if self._known is not None:
            symbols, compute = self._known
            values.known.update(zip(symbols, compute(*order), strict=True))
        found = self.made.at(values)
        if self._known is None:  # the next sizes will need the same numbers
            symbols = [*values.known]
            texts = "".join([f"{self.facts.text(sym.terms, _name)}, " for sym in symbols])
            self._known = symbols, _function(self.facts, f"({texts})")
        return found


class Family:
    """The programs of a graph; `make(graph, facts)` gives something with `at(values)` that holds as long as the guards
    of the facts do. `otherwise(graph)` is for graphs without symbols, where `make` needs a number.
    """

    def __init__(self, graph: Graph, facts: Facts, make: Callable[[Graph, Facts], Any],
                 otherwise: Callable[[Graph], Any] = lambda graph: None) -> None:
        self.graph, self.facts, self.make, self.otherwise = graph, facts, make, otherwise
        self.regions: list[_Member] = []
        self.failures: list[str] = []
        self.possible = True
        self._lock = Lock()

    def at(self, sizes: Mapping[int, int]) -> Any:
        """What the graph is for values of the atoms, by number."""
        roots = tuple([sizes.get(atom.number, atom.hint) for atom in self.facts.atoms if atom.parts is None])
        region = self._region(roots) or self._new(sizes, roots)
        try:
            if region is not None:
                return region.at(sizes, roots)
        except Exception as error:
            Values(self.facts, sizes).graph(self.graph)  # a number divided by zero, say, is no failure of the region
            _failures.report("a program for open sizes failed", error)
            self.regions, self.possible = [], False
            self.failures.append(f"{type(error).__name__}: {error}")
        return self.otherwise(Values(self.facts, sizes).graph(self.graph))

    def _region(self, roots: tuple[int, ...]) -> _Member | None:
        return next((region for region in self.regions if region.holds(*roots)), None)

    def _new(self, sizes: Mapping[int, int], roots: tuple[int, ...]) -> _Member | None:
        with self._lock:
            found = self._region(roots)  # another thread may have made it
            if found is not None or not self.possible or len(self.regions) >= MOST_REGIONS:
                return found
            facts = self.facts.reopened(sizes)
            try:
                made = self.make(reopened(self.graph, facts), facts)
            except Fixed as error:
                self._fail(str(error))
                return None
            except Exception as error:
                if not isinstance(error, NotImplementedError):
                    Values(self.facts, sizes).graph(self.graph)  # sizes that the operations refuse are no failure
                    _failures.report("a program for open sizes could not be made", error)
                self._fail(f"{type(error).__name__}: {error}")
                self.possible = False
                return None
            facts.open = False
            region = _Member(made, facts)
            if not region.holds(*roots):
                raise AssertionError("a program that does not hold for the sizes that it was made for")
            self.regions = [region, *self.regions]
            return region

    def _fail(self, why: str) -> None:
        self.failures.append(why)
        self.possible = len(self.failures) < MOST_FAILURES + 2 * len(self.regions)
        _logs.log("recompiles", f"sizes stay open in a program, but are numbers in its code: {why}")


def _name(atom: Any) -> str:
    return f"n{atom.number}"


def _function(facts: Facts, text: str) -> Callable[..., Any]:
    """A function of the values of all atoms with an origin."""
    names = ", ".join([_name(atom) for atom in facts.atoms if atom.parts is None])
    return eval(f"lambda {names}: {text}", {})  # noqa: S307  our own text
