"""Common subexpression elimination."""

from __future__ import annotations

from typing import Any

from rushlight.compiler.graph.ir import Graph, Node, Value
from rushlight.compiler.graph.symbolic import SYMBOLS, has_symbols


def eliminate_common(graph: Graph) -> Graph:
    """The graph in which equal calls on equal operands are made once.

    Results that the program returns stay distinct tensors: of equal calls, those that make an output are all kept.
    Random ops take their position in the stream of numbers as operands, so equal operands mean equal draws.
    """
    made = Graph()
    made.inputs = graph.inputs
    returned = set(graph.outputs)
    renamed: dict[Value, Value] = {}
    seen: dict[tuple, Node] = {}
    for node in graph.nodes:
        inputs = tuple([renamed.get(x, x) if isinstance(x, Value) else x for x in node.inputs])
        if inputs != node.inputs:
            replacement = Node(node.op, inputs, node.params)
            replacement.outputs.extend(Value(v.meta, replacement, v.index) for v in node.outputs)
            renamed.update(zip(node.outputs, replacement.outputs))
            returned.update(renamed[v] for v in node.outputs if v in returned)
            node = replacement
        key = (node.op, tuple(map(_key, inputs)), tuple(map(_key, node.params)))
        first = seen.get(key)
        same = first is not None and all(a.meta is b.meta for a, b in zip(first.outputs, node.outputs))
        if same and not node.op.random and not any(v in returned for v in node.outputs):
            for new, old in zip(first.outputs, node.outputs):
                renamed.update({v: new for v, to in list(renamed.items()) if to is old} | {old: new})
            continue
        seen.setdefault(key, node)
        made.nodes.append(node)
    made.outputs = [renamed.get(v, v) for v in graph.outputs]
    return made


def _key(x: Any) -> Any:
    if isinstance(x, Value) or type(x) in SYMBOLS:
        return x
    return (type(x), tuple(map(_key, x)) if has_symbols(x) else repr(x))
