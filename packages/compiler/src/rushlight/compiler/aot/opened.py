"""Compiled programs with gradients whose sizes are open: one joint graph and one partition for a region of sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.compiler.aot.aliases import own_outputs, with_aliases
from rushlight.compiler.aot.runtime import Compile, without_grad
from rushlight.compiler.graph.facts import Facts
from rushlight.compiler.graph.families import Family
from rushlight.compiler.graph.ir import Graph
from rushlight.compiler.graph.values import Values

Make = Callable[[Graph, Facts], Any]  # something with `at(values)`, from a graph with symbols


def open_family(graph: Graph, facts: Facts, compile_pure: Compile, make_pure: Make) -> Family:
    """The programs of a graph with open sizes, which has gradients where its outputs require them.

    `make_pure` makes programs of graphs with symbols, `compile_pure` of others.
    """
    return Family(graph, facts, lambda graph, facts: _Differentiable(graph, facts, compile_pure, make_pure))


class _Differentiable:
    """What `differentiable` gives, for a region of sizes."""

    def __init__(self, graph: Graph, facts: Facts, compile_pure: Compile, make_pure: Make) -> None:
        self.graph, self.own = graph, own_outputs(graph)
        self._compile = compile_pure
        self._families: dict[Graph, Family] = {}
        self._region: Any = None

        def family(part: Graph) -> Any:
            made = self._families[part] = Family(part, facts, make_pure, compile_pure)
            return made

        if any(v.meta.requires_grad for v in self.own.outputs):
            # Only programs with gradients need rushlight-autograd.
            from rushlight.compiler.aot.joint import joint_graph
            from rushlight.compiler.aot.tape import Region

            self._region = Region(self.own, joint_graph(self.own), family)
            family(self._region.parts.backward)
        else:
            self._program = family(without_grad(self.own))

    def at(self, values: Values) -> Callable[[list], list]:
        """What runs for some sizes."""

        def compile_at(part: Graph) -> Callable[[list], list]:
            family = self._families.get(part)
            return self._compile(part) if family is None else family.at(values.sizes)

        region = self._region
        run = self._program.at(values.sizes) if region is None else region.at(values, compile_at).call
        return with_aliases(self.graph, self.own.outputs, run, values)
