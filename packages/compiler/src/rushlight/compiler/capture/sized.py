"""Programs for the sizes that come: a captured graph with symbols, compiled for one set of sizes after the other.

Compiling for other sizes makes no new machine code, because kernels take sizes when they run; it takes about as long
as it takes to look at each node. Programs are kept by the metadata of the inputs. Before a graph is used for new sizes
everything that the capture relied on is looked at again: the guards of the sizes, and that each op infers from the new
metadata exactly what the symbols say.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rushlight.compiler.capture.randomness import Draw
from rushlight.compiler.graph.control import with_graphs
from rushlight.compiler.graph.facts import Atom, Facts
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.ir import Graph, Value
from rushlight.compiler.graph.symbolic import Sym, SymFloat, replaced
from rushlight.core.meta import Meta, meta
from rushlight.core.op import meta_of

KEPT = 256  # programs per graph
# Compiling takes as long as a few eager calls, which is a waste where sizes never come twice: after so many programs
# only sizes that come again are compiled, and others run operation by operation.
EAGERLY = 8


class Program(NamedTuple):
    """What runs for one set of sizes."""

    run: Callable[[list], list]
    later: list[Callable[[list], list]]  # what runs after calls that stand between the effects, see `stages`
    draws: list[Draw]
    counters: int


class Sized:
    """All programs of one capture: of its graph, and of those of its later stages.

    `make(key)` is the program for a key: the metadata of the inputs, then numbers.
    """

    def __init__(self, facts: Facts, inputs: list[Meta], atoms: list[Atom], graphs: list[Graph], draws: list[Draw],
                 counters: Any, compile: Callable[[Graph], Callable[[list], list]]) -> None:
        self.facts, self.inputs, self.atoms, self.graphs = facts, inputs, atoms, graphs
        self.draws, self.counters, self.compile = draws, counters, compile
        self.known: dict[tuple, Program] = {}
        self.compiled = 0
        self._once: dict[tuple, None] = {}
        self._lock = threading.Lock()
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
        graphs = [graph for graph in map(concrete.graph, self.graphs) if graph is not None]
        if len(graphs) < len(self.graphs):
            return None
        draws = [Draw(x.op, (x.operands[0], concrete.value(x.operands[1].at), *x.operands[2:]),
                      concrete.params(x.params)) for x in self.draws]
        run, *later = self._programs(key, graphs)
        return Program(run, later, draws, concrete.value(self.counters))

    def _programs(self, key: tuple, graphs: list[Graph]) -> list[Callable[[list], list]]:
        if self.compiled >= EAGERLY and key not in self._once:
            if len(self._once) >= KEPT:
                self._once.clear()
            self._once[key] = None
            return [partial(interpret, graph) for graph in graphs]
        self._once.pop(key, None)
        self.compiled += 1
        return [*map(self.compile, graphs)]


class Concrete:
    """Values of atoms, put in the place of symbols."""

    def __init__(self, facts: Facts, values: dict[int, int]) -> None:
        self.facts, self.values = facts, values
        self._known: dict[Sym, int] = {}
        self._metas: dict[Meta, Meta] = {}

    def allowed(self) -> bool:
        """Do the values lie in the ranges of their atoms, and do they agree with all guards on them?"""
        atoms = [self.facts.atoms[number] for number in self.values]
        if not all(atom.least <= self.values[atom.number] <= atom.most for atom in atoms):
            return False
        return all(self.facts.agrees(guard, self.values) for guard in self.facts.guards.values()
                   if {atom.number for atom in self.facts.roots(guard[0])} <= self.values.keys())

    def value(self, x: Any) -> Any:
        """The number of a symbol; other things as they are."""
        if type(x) is SymFloat:
            return x.compute(self.value)
        if type(x) is not Sym:
            return x
        found = self._known.get(x)
        if found is None:
            found = self._known[x] = self.facts.evaluate(x.terms, self.values)
        return found

    def params(self, x: Any) -> Any:
        """A nested tuple without symbols."""
        return replaced(x, self.value)

    def meta(self, m: Meta) -> Meta:
        """Metadata without symbols."""
        found = self._metas.get(m)
        if found is None:
            made = meta(m.dtype, self.params(m.shape), self.params(m.strides), m.device, m.requires_grad)
            found = self._metas[m] = made
        return found

    def graph(self, graph: Graph) -> Graph | None:
        """The graph for these values; None if an op would not give what the symbols say."""
        made = Graph()
        copies: dict[Value, Value] = {v: made.input(self.meta(v.meta)) for v in graph.inputs}
        for node in graph.nodes:
            operands = tuple([copies[x] if isinstance(x, Value) else self.value(x) for x in node.inputs])
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
            if node.op.kind == "view" and len(operands) > 1:  # the places of a view are checked by its kernel
                base = np.broadcast_to(np.zeros((), given[0].numpy), given[0].shape)
                node.op.numpy(base, *operands[1:], *params)
            copies.update(zip(node.outputs, made.call(node.op, operands, params, metas)))
        made.output([copies[v] for v in graph.outputs])
        return made


def as_captured(facts: Facts, graph: Graph) -> Graph:
    """A graph for the sizes of the call that it was captured from."""
    return Concrete(facts, {atom.number: atom.hint for atom in facts.atoms}).graph(graph) or graph
