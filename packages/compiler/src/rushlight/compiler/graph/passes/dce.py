"""Dead code elimination."""

from __future__ import annotations

from rushlight.compiler.graph.ir import Graph, Value


def eliminate_dead(graph: Graph) -> Graph:
    """The graph without calls whose results nobody uses. Inputs stay, so that callers pass the same arguments."""
    used: set[Value] = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        if any(v in used for v in node.outputs):
            kept.append(node)
            used.update(x for x in node.inputs if isinstance(x, Value))
    graph.nodes = kept[::-1]
    return graph
