"""Replacing ops by simpler ones, such as fused ops by what their declarations state."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from rushlight.compiler.capture import state
from rushlight.compiler.graph.builder import GraphBuilder, GraphTensor, tracer
from rushlight.compiler.graph.control import with_graphs
from rushlight.compiler.graph.ir import Copy, Graph, Node, Value
from rushlight.core import dispatch
from rushlight.core.meta import Meta
from rushlight.core.op import Op

Parts = Callable[[Node], Callable | None]  # the function of operands and params that says what a call consists of


def stated(wanted: Callable[[Node], bool]) -> Parts:
    """The decompositions that ops are declared with, of `wanted` calls. NotImplementedError for one without."""

    def parts(node: Node) -> Callable | None:
        if not wanted(node):
            return None
        if node.op.decomposition is None:
            raise NotImplementedError(f"{node.op.name} has no decomposition into simpler ops")
        return node.op.decomposition

    return parts


def taken_apart(graph: Graph, parts: Parts, *, gradients: bool = False) -> Graph:
    """The graph with the parts of each call in its place, where `parts` gives some, and with parts of parts.

    With `gradients`, parts say whether they require some, as they would in eager execution. NotImplementedError for
    parts that a graph cannot say.
    """
    copy = Copy(graph.inputs)
    handler = Apart(copy.graph, parts, gradients)
    with dispatch.push(handler):
        for node in graph.nodes:
            function = parts(node)
            if function is None:
                params = with_graphs(node.params, lambda inner: taken_apart(inner, parts, gradients=gradients))
                copy.repeat(node, params=params)
                continue
            silent = gradients and state.has_gradients() and not any(v.meta.requires_grad for v in node.outputs)
            operands = copy.operands(node)
            with state.grad_mode(False) if silent else contextlib.nullcontext():
                found = function(*[handler.tensor(x) if isinstance(x, Value) else x for x in operands], *node.params)
            found = found if isinstance(found, (tuple, list)) else (found,)
            copy.values.update((v, x._value) for v, x in zip(node.outputs, found) if x is not None)
    return copy.returns(graph.outputs)


class Apart(GraphBuilder):
    """Appends calls to a graph, in parts where there are some."""

    def __init__(self, graph: Graph, parts: Parts, gradients: bool) -> None:
        super().__init__(graph)
        self.parts, self.gradients = parts, gradients

    def tensor(self, value: Value) -> GraphTensor:
        """The tensor that stands for a value."""
        made = tracer(value)
        if self.gradients:
            made._meta = value.meta
        return made

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        """Append one call, or its parts."""
        if op.decomposition is not None or self.gradients:
            node = Node(op, tuple([x._value if isinstance(x, GraphTensor) else x for x in operands]), params)
            function = self.parts(node)
            if function is not None:
                return function(*operands, *params)
        return super().handle(op, operands, params)

    def metas(self, op: Op, operands: tuple, params: tuple) -> Any:
        """The metadata of the results."""
        metas: Any = super().metas(op, operands, params)
        if not self.gradients:
            return metas
        flags = state.records(op, operands, 1 if isinstance(metas, Meta) else len(metas))
        if isinstance(metas, Meta):
            return metas.with_grad(flags[0] and metas.dtype.is_inexact)
        return tuple([m.with_grad(flag and m.dtype.is_inexact) for m, flag in zip(metas, flags)])
