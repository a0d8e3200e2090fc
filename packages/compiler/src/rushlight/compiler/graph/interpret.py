"""Runs a graph op by op with eager calls: the oracle of all backends, and the path of higher derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight.compiler.graph.ir import Graph, Value


def interpret(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """The outputs for tensors (or tracers) as inputs. Calls go through the handler stack, so they record and trace like
    eager ones, but for inputs that have no history in the graph.
    """
    environment: dict[Value, Any] = {
        v: x.detach() if x._meta.requires_grad and not v.meta.requires_grad else x
        for v, x in zip(graph.inputs, inputs, strict=True)
    }
    for node in graph.nodes:
        operands = tuple([environment[x] if isinstance(x, Value) else x for x in node.inputs])
        if not any(v.meta.requires_grad for v in node.outputs) and any(
            isinstance(x, Value) and x.meta.requires_grad for x in node.inputs
        ):
            with rushlight.no_grad():  # the program computed this without gradients
                results = node.op.apply(operands, node.params)
        else:
            results = node.op.apply(operands, node.params)
        environment.update(zip(node.outputs, results if isinstance(results, tuple) else (results,)))
    return [environment[v] for v in graph.outputs]
