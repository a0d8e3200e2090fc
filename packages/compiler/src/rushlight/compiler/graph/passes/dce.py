"""Dead code elimination."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rushlight.compiler.graph.ir import Graph, Node, Value


def live_values(nodes: Sequence[Node], wanted: Iterable[Value]) -> dict[Value, None]:
    """Some values and all that `nodes` compute them from, as keys in a fixed order."""
    live = dict.fromkeys(wanted)
    for node in reversed(nodes):
        if any(v in live for v in node.outputs):
            live.update(dict.fromkeys([x for x in node.inputs if isinstance(x, Value)]))
    return live


def eliminate_dead(graph: Graph) -> Graph:
    """The graph without calls whose results nobody uses. Inputs stay, so that callers pass the same arguments."""
    live = live_values(graph.nodes, graph.outputs)
    graph.nodes = [node for node in graph.nodes if any(v in live for v in node.outputs)]
    return graph
