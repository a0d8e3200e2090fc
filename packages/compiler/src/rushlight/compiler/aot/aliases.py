"""Outputs that share memory: inputs that are returned, and views.

A program computes values. Which of the caller's tensors an output shares its memory and its history with is not up to
code generators: they get a graph without such outputs, and the views are made on the tensors themselves, as eager
execution would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.compiler.graph.ir import Graph, Node, Value, root
from rushlight.compiler.graph.values import AS_THEY_ARE, Values

Run = Callable[[list], list]


def own_outputs(graph: Graph) -> Graph:
    """The graph with each of its outputs, or what an output is a view of, once; inputs are left out."""
    made = Graph()
    made.inputs, made.nodes = graph.inputs, graph.nodes
    made.output(list(dict.fromkeys([v for v in map(root, graph.outputs) if v.node is not None])))
    return made


def with_aliases(graph: Graph, own: list[Value], run: Run, values: Values = AS_THEY_ARE) -> Run:
    """The function that gives the outputs of `graph`, from `run`, which gives the values `own`; `values` are those of
    open sizes.
    """
    if graph.outputs == own:
        return run
    places = {v: i for i, v in enumerate(graph.inputs)}

    def call(inputs: list) -> list:
        inputs = list(inputs)
        known: dict[Value, Any] = dict(zip(own, run(inputs) if own else ()))

        def tensor(value: Value) -> Any:
            if value in known:
                return known[value]
            if value.node is None:
                return inputs[places[value]]
            known.update(zip(value.node.outputs, _view(value.node, tensor(value.node.inputs[0]), values)))
            return known[value]

        return [tensor(v) for v in graph.outputs]

    return call


def _view(node: Node, base: Any, values: Values) -> tuple:
    """The results of a view op on a tensor; without history where the program made it without."""
    operands, params = (base, *values.params(node.inputs[1:])), values.params(node.params)
    if base.requires_grad and not any(v.meta.requires_grad for v in node.outputs):
        with rushlight.no_grad():
            results = node.op.apply(operands, params)
    else:
        results = node.op.apply(operands, params)
    return results if isinstance(results, tuple) else (results,)
