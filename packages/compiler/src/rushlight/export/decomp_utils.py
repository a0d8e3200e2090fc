"""Taking exported programs apart into simpler operations: `run_decompositions`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rushlight.compiler.graph.facts import Fixed
from rushlight.compiler.graph.ir import Node
from rushlight.compiler.graph.passes import eliminate_dead, taken_apart
from rushlight.core.op import REGISTRY, Op
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


class _Whole(BaseException):
    """The parts of an op need the number behind an open size. A BaseException, as what it is made from."""

    def __init__(self, op: Op) -> None:
        super().__init__(op.name)
        self.op = op


def _parts(op: Op, function: Callable, *given: Any) -> Any:
    try:
        return function(*given)
    except Fixed:
        raise _Whole(op) from None


def run(program: ExportedProgram, table: dict[Op, Callable] | None) -> ExportedProgram:
    """The program with the operations of a table in parts, and parts of parts, but for those of which the parts depend
    on the number behind an open size, such as recurrent layers.
    """
    table = default_decompositions() if table is None else table
    for op, function in table.items():
        if not isinstance(op, Op) or not callable(function):
            raise TypeError(f"run_decompositions: expected a table from ops to functions, got {op!r}: {function!r}; "
                            "rushlight.export.default_decompositions() is one")
    facts, whole = program.facts, set[Op]()

    def parts(node: Node) -> Callable | None:
        function = None if node.op in whole else table.get(node.op)
        return None if function is None else partial(_parts, node.op, function)

    with OPENING:
        if facts is not None:
            facts.open = True  # the parts may ask more about sizes; answers become guards
        try:
            graph = None
            while graph is None:
                try:
                    with recording():
                        graph = eliminate_dead(taken_apart(program.graph, parts, gradients=True))
                except _Whole as left:
                    whole.add(left.op)
        finally:
            if facts is not None:
                facts.open = False
    inputs = program.graph_signature.input_specs
    names = value_names(graph, tensor_inputs(ExportGraphSignature(inputs, [])))
    values = iter(graph.outputs)
    outputs = [replace(s, arg=TensorArgument(names[next(values)])) if isinstance(s.arg, TensorArgument) else s
               for s in program.graph_signature.output_specs]
    return program.with_graph(graph, ExportGraphSignature(inputs, outputs))
