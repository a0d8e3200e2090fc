"""Exported programs as text for people: with the names of parameters and arguments. `graph/text.py` is for files."""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING

from rushlight.compiler.graph.ir import Graph, Value
from rushlight.compiler.graph.text import literal, meta_text
from rushlight.export.graph_signature import ConstantArgument, ExportGraphSignature, InputKind, TensorArgument

if TYPE_CHECKING:
    from rushlight.export.exported_program import ExportedProgram


def is_name(name: str) -> bool:
    """Is it the name of a variable in Python?"""
    return name.isidentifier() and not keyword.iskeyword(name)


def value_names(graph: Graph, inputs: list[str]) -> dict[Value, str]:
    """A name for each value: those given for the inputs, then the names of the ops, with a number where one repeats."""
    taken: dict[str, int] = {}
    names: dict[Value, str] = {}

    def enter(value: Value, name: str) -> None:
        names[value] = unique(name, taken)

    for value, name in zip(graph.inputs, inputs, strict=True):
        enter(value, name)
    for node in graph.nodes:
        for value in node.outputs:
            name = node.op.name.rpartition(".")[2]
            enter(value, name if len(node.outputs) == 1 else f"{name}_{value.index}")
    return names


def unique(name: str, taken: dict[str, int]) -> str:
    """The name, with a number behind it if it is taken; enters it."""
    while name in taken:
        taken[name] += 1
        name = f"{name}_{taken[name]}"
    taken[name] = 0
    return name


def tensor_inputs(signature: ExportGraphSignature) -> list[str]:
    """The names of the graph's inputs."""
    return [s.arg.name for s in signature.input_specs if isinstance(s.arg, TensorArgument)]


def code(program: ExportedProgram) -> str:
    """The program as a function."""
    signature = program.graph_signature
    names = value_names(program.graph, tensor_inputs(signature))
    inputs = iter(program.graph.inputs)
    arguments, lines = [], []
    for spec in signature.input_specs:
        if spec.kind in (InputKind.RANDOM, InputKind.SIZE):
            next(inputs)
        elif isinstance(spec.arg, ConstantArgument):
            arguments.append(f"{spec.arg.name}={literal(spec.arg.value)}")
        else:
            arguments.append(f"{spec.arg.name}: {_meta(next(inputs))}")
    random = [v for v, s in zip(program.graph.inputs, [s for s in signature.input_specs
                                                      if isinstance(s.arg, TensorArgument)])
              if s.kind is InputKind.RANDOM]
    numbers = program.graph.inputs[len(program.graph.inputs) - len(random) - len(program.numbers):]
    lines += [f"{names[value]}: {_meta(value)} = {literal(sym)}" for value, sym in zip(numbers, program.numbers)]
    for value, draw in zip(random, program.draws):
        parts = ["seed", f"offset + {draw.offset}", *map(literal, draw.numbers), *_params(draw.op.params, draw.params)]
        lines.append(f"{names[value]}: {_meta(value)} = {draw.op.name}({', '.join(parts)})")
    lines += _calls(program.graph, names)
    returned = [s.arg.name if isinstance(s.arg, TensorArgument) else literal(s.arg.value)
                for s in signature.output_specs]
    lines.append(f"return ({', '.join(returned)}{',' if len(returned) == 1 else ''})")
    return "\n".join([f"def forward({', '.join(arguments)}):", *["    " + line for line in lines]])


def _calls(graph: Graph, names: dict[Value, str]) -> list[str]:
    """A line for each call; graphs among its params are functions before it."""
    lines = []
    for node in graph.nodes:
        operands = [names[x] if isinstance(x, Value) else literal(x) for x in node.inputs]
        params = []
        for key, value in zip(node.op.params, node.params):
            if isinstance(value, Graph):
                own = f"{names[node.outputs[0]].removesuffix('_0')}_{key}"
                lines += _function(own, value, operands[len(operands) - len(value.inputs):])
                params.append(f"{key}={own}")
            else:
                params.append(f"{key}={literal(value)}")
        left = ", ".join(names[v] for v in node.outputs)
        what = f": {_meta(node.outputs[0])}" if len(node.outputs) == 1 else ""
        note = "" if what else f"  # {', '.join(map(_meta, node.outputs))}"
        lines.append(f"{left}{what} = {node.op.name}({', '.join([*operands, *params])}){note}")
    return lines


def _function(name: str, graph: Graph, inputs: list[str]) -> list[str]:
    taken: dict[str, int] = {}
    names = value_names(graph, [unique(x, taken) for x in inputs])
    arguments = ", ".join([f"{names[v]}: {_meta(v)}" for v in graph.inputs])
    returned = ", ".join([names[v] for v in graph.outputs])
    return [f"def {name}({arguments}):", *["    " + line for line in [*_calls(graph, names), f"return {returned}"]]]


def program(program: ExportedProgram) -> str:
    """Program, signature and ranges."""
    signature = "\n".join("    " + line for line in str(program.graph_signature).split("\n"))
    body = "\n".join("    " + line for line in code(program).split("\n"))
    return (f"ExportedProgram:\n{body}\n\nGraph signature:\n{signature}\n\n"
            f"Range constraints: {program.range_constraints}")


def _meta(value: Value) -> str:
    return meta_text(value.meta).replace(" grad", "")


def _params(names: tuple[str, ...], values: tuple) -> list[str]:
    return [f"{name}={literal(value)}" for name, value in zip(names, values)]
