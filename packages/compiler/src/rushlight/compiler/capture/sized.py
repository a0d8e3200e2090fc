"""Programs for the sizes that come: a captured graph with symbols, and what it is for one set of sizes after the other.

A backend that knows how compiles for whole regions of sizes at once (`graph.families`); then new sizes take as long as
computing the numbers that depend on them. Other backends compile for each set of sizes. Programs are kept by the
metadata of the inputs. Before a graph is used for new sizes what the capture relied on is looked at again: the guards
of the sizes, and that views lie within what they view. For the first sets of sizes, and wherever a graph is compiled
for one, also that each op infers from the new metadata exactly what the symbols say.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rushlight.compiler.capture.randomness import Draw
from rushlight.compiler.graph.control import with_graphs
from rushlight.compiler.graph.facts import Atom, Facts
from rushlight.compiler.graph.families import Family
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.ir import Copy, Graph, Node, Value
from rushlight.compiler.graph.symbolic import Sym, has_symbols
from rushlight.compiler.graph.values import Values
from rushlight.core.fork import Lock
from rushlight.core.meta import Meta
from rushlight.core.op import meta_of

KEPT = 256  # programs per graph
# Compiling takes as long as a few eager calls, which is a waste where sizes never come twice: after so many programs
# only sizes that come again are compiled, and others run operation by operation.
EAGERLY = 8
# Sets of sizes for which symbols are compared with what ops infer, though a program for all sizes has been made: what
# they say was inferred by the same functions, for all sizes for which the guards hold.
COMPARED = 3


class Program(NamedTuple):
    """What runs for one set of sizes."""

    run: Callable[[list], list]
    later: list[Callable[[list], list]]  # what runs after calls that stand between the effects, see `stages`
    draws: list[Draw]
    counters: int
    graph: Callable[[], Graph | None]  # what `run` was made from; it takes long


class Sized:
    """All programs of one capture: of its graph, and of those of its later stages.

    `make(key)` is the program for a key: the metadata of the inputs, then numbers.
    """

    def __init__(self, facts: Facts, inputs: list[Meta], atoms: list[Atom], graphs: list[Graph], draws: list[Draw],
                 counters: Any, compile: Callable[[Graph], Callable[[list], list]],
                 opened: Callable[[Graph, Facts], Family | None] = lambda graph, facts: None) -> None:
        self.facts, self.inputs, self.atoms, self.graphs = facts, inputs, atoms, graphs
        self.draws, self.counters, self.compile = draws, counters, compile
        self.known: dict[tuple, Program] = {}
        self.compiled = self.compared = 0
        self._families = [opened(graph, facts) for graph in graphs]
        self._views = [node for graph in graphs for node in graph.nodes
                       if node.op.kind == "view" and has_symbols((node.inputs[1:], node.params))]
        self._once: dict[tuple, None] = {}
        self._lock = Lock()
        # where to find the value of each atom that is a size: the first dimension that is this atom alone
        self._sizes = {terms[0]: (i, d) for i, m in reversed([*enumerate(inputs)]) for d, n in enumerate(m.shape)
                       if type(n) is Sym and len(terms := next(iter(n.terms))) == 1 and len(n.terms) == 1}

    def make(self, key: tuple) -> Program | None:
        """The program for a key, None if the graph does not hold for it."""
        with self._lock:
            found = self.known.get(key)
            if found is None:
                found = self._make(key)
                if found is not None and key not in self._once:
                    while len(self.known) >= KEPT:
                        del self.known[next(iter(self.known))]
                    self.known[key] = found
            return found

    def _make(self, key: tuple) -> Program | None:
        metas, numbers = key[:len(self.inputs)], key[len(self.inputs):]
        values = dict(zip([atom.number for atom in self.atoms], numbers))
        if any(m.ndim != known.ndim for m, known in zip(metas, self.inputs)):
            return None
        values |= {number: metas[i].shape[d] for number, (i, d) in self._sizes.items()}
        concrete = Concrete(self.facts, values)
        if any(concrete.meta(known) is not m for m, known in zip(metas, self.inputs)) or not concrete.allowed():
            return None
        if not all(map(concrete.fits, self._views)):
            return None
        runs = self._runs(key, concrete)
        if len(runs) < len(self.graphs):
            return None
        draws = [Draw(x.op, (x.operands[0], concrete.value(x.operands[1].at), *x.operands[2:]),
                      concrete.params(x.params)) for x in self.draws]
        run, *later = runs
        return Program(run, later, draws, concrete.value(self.counters), partial(concrete.graph, self.graphs[0]))

    def _runs(self, key: tuple, concrete: Concrete) -> list[Callable[[list], list]]:
        """What runs for some sizes; less than that where the graphs do not hold for them."""
        found = [family and family.at(concrete.sizes) for family in self._families]
        if None not in found and self.compared >= COMPARED:
            return found
        graphs = [graph for graph in map(concrete.graph, self.graphs) if graph is not None]
        if len(graphs) < len(self.graphs):
            return []
        self.compared += 1
        if self.compiled >= EAGERLY and key not in self._once:
            if len(self._once) >= KEPT:
                self._once.clear()
            self._once[key] = None
            return [run or partial(interpret, graph) for run, graph in zip(found, graphs)]
        self._once.pop(key, None)
        self.compiled += None in found
        return [run or self.compile(graph) for run, graph in zip(found, graphs)]


class Concrete(Values):
    """Values of atoms, put in the place of symbols where that is allowed."""

    def allowed(self) -> bool:
        """Do the values lie in the ranges of their atoms, and do they agree with all guards on them?"""
        atoms = [self.facts.atoms[number] for number in self.sizes]
        if not all(atom.least <= self.sizes[atom.number] <= atom.most for atom in atoms):
            return False
        return all(self.facts.agrees(guard, self.sizes) for guard in self.facts.guards.values()
                   if {atom.number for atom in self.facts.roots(guard[0])} <= self.sizes.keys())

    def fits(self, node: Node) -> bool:
        """Does a view lie within what it is a view of? Its kernel checks that."""
        m, numbers = self.meta(node.inputs[0].meta), self.params(node.inputs[1:])
        try:
            node.op.numpy(np.broadcast_to(np.zeros((), m.numpy), m.shape), *numbers, *self.params(node.params))
        except (IndexError, RuntimeError, ValueError):
            return False
        return True

    def graph(self, graph: Graph) -> Graph | None:  # type: ignore[override]
        """The graph for these values; None if an op would not give what the symbols say."""
        copy = Copy(graph.inputs, self.meta)
        for node in graph.nodes:
            operands = copy.operands(node, self.value)
            params = with_graphs(self.params(node.params), self.graph)
            if None in params and None not in node.params:
                return None
            metas = tuple([self.meta(v.meta) for v in node.outputs])
            given = [x.meta if isinstance(x, Value) else meta_of(x) for x in operands]
            inferred = node.op.infer(*given, *params)
            expected = (inferred,) if isinstance(inferred, Meta) else inferred
            if expected is None or len(expected) != len(metas) or any(
                    a.with_grad(False) is not b.with_grad(False) for a, b in zip(expected, metas)):
                return None
            copy.repeat(node, operands, params)
        return copy.returns(graph.outputs)


def as_captured(facts: Facts, graph: Graph) -> Graph:
    """A graph for the sizes of the call that it was captured from."""
    return Concrete(facts, {atom.number: atom.hint for atom in facts.atoms}).graph(graph) or graph
