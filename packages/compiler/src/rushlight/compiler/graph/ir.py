"""The graph: a pure, topologically ordered list of op calls.

A `Value` carries the metadata that eager execution would give the tensor, `requires_grad` included. A value whose
metadata does not require grad is a constant for differentiation, even where its operands require grad (it was computed
under `no_grad`, or detached).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.meta import Meta
from rushlight.core.op import Op, meta_of


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor in the graph: an input (`node` None), or result number `index` of a node."""

    meta: Meta
    node: Node | None = None
    index: int = 0


@dataclass(frozen=True, eq=False)
class Node:
    """One op call; `inputs` are values, numbers and None."""

    op: Op
    inputs: tuple[Any, ...]
    params: tuple[Any, ...]
    outputs: list[Value] = field(default_factory=list)


def root(value: Value) -> Value:
    """What a value is a view of, in the end; itself when it is none."""
    while value.node is not None and value.node.op.kind == "view":
        value = value.node.inputs[0]
    return value


class Graph:
    """Inputs, nodes in order of execution, outputs."""

    def __init__(self) -> None:
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.outputs: list[Value] = []

    def input(self, meta: Meta) -> Value:
        """A new input."""
        value = Value(meta)
        self.inputs.append(value)
        return value

    def call(self, op: Op, operands: tuple, params: tuple = (), metas: Meta | tuple[Meta, ...] | None = None) -> Any:
        """Append an op call; returns its value, or a tuple of values.

        `metas` is the metadata of the results with the right requires_grad; inferred, without gradients, when left out.
        """
        if metas is None:
            metas = op.infer(*[x.meta if isinstance(x, Value) else meta_of(x) for x in operands], *params)
        node = Node(op, tuple(operands), tuple(params))
        self.nodes.append(node)
        if isinstance(metas, Meta):
            node.outputs.append(Value(metas, node))
            return node.outputs[0]
        node.outputs.extend(Value(m, node, i) for i, m in enumerate(metas))
        return tuple(node.outputs)

    def moved(self, node: Node, to: Node) -> None:
        """A node of another graph stands for one of this; for graphs that know more of their nodes."""

    def merge(self, op: Op, operands: tuple, params: tuple, values: list[Value]) -> None:
        """Let one call give values that several calls gave, each its only one; it stands where the first stood."""
        made = Node(op, operands, params)
        before = [value.node for value in values]
        at = min([self.nodes.index(node) for node in before])  # type: ignore[arg-type]
        self.nodes = [*self.nodes[:at], made, *[node for node in self.nodes[at:] if node not in before]]
        for i, value in enumerate(values):
            object.__setattr__(value, "node", made)
            object.__setattr__(value, "index", i)
        made.outputs.extend(values)

    def output(self, values: list[Value]) -> None:
        """Set the results."""
        self.outputs = list(values)

    def __str__(self) -> str:
        from rushlight.compiler.graph.text import text  # it reads graphs, too

        return text(self)


def _unchanged(m: Meta) -> Meta:
    return m


class Copy:
    """A graph in the making from calls of another; `values` has its own values for those of the other.

    `meta` gives the metadata of its values for theirs.
    """

    def __init__(self, inputs: Iterable[Value], meta: Callable[[Meta], Meta] = _unchanged) -> None:
        self.graph, self.meta = Graph(), meta
        self.values: dict[Value, Value] = {v: self.graph.input(meta(v.meta)) for v in inputs}

    def operands(self, node: Node, other: Callable[[Any], Any] | None = None) -> tuple:
        """The operands of a call; `other` gives those that are no values."""
        return tuple([self.values[x] if isinstance(x, Value) else x if other is None else other(x)
                      for x in node.inputs])

    def repeat(self, node: Node, operands: tuple | None = None, params: tuple | None = None) -> Node:
        """Append a call of the other graph, perhaps with other operands and params; the node of this one."""
        metas = tuple([self.meta(v.meta) for v in node.outputs])
        found = self.graph.call(node.op, self.operands(node) if operands is None else operands,
                                node.params if params is None else params, metas)
        for value, own in zip(node.outputs, found):
            self.values.setdefault(value, own)
        return self.graph.nodes[-1]

    def returns(self, outputs: Iterable[Value]) -> Graph:
        """The finished graph."""
        self.graph.output([self.values[v] for v in outputs])
        return self.graph
