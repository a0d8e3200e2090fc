"""Replacing fused ops by the simpler ops that their declarations state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.compiler.graph.builder import GraphBuilder, GraphTensor, tracer
from rushlight.compiler.graph.ir import Graph, Node, Value
from rushlight.core import dispatch


def taken_apart(graph: Graph, wanted: Callable[[Node], bool]) -> Graph:
    """The graph with the decomposition of each `wanted` call in its place; wanted calls in decompositions go as well.

    NotImplementedError for a wanted call of an op without decomposition.
    """
    made = Graph()
    copies: dict[Value, Value] = {v: made.input(v.meta) for v in graph.inputs}
    with dispatch.push(Apart(made, wanted)):
        for node in graph.nodes:
            operands = tuple([copies[x] if isinstance(x, Value) else x for x in node.inputs])
            metas = tuple([v.meta for v in node.outputs])
            if wanted(node):
                found = _parts(node, [tracer(x) if isinstance(x, Value) else x for x in operands])
                copies.update((v, tensor._value) for v, tensor in zip(node.outputs, found) if tensor is not None)
            else:
                copies.update(zip(node.outputs, made.call(node.op, operands, node.params, metas)))
    made.output([copies[v] for v in graph.outputs])
    return made


class Apart(GraphBuilder):
    """Appends calls to a graph, wanted ones in parts."""

    def __init__(self, graph: Graph, wanted: Callable[[Node], bool]) -> None:
        super().__init__(graph)
        self.wanted = wanted

    def handle(self, op: Any, operands: tuple, params: tuple) -> Any:
        """Append one call, or its parts."""
        if op.decomposition is not None:
            node = Node(op, tuple([x._value if isinstance(x, GraphTensor) else x for x in operands]), params)
            if self.wanted(node):
                return op.decomposition(*operands, *params)
        return super().handle(op, operands, params)


def _parts(node: Node, operands: list[Any]) -> tuple:
    if node.op.decomposition is None:
        raise NotImplementedError(f"{node.op.name} has no decomposition into simpler ops")
    found = node.op.decomposition(*operands, *node.params)
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)
