"""The graph of an exported program as one of `rushlight.fx`, for tools that read those."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight.compiler.graph.ir import Value
from rushlight.core import siblings
from rushlight.export.readable import tensor_inputs, unique, value_names

if TYPE_CHECKING:
    from rushlight.export.exported_program import ExportedProgram


def graph_module(program: ExportedProgram) -> Any:
    """A module that takes all tensors of the graph, weights first, and gives a tuple; `node.meta["val"]` has shape,
    dtype and device of what a node gives.
    """
    fx = rushlight.fx
    graph = fx.Graph()
    names = value_names(program.graph, tensor_inputs(program.graph_signature))
    taken = dict.fromkeys(names.values(), 0)
    nodes: dict[Value, Any] = {}
    for value in program.graph.inputs:
        nodes[value] = graph.placeholder(names[value])
    for call in program.graph.nodes:
        args = tuple([nodes[x] if isinstance(x, Value) else x for x in call.inputs])
        single = len(call.outputs) == 1
        made = graph.call_function(call.op, args, dict(zip(call.op.params, call.params)))
        for value in call.outputs:
            nodes[value] = made if single else graph.call_function(operator.getitem, (made, value.index))
        if not single:
            made.name = unique(call.op.name.rpartition(".")[2], taken)
            made.meta["val"] = tuple([value.meta for value in call.outputs])
    for value, node in nodes.items():
        node.name, node.meta["val"] = names[value], value.meta  # the names of the signature
    graph.output(tuple([nodes[v] for v in program.graph.outputs]))
    return fx.GraphModule(siblings.root_name("nn").Module(), graph, program.name)
