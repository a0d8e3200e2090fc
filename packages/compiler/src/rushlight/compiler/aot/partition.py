"""Splitting a joint graph into what runs forward and what runs backward."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.compiler.aot.joint import Joint
from rushlight.compiler.graph.ir import Graph, Node, Value
from rushlight.compiler.graph.passes import eliminate_common, eliminate_dead

# Recomputing is cheaper than storing and loading for these: they read what is in cache anyway and keep no tensor alive.
_RECOMPUTED_KINDS = frozenset({"view"})


@dataclass
class Partition:
    """`forward` returns the program's outputs and then the saved values; `backward` takes those and then the tangents.

    `gradients` says for each input which output of `backward` is its gradient, None where there is none.
    """

    forward: Graph
    backward: Graph
    gradients: list[int | None]


def partition(joint: Joint) -> Partition:
    """Save what the backward nodes read, except views, which are made again from their base."""
    graph = joint.graph
    nodes = graph.nodes[:joint.forward_nodes]
    later = graph.nodes[joint.forward_nodes:]
    inputs = graph.inputs[:len(graph.inputs) - len(joint.tangents)]
    wanted = [g for g in joint.gradients if g is not None]
    needed = _needed(later, wanted)
    available = {*inputs, *(v for node in nodes for v in node.outputs)}
    saved: dict[Value, None] = {}
    again: dict[Node, None] = {}

    def require(value: Value) -> None:
        node = value.node
        if node is not None and node.op.kind in _RECOMPUTED_KINDS:
            for x in node.inputs:
                if isinstance(x, Value):
                    require(x)
            again.setdefault(node)
        else:
            saved.setdefault(value)

    for value in needed:
        if value in available:
            require(value)

    forward = Graph()
    forward.inputs, forward.nodes = inputs, list(nodes)
    forward.output([*joint.outputs, *saved])
    backward = _extract([*saved, *graph.inputs[len(inputs):]], [*again, *later], wanted)
    numbers = iter(range(len(wanted)))
    return Partition(eliminate_dead(forward), eliminate_dead(eliminate_common(backward)),
                     [None if g is None else next(numbers) for g in joint.gradients])


def _needed(nodes: list[Node], wanted: list[Value]) -> list[Value]:
    """Values that the live ones among `nodes`, or `wanted` itself, read, in order of first use."""
    live = set(wanted)
    reads: dict[Value, None] = dict.fromkeys(wanted)
    for node in reversed(nodes):
        if any(v in live for v in node.outputs):
            operands = [x for x in node.inputs if isinstance(x, Value)]
            live.update(operands)
            reads.update(dict.fromkeys(operands))
    return list(reads)


def _extract(inputs: list[Value], nodes: list[Node], outputs: list[Value]) -> Graph:
    """A graph of its own that reads `inputs`, with copies of those nodes that the outputs need."""
    live, kept = set(outputs), []
    for node in reversed(nodes):
        if any(v in live for v in node.outputs):
            kept.append(node)
            live.update(x for x in node.inputs if isinstance(x, Value))
    made = Graph()
    copies = {v: made.input(v.meta) for v in inputs}
    for node in reversed(kept):
        operands = tuple([copies[x] if isinstance(x, Value) else x for x in node.inputs])
        results = made.call(node.op, operands, node.params, tuple([v.meta for v in node.outputs]))
        copies.update(zip(node.outputs, results))
    made.output([copies[v] for v in outputs])
    return made
