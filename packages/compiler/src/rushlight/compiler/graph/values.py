"""Values of open sizes, put in the place of symbols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.compiler.graph.facts import Facts
from rushlight.compiler.graph.ir import Copy, Graph
from rushlight.compiler.graph.symbolic import Sym, SymFloat, replaced
from rushlight.core.meta import Meta, meta


class Values:
    """What symbols, and what holds such, come to for some `sizes`: the values of atoms, by number."""

    def __init__(self, facts: Facts, sizes: Mapping[int, int]) -> None:
        self.facts, self.sizes = facts, sizes
        self.known: dict[Sym, int] = {}
        self._metas: dict[Meta, Meta] = {}

    def value(self, x: Any) -> Any:
        """The number of a symbol; other things as they are."""
        if type(x) is SymFloat:
            return x.compute(self.value)
        if type(x) is not Sym:
            return x
        found = self.known.get(x)
        if found is None:
            found = self.known[x] = self.facts.evaluate(x.terms, self.sizes)
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

    def graph(self, graph: Graph) -> Graph:
        """A graph without symbols."""
        return _copied(graph, self.meta, self.params)


class _AsTheyAre(Values):
    def value(self, x: Any) -> Any:
        return x

    def params(self, x: Any) -> Any:
        return x

    def meta(self, m: Meta) -> Meta:
        return m


AS_THEY_ARE = _AsTheyAre(Facts(), {})  # for programs without open sizes


def reopened(graph: Graph, facts: Facts) -> Graph:
    """A graph whose symbols belong to other facts on the same atoms."""
    metas: dict[Meta, Meta] = {}

    def symbol(x: Any) -> Any:
        return facts.sym(x.terms) if type(x) is Sym else SymFloat(facts, x.terms, replaced(x.parts, symbol))

    def renewed(m: Meta) -> Meta:
        if m not in metas:
            metas[m] = meta(m.dtype, replaced(m.shape, symbol), replaced(m.strides, symbol), m.device, m.requires_grad)
        return metas[m]

    return _copied(graph, renewed, lambda x: replaced(x, symbol))


def _copied(graph: Graph, meta_of: Any, params_of: Any) -> Graph:
    copy = Copy(graph.inputs, meta_of)
    for node in graph.nodes:
        if any(isinstance(p, Graph) for p in node.params):
            raise NotImplementedError(f"sizes in the graphs within {node.op.name}")
        copy.repeat(node, copy.operands(node, params_of), params_of(node.params))
    return copy.returns(graph.outputs)
