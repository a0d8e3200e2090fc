"""Checks that a graph is well formed; the tests run it on the graphs that the passes make."""

from __future__ import annotations

from rushlight.compiler.graph.control import graphs_of
from rushlight.compiler.graph.ir import Graph, Value
from rushlight.core.meta import Meta, meta
from rushlight.core.op import meta_of


class GraphError(AssertionError):
    """A graph that breaks a rule: an error in the compiler, not in the program."""


def verify(graph: Graph, *, layouts: bool = True) -> Graph:
    """Raise GraphError unless every value is defined before use and has the metadata that its op infers; returns the
    graph.
    """
    defined: set[Value] = set(graph.inputs)
    for number, node in enumerate(graph.nodes):
        where = f"node {number} ({node.op.name})"
        if node.op.mutates:
            raise GraphError(f"{where}: an op that writes in place in a pure graph")
        if len(node.params) != len(node.op.params):
            raise GraphError(f"{where}: {len(node.params)} params, the op has {len(node.op.params)}")
        for inner in graphs_of(node):
            verify(inner, layouts=layouts)
        for x in node.inputs:
            if isinstance(x, Value) and x not in defined:
                raise GraphError(f"{where}: an operand is used before it is computed")
        inferred = node.op.infer(
            *[x.meta.with_grad(False) if isinstance(x, Value) else meta_of(x) for x in node.inputs], *node.params
        )
        expected = (inferred,) if isinstance(inferred, Meta) else inferred
        if expected is not None:
            if len(expected) != len(node.outputs):
                raise GraphError(f"{where}: {len(node.outputs)} results, the op has {len(expected)}")
            for value, want in zip(node.outputs, expected):
                if _comparable(value.meta, layouts) is not _comparable(want, layouts):
                    raise GraphError(f"{where}: result is {value.meta}, inferred is {want}")
        defined.update(node.outputs)
    for value in graph.outputs:
        if value not in defined:
            raise GraphError("an output is never computed")
    return graph


def _comparable(m: Meta, layouts: bool) -> Meta:
    return m.with_grad(False) if layouts else meta(m.dtype, m.shape, None, m.device)
