"""Fused elementwise operations as the source of a numba function that reads well."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from rushlight.compiler.graph.ir import Copy, Node, Value
from rushlight.compiler.lower.scalars import compose
from rushlight.core import dtypes
from rushlight.core.meta import Meta, meta
from rushlight.core.symbol import Opaque
from rushlight.kernels.build import build_program
from rushlight.kernels.source import emit

_INDEX = "ijklmnopqrstuvw"


@dataclass
class Loop:
    """The source of a kernel, to be called with `results` and `operands`, all of them `flat` (one-dimensional) or all
    as they are; and the opaque functions that it calls.
    """

    source: str
    opaques: tuple[Opaque, ...]
    operands: list[Value]
    flat: bool


def loop_of(name: str, nodes: list[Node], results: list[Value]) -> Loop:
    """A kernel `name(*results, *operands)` that computes nodes of one shape."""
    own = {v for node in nodes for v in node.outputs}
    operands = list(dict.fromkeys([x for node in nodes for x in node.inputs if isinstance(x, Value) and x not in own]))
    copy = Copy(operands, _wide)  # half types compute in float32
    wide = [copy.repeat(node) for node in nodes], [copy.values[v] for v in operands], [copy.values[v] for v in results]
    program = build_program(compose(*wide), [v.meta.numpy for v in wide[1]], [v.meta.numpy for v in wide[2]])
    shape = results[0].meta.shape
    same = all(v.meta.shape == shape and v.meta.contiguous for v in operands)
    places = ["[i]" if same else _place(v.meta.shape, len(shape)) for v in (*results, *operands)]
    outs = [f"out{k}" if len(results) > 1 else "out" for k in range(len(results))]
    ins = [f"in{k}" for k in range(len(operands))]
    lines, values = emit(program, [f"x{k}" for k in range(len(operands))])
    body = [f"x{k} = {in_}{at}" for k, (in_, at) in enumerate(zip(ins, places[len(outs):]))]
    body += lines + [f"{out}{at} = {value}" for out, at, value in zip(outs, places, values)]
    words = ", ".join([node.op.name for node in nodes])
    head = [f"def {name}({', '.join(outs + ins)}):", f'    """{words}"""']
    if same:
        loops = [f"for i in range({outs[0]}.size):"]
    else:
        loops = [f"{'    ' * d}for {_INDEX[d]} in range({outs[0]}.shape[{d}]):" for d in range(len(shape))]
    indent = "    " * (len(loops) + 1)
    text = "\n".join([*head, *["    " + line for line in loops], *[indent + line for line in _tidy(body)]])
    return Loop(text, program.opaques(), operands, same)


def _wide(m: Meta) -> Meta:
    return meta(dtypes.float32, m.shape, m.strides, m.device) if m.dtype is dtypes.float16 else m


def _place(shape: tuple[int, ...], rank: int) -> str:
    """Where an operand that broadcasts to `rank` dimensions has the element of the indices i, j, ..."""
    lead = rank - len(shape)
    at = ["0" if size == 1 else _INDEX[lead + d] for d, size in enumerate(shape)]
    return f"[{', '.join(at)}]" if at else "[()]"


def _tidy(lines: list[str]) -> list[str]:
    """The lines with values that are read once written where they are read, as long as the line stays readable."""
    trees = [ast.parse(line).body[0] for line in lines]
    for number in range(len(lines) - 1):
        name, _, value = lines[number].partition(" = ")
        if not name.isidentifier():
            continue
        readers = [n for n in range(number + 1, len(lines)) if _reads(trees[n], name)]
        if len(readers) != 1 or _reads(trees[readers[0]], name) != 1:
            continue
        target = readers[0]
        merged = ast.unparse(_Put(name, ast.parse(value, mode="eval").body).visit(ast.parse(lines[target])))
        if len(merged) <= 96:
            lines[target], trees[target] = merged, ast.parse(merged).body[0]
            lines[number] = ""
            trees[number] = ast.parse("pass").body[0]
    return [line for line in lines if line]


def _reads(tree: ast.AST, name: str) -> int:
    return sum([isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
                for node in ast.walk(tree)])


class _Put(ast.NodeTransformer):
    """Writes an expression in place of a name."""

    def __init__(self, name: str, value: ast.expr) -> None:
        self.name, self.value = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.value if node.id == self.name and isinstance(node.ctx, ast.Load) else node
