"""Taking exported programs apart into simpler operations: `run_decompositions`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight.compiler.capture import state
from rushlight.compiler.graph.builder import GraphBuilder, GraphTensor, tracer
from rushlight.compiler.graph.facts import Fixed
from rushlight.compiler.graph.ir import Graph, Value
from rushlight.compiler.graph.passes import eliminate_dead
from rushlight.core import dispatch, eager
from rushlight.core.meta import Meta
from rushlight.core.op import REGISTRY, Op
from rushlight.core.tensor import Tensor
from rushlight.export.graph_signature import ExportGraphSignature, TensorArgument
from rushlight.export.readable import tensor_inputs, value_names
from rushlight.export.symbols import OPENING
from rushlight.export.trace import recording

if TYPE_CHECKING:
    from rushlight.export.exported_program import ExportedProgram

__all__ = ["CustomDecompTable", "default_decompositions"]


class CustomDecompTable(dict):
    """How operations are taken apart: from an op to a function of its operands and params."""


def default_decompositions() -> CustomDecompTable:
    """The decompositions of all operations that are declared with one.

    Example:
        >>> import rushlight
        >>> table = rushlight.export.default_decompositions()
        >>> program = rushlight.export.export(lambda x: x.mean(0), (rushlight.zeros(2),))
        >>> [(node.op.name, node.op in table) for node in program.graph.nodes]
        [('mean', True)]
        >>> [(node.op.name, node.op in table) for node in program.run_decompositions().graph.nodes]
        [('sum', False), ('true_divide', False)]
    """
    return CustomDecompTable({op: op.decomposition for op in REGISTRY.values() if op.decomposition is not None})


def run(program: ExportedProgram, table: dict[Op, Callable] | None) -> ExportedProgram:
    """The program with the operations of a table in parts, and parts of parts."""
    table = default_decompositions() if table is None else table
    for op, function in table.items():
        if not isinstance(op, Op) or not callable(function):
            raise TypeError(f"run_decompositions: expected a table from ops to functions, got {op!r}: {function!r}; "
                            "rushlight.export.default_decompositions() is one")
    facts = program.facts
    with OPENING:
        if facts is not None:
            facts.open = True  # the parts may ask more about sizes; answers become guards
        try:
            with recording():
                graph = eliminate_dead(_taken_apart(program.graph, table))
        except Fixed as reason:
            raise NotImplementedError(f"run_decompositions: an open size would have to be a number: {reason}") from None
        finally:
            if facts is not None:
                facts.open = False
    inputs = program.graph_signature.input_specs
    names = value_names(graph, tensor_inputs(ExportGraphSignature(inputs, [])))
    values = iter(graph.outputs)
    outputs = [replace(s, arg=TensorArgument(names[next(values)])) if isinstance(s.arg, TensorArgument) else s
               for s in program.graph_signature.output_specs]
    return program.with_graph(graph, ExportGraphSignature(inputs, outputs))


def _taken_apart(graph: Graph, table: dict[Op, Callable]) -> Graph:
    made = Graph()
    copies: dict[Value, Any] = {v: _tensor(made.input(v.meta)) for v in graph.inputs}
    with dispatch.push(_Apart(made, table)):
        for node in graph.nodes:
            operands = tuple([copies[x] if isinstance(x, Value) else x for x in node.inputs])
            recorded = any(v.meta.requires_grad for v in node.outputs)
            if not recorded and state.has_gradients():
                with rushlight.no_grad():  # as the program does
                    found = node.op.apply(operands, node.params)
            else:
                found = node.op.apply(operands, node.params)
            copies.update(zip(node.outputs, found if isinstance(found, (tuple, list)) else (found,)))
    made.output([copies[v]._value for v in graph.outputs])
    return made


def _tensor(value: Value) -> GraphTensor:
    made = tracer(value)
    made._meta = value.meta
    return made


class _Apart(GraphBuilder):
    """Appends calls to a graph, those in the table in parts; notes which results require gradients."""

    def __init__(self, graph: Graph, table: dict[Op, Callable]) -> None:
        super().__init__(graph)
        self.table = table

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        """Append one call, or its parts."""
        if op in self.table:
            return self.table[op](*operands, *params)
        operands = tuple([eager.operand(op, i, x) for i, x in enumerate(operands)])
        if op.mutates or any(isinstance(x, Tensor) and not isinstance(x, GraphTensor) for x in operands):
            raise NotImplementedError(f"run_decompositions: {op.name} in a decomposition writes in place, or uses a "
                                      "tensor from outside the graph")
        metas: Any = op.infer_metas(operands, params)
        many = not isinstance(metas, Meta)
        flags = state.records(op, operands, len(metas) if many else 1)
        marked = [m.with_grad(flag and m.dtype.is_inexact) for m, flag in zip(metas if many else (metas,), flags)]
        values = tuple([x._value if isinstance(x, GraphTensor) else x for x in operands])
        made = self.graph.call(op, values, params, tuple(marked) if many else marked[0])
        return tuple([_tensor(v) for v in made]) if many else _tensor(made)
