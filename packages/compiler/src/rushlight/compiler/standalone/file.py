"""The text of a standalone file: inputs and weights as tables, kernels, `call`, and a check of the file by itself."""

from __future__ import annotations

import builtins
import keyword
import re
import textwrap
from typing import Any

import numpy as np

from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.ir import Value
from rushlight.compiler.standalone import helpers, transforms
from rushlight.compiler.standalone.printer import Printer, literal
from rushlight.compiler.standalone.rows import ROWS
from rushlight.compiler.standalone.scalars import ALIASES
from rushlight.core.meta import Meta
from rushlight.core.tensor import Tensor
from rushlight.export.exported_program import ExportedProgram, RandomDraw
from rushlight.export.graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from rushlight.utils._pytree import tree_flatten

_HEAD = '''"""{title}

Needs numpy and numba, nothing else. `call(inputs, weights)` computes on arrays; INPUTS and WEIGHTS say on which.
Run as a program, this file computes its example again and compares:

    python {file}
"""

import cmath
import math
import sys
from pathlib import Path

import numpy as np
from numba import njit

# name, dtype, shape
INPUTS = {inputs}
WEIGHTS = {weights}
# sum and sum of magnitudes of each output of the example
EXAMPLE = {example}
{counters}
def compiled(function, **options):
    """Compile a function with numba."""
    function.__module__ = "numpy"  # numba wants this module when it loads kept code; this file may get any name
    return njit(error_model="numpy", **options)(function)


def kernel(function):
    """A loop over arrays; its machine code is kept beside this file."""
    return compiled(function, cache=True, nogil=True)


inner = compiled  # functions that kernels call
'''
_CHECK = '''def match(kind, name, array, dtype, shape):
    """The array, if it is what `call` was made for."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{kind} {name}: expected a numpy array, got {type(array).__name__}")
    if array.dtype != dtype:
        raise TypeError(f"{kind} {name}: expected {dtype}, got {array.dtype}")
    if array.shape != shape:
        raise ValueError(f"{kind} {name}: expected shape {shape}, got {array.shape}")
    return array


def matched_inputs(inputs):
    """The inputs, if they are as in INPUTS."""
    if len(inputs) != len(INPUTS):
        raise TypeError(f"expected {len(INPUTS)} inputs, got {len(inputs)}")
    return [match("input", name, array, dtype, shape) for array, (name, dtype, shape) in zip(inputs, INPUTS)]


def matched_weights(weights):
    """The weights in the order of WEIGHTS."""
    missing = [name for name, _, _ in WEIGHTS if name not in weights]
    if missing:
        raise KeyError(f"missing weights: {', '.join(missing)}")
    return [match("weight", name, weights[name], dtype, shape) for name, dtype, shape in WEIGHTS]
'''
_MAIN = '''def main(path=None):
    """Compute the example in the .npz file beside this one; AssertionError when the results differ from EXAMPLE."""
    with np.load(path or Path(__file__).with_suffix(".npz")) as file:
        arrays = dict(file)
    inputs = [arrays[f"input {i}"] for i in range(len(INPUTS))]
    weights = {name: arrays[f"weight {name}"] for name, _, _ in WEIGHTS}
    for number, (output, expected) in enumerate(zip(call(inputs, weights), EXAMPLE)):
        if expected is not None:
            found = (np.sum(output, dtype=np.complex128), np.sum(np.abs(output), dtype=np.float64))
            np.testing.assert_allclose(found, expected, 1e-3, 1e-3 * expected[1], err_msg=f"output {number}")
    print(f"{len(EXAMPLE)} outputs as expected")


if __name__ == "__main__":
    main(*sys.argv[1:])
'''


def write_file(program: ExportedProgram, title: str, file: str) -> str:
    """The text of the file. NotImplementedError for what it cannot say."""
    signature = program.graph_signature
    specs = [s for s in signature.input_specs if isinstance(s.arg, TensorArgument)]
    names = _variables([s.arg.name for s in specs])
    printer = Printer(program.graph, names)
    users = [i for i, s in enumerate(specs) if s.kind is InputKind.USER_INPUT]
    states = [i for i, s in enumerate(specs) if s.target is not None]
    for value, draw in reversed([*zip(printer.graph.inputs[len(specs) - len(program.draws):], program.draws)]):
        printer.draw(value, _drawn(draw))
    metas = [v.meta for v in program.graph.inputs]
    head = _HEAD.replace("{title}", title).replace("{file}", file)
    head = head.replace("{inputs}", _table([repr(_row(specs[i].arg.name, metas[i])) for i in users]))
    head = head.replace("{weights}", _table([repr(_row(str(specs[i].target), metas[i])) for i in states]))
    head = head.replace("{example}", _table([literal(row) for row in _example(program)]))
    random = program.draws or program.counters
    head = head.replace("{counters}\n", f"# counters of the random generator that a call takes, from `offset` on\n"
                        f"COUNTERS = {program.counters}\n\n\n" if random else "\n\n")
    lines = [f"def call(inputs, weights{', seed=0, offset=0' if random else ''}):",
             '    """The outputs for arrays as in INPUTS and a dict as in WEIGHTS, in which buffers are updated."""']
    for listed, kind in ((users, "inputs"), (states, "weights")):
        if listed:
            lines.append(f"    {_wrapped([names[i] for i in listed])} = matched_{kind}({kind})")
    body = [*printer.lines, *_finish(program, printer, specs, names)]
    lines += ["    with np.errstate(all=\"ignore\"):", *["        " + line for line in body]]
    parts = [head.rstrip(), printer.scalars.text(), printer.functions.text(), *printer.sources, _CHECK.rstrip(),
             "\n".join(lines), _MAIN.rstrip()]
    return "\n\n\n".join([part for part in parts if part]) + "\n"


def _drawn(draw: RandomDraw) -> str:
    """What makes a random tensor."""
    known = {name: literal(p) for name, p in zip(draw.op.params, draw.params)}
    offset = f"offset + {draw.offset}" if draw.offset else "offset"
    return ROWS[draw.op.name].format(seed="seed", offset=offset, **known)


def _finish(program: ExportedProgram, printer: Printer, specs: list[InputSpec], names: list[str]) -> list[str]:
    """Checks, writes to what was given, and the results."""
    values = iter(printer.graph.outputs)
    pairs = [(s, next(values) if isinstance(s.arg, TensorArgument) else None)
             for s in program.graph_signature.output_specs]
    by_target = {s.target or s.arg.name: name for s, name in zip(specs, names)}
    lines, returned = [], []
    for spec, value in pairs:
        if spec.kind is OutputKind.CHECK and value is not None and value.meta.dtype.name == "bool":
            lines += [f"if np.any({printer.names[value]}):",
                      '    raise RuntimeError("an input holds a value that an operation of the program refuses")']
    for spec, value in pairs:
        if spec.kind is OutputKind.USER_OUTPUT:
            returned.append(_returned(spec, value, printer))
    lines += [f"{by_target[str(spec.target)]}[...] = {printer.names[value]}" for spec, value in pairs
              if spec.kind.writes and value is not None]
    return [*lines, f"return [{', '.join(returned)}]"]


def _returned(spec: OutputSpec, value: Value | None, printer: Printer) -> str:
    if isinstance(spec.arg, ConstantArgument):
        if not isinstance(spec.arg.value, (int, float, complex, str, type(None))):
            raise NotImplementedError(f"precompile: a result of type {type(spec.arg.value).__name__}")
        return literal(spec.arg.value)
    if spec.alias is not None:
        raise NotImplementedError("precompile: a result that shares memory with an input that the program writes to; "
                                  "return a clone of it")
    assert value is not None
    name = printer.names[value]
    if value.node is not None and value.node.op.kind == "view" and not value.meta.shape:
        return f"np.asarray({name})"  # numpy takes single elements out as numbers
    return f"{name}.copy()" if value in printer.graph.inputs else name


def _example(program: ExportedProgram) -> list:
    """The sum and the sum of magnitudes of each result of the example."""
    found = iter(interpret(program.graph, example_tensors(program)))
    sums: list[Any] = []
    for spec in program.graph_signature.output_specs:
        array = next(found).detach().numpy() if isinstance(spec.arg, TensorArgument) else None
        if spec.kind is OutputKind.USER_OUTPUT:
            total = None if array is None else np.sum(array, dtype=np.complex128).item()
            sums.append(None if array is None else (total.real if not np.iscomplexobj(array) else total,
                                                    float(np.sum(np.abs(array), dtype=np.float64))))
    return sums


def example_tensors(program: ExportedProgram) -> list[Tensor]:
    """The inputs of the graph for the example: weights, and the arguments that the program was exported with."""
    drawn = [draw.op.apply((0, draw.offset, *draw.numbers), draw.params) for draw in program.draws]
    return [*state_tensors(program).values(), *argument_tensors(program), *drawn]


def state_tensors(program: ExportedProgram) -> dict[str, Tensor]:
    """Parameters, buffers and constants by name, in the order of the graph's inputs."""
    names = [str(s.target) for s in program.graph_signature.input_specs if s.target is not None]
    known = {**program.constants, **program.state_dict}
    return {name: known[name] for name in names}


def argument_tensors(program: ExportedProgram) -> list[Tensor]:
    """The tensors among the example arguments."""
    assert program.example_inputs is not None
    return [x for x in tree_flatten(program.example_inputs)[0] if isinstance(x, Tensor)]


def _row(name: str, m: Meta) -> tuple:
    return name, m.dtype.name, tuple(m.shape)


def _wrapped(names: list[str]) -> str:
    """The targets of an assignment, on as many lines as they need."""
    text = ", ".join(names)
    return f"({textwrap.fill(text, 110, subsequent_indent=' ' * 5)})" if len(names) > 1 else f"{text},"


def _table(rows: list[str]) -> str:
    return "[\n" + "".join([f"    {row},\n" for row in rows]) + "]" if rows else "[]"


def _variables(names: list[str]) -> list[str]:
    """Names of inputs as variables that hide nothing; numbered names are those of results."""
    taken = {"np", "math", "cmath", "sys", "inputs", "weights", "seed", "offset", "outputs", "call", "main", "match",
             "kernel", "inner", "INPUTS", "WEIGHTS", "EXAMPLE", "Path", "njit", "compiled", *ALIASES, *dir(builtins),
             *dir(helpers), *dir(transforms)}
    made = []
    for name in names:
        name = re.sub(r"\W", "_", name)
        while name in taken or keyword.iskeyword(name) or re.search(r"_\d+$", name) or not name.isidentifier():
            name = f"{name}_"
        taken.add(name)
        made.append(name)
    return made
