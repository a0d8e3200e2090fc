"""Runs a graph op by op with eager calls: the oracle of all backends, and the path of higher derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import rushlight
from rushlight.compiler.graph.ir import Graph, Value


def interpret(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """The outputs for tensors (or tracers) as inputs; see `Interpreter`, which is quicker for several calls."""
    return Interpreter(graph)(inputs)


class _Step(NamedTuple):
    """One call: where its operands lie, and which values nobody needs after it."""

    apply: Callable[[tuple, tuple], Any]
    operands: tuple[int, ...]
    params: tuple
    results: tuple[int, ...]
    silent: bool
    dead: tuple[int, ...]


class Interpreter:
    """A graph, prepared to be run. Calls go through the handler stack, so they record and trace like eager ones, but
    for inputs that have no history in the graph. A value is let go after its last use.
    """

    def __init__(self, graph: Graph) -> None:
        places: dict[Value, int] = {v: i for i, v in enumerate(graph.inputs)}
        self.count = len(graph.inputs)
        self.plain = [i for i, v in enumerate(graph.inputs) if not v.meta.requires_grad]
        constants = [x for node in graph.nodes for x in node.inputs if not isinstance(x, Value)]
        at = self.count
        self.rest: list[Any] = list(constants)
        free = iter(range(at, at + len(constants)))
        at += len(constants)
        last: dict[int, int] = {}
        operands: list[tuple[int, ...]] = []
        for number, node in enumerate(graph.nodes):
            operands.append(tuple([places[x] if isinstance(x, Value) else next(free) for x in node.inputs]))
            last.update(dict.fromkeys(operands[-1], number))
            for value in node.outputs:
                places[value], last[at] = at, number
                at += 1
                self.rest.append(None)
        self.outputs = [places[v] for v in graph.outputs]
        kept = {*self.outputs, *range(self.count, self.count + len(constants))}
        dying: dict[int, list[int]] = {}
        for place, number in last.items():
            if place not in kept:
                dying.setdefault(number, []).append(place)
        self.steps = [
            _Step(node.op.apply, operands[number], node.params, tuple([places[v] for v in node.outputs]),
                  _silent(node), tuple(dying.get(number, ())))
            for number, node in enumerate(graph.nodes)
        ]

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        if len(inputs) != self.count:
            raise ValueError(f"a graph with {self.count} inputs is given {len(inputs)}")
        values = [*inputs, *self.rest]
        for i in self.plain:
            if values[i]._meta.requires_grad:
                values[i] = values[i].detach()
        for apply, operands, params, results, silent, dead in self.steps:
            arguments = tuple([values[i] for i in operands])
            if silent:
                with rushlight.no_grad():  # the program computed this without gradients
                    found = apply(arguments, params)
            else:
                found = apply(arguments, params)
            if isinstance(found, tuple):
                for i, result in zip(results, found):
                    values[i] = result
            else:
                values[results[0]] = found
            del arguments, found
            for i in dead:
                values[i] = None
        return [values[i] for i in self.outputs]


def _silent(node: Any) -> bool:
    """Did the program compute this without gradients that could flow?"""
    return not any(v.meta.requires_grad for v in node.outputs) and any(
        isinstance(x, Value) and x.meta.requires_grad for x in node.inputs)
