"""The canonical text of a graph, and back.

    graph(v0: float32[2, 3], v1: float32[3]):
      v2 = add(v0, v1)  # float32[2, 3]
      v3 = sum(v2, dim=(0,), keepdim=False, dtype=float32)  # float32[3]
      return v3

Graphs among the params of an op (see `control`) follow the graph, as `graph g1(...)`, and are named in the call. Equal
graphs print the same text, whatever objects they are made of, so the text is also the key of caches. `parse`
reads what `text` wrote. Sizes that are symbols are written and read by functions that the caller gives.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.compiler.graph.control import op_named
from rushlight.compiler.graph.ir import Graph, Value
from rushlight.compiler.graph.symbolic import OPERATORS, SYMBOLS, Sym, SymFloat
from rushlight.core import dtypes, layout
from rushlight.core.devices import cpu, device
from rushlight.core.dtypes import dtype
from rushlight.core.meta import Meta, contiguous_strides, meta

_DTYPES = frozenset(d.name for d in dtypes.ALL)
_FORMATS = {str(f).rpartition(".")[2]: f for f in vars(layout).values() if isinstance(f, layout.memory_format)}
_META = re.compile(
    r"(?P<dtype>\w+)\[(?P<shape>[^\]]*)\](\{(?P<strides>[^}]*)\})?(?P<grad> grad)?(@(?P<device>[\w:]+))?$"
)


def text(graph: Graph, symbol: Callable[[Sym], str] = str) -> str:
    """The canonical text; `symbol` writes sizes that are not known."""
    graphs = [graph]
    parts = []
    for number, inner in enumerate(graphs):  # it grows meanwhile
        name = f" g{number}" if number else ""
        parts.append(f"graph{name}{_body(inner, symbol, graphs)}")
    return "".join(parts)


def _body(graph: Graph, symbol: Callable[[Sym], str], graphs: list[Graph]) -> str:
    """Inputs, calls and results; graphs in calls are added to `graphs`, which gives them their number."""
    names: dict[Value, str] = {}

    def name(value: Value) -> str:
        return names.setdefault(value, f"v{len(names)}")

    def param(x: Any) -> str:
        if type(x) is not Graph:
            return literal(x, symbol)
        graphs.append(x)
        return f"g{len(graphs) - 1}"

    lines = [f"({', '.join(f'{name(v)}: {meta_text(v.meta, symbol)}' for v in graph.inputs)}):"]
    for node in graph.nodes:
        operands = [names[x] if isinstance(x, Value) else literal(x, symbol) for x in node.inputs]
        params = [f"{key}={param(value)}" for key, value in zip(node.op.params, node.params)]
        results = ", ".join(name(v) for v in node.outputs)
        metas = ", ".join(meta_text(v.meta, symbol) for v in node.outputs)
        lines.append(f"  {results} = {node.op.name}({', '.join(operands + params)})  # {metas}")
    lines.append(f"  return {', '.join(names[v] for v in graph.outputs)}".rstrip())
    return "\n".join(lines) + "\n"


def meta_text(m: Meta, symbol: Callable[[Sym], str] = str) -> str:
    """`float32[2, 3]`, with strides when not row-major, ` grad` and `@device` where they differ from the usual."""

    def sizes(numbers: tuple) -> str:
        return ", ".join([symbol(n) if type(n) is Sym else str(n) for n in numbers])

    usual = all(a is b or type(a) is type(b) is int and a == b for a, b in zip(m.strides, contiguous_strides(m.shape)))
    strides = "" if usual else "{" + sizes(m.strides) + "}"
    where = "" if m.device is cpu else f"@{m.device}"
    return f"{m.dtype.name}[{sizes(m.shape)}]{strides}{' grad' if m.requires_grad else ''}{where}"


def parse_meta(source: str, size: Callable[[str], Any] = int) -> Meta:
    """The Meta of a text; `size` reads one size. ValueError when it is none."""
    match = _META.match(source.strip())
    if match is None:
        raise ValueError(f"no tensor metadata: {source!r}")

    def ints(part: str | None) -> tuple[int, ...]:
        return tuple([size(x) for x in part.split(",") if x.strip()]) if part else ()

    strides = ints(match["strides"]) if match["strides"] is not None else None
    return meta(
        dtypes.named(match["dtype"]),
        ints(match["shape"]),
        strides,
        device(match["device"] or "cpu"),
        bool(match["grad"]),
    )


def literal(x: Any, symbol: Callable[[Sym], str] = str) -> str:
    """A number, param or dtype as the text has it."""
    if type(x) is SymFloat:
        name, *operands = x.parts
        return f"{name}({', '.join([literal(part, symbol) for part in operands])})"
    if type(x) is Sym:
        return f"({symbol(x)})"
    if isinstance(x, dtype):
        return x.name
    if isinstance(x, device):
        return f"device({str(x)!r})"
    if isinstance(x, layout.memory_format):
        return str(x).rpartition(".")[2]
    if isinstance(x, np.generic):
        x = x.item()
    if isinstance(x, tuple):
        return (
            "(" + "".join(f"{literal(item, symbol)}, " for item in x).rstrip() + ")"
            if len(x) == 1
            else f"({', '.join([literal(item, symbol) for item in x])})"
        )
    if isinstance(x, float) and not math.isfinite(x):
        return "nan" if math.isnan(x) else "inf" if x > 0 else "-inf"
    if x is None or isinstance(x, (bool, int, float, complex, str)):
        return repr(x)
    return f"object({type(x).__name__!r})"


def parse(source: str, size: Callable[[str], Any] = int) -> Graph:
    """The graph of a text; `size` reads a size that may be a symbol. ValueError for text that `text` would not write.
    """
    parts = re.split(r"^graph ", source.strip(), flags=re.MULTILINE)
    graphs: dict[str, Graph] = {}
    for number in range(len(parts) - 1, 0, -1):  # the last one first: graphs hold those that follow them
        graphs[f"g{number}"] = _parse(parts[number], size, graphs)
    made = _parse(parts[0], size, graphs)
    if graphs:
        raise ValueError(f"graphs that nothing calls: {', '.join(graphs)}")
    return made


def _parse(source: str, size: Callable[[str], Any], graphs: dict[str, Graph]) -> Graph:
    def value_of(node: ast.expr) -> Any:
        return _value(node, values, size)

    def param(node: ast.expr) -> Any:
        # each is named once: a text of few graphs that name each other twice would be one of millions
        return graphs.pop(node.id) if isinstance(node, ast.Name) and node.id in graphs else value_of(node)

    lines = source.strip().split("\n")
    graph, values = Graph(), {}
    for declared in re.findall(r"(v\d+): ([^:]*?)(?=, v\d+:|\):$)", lines[0]):
        values[declared[0]] = graph.input(parse_meta(declared[1], size))
    for line in lines[1:-1]:
        call, _, metas = line.partition("  # ")
        try:
            statement = ast.parse(call.strip()).body[0]
        except (MemoryError, RecursionError):
            raise ValueError("an operand in too many parentheses") from None
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            raise ValueError(f"not an op call: {line!r}")
        op = op_named(ast.unparse(statement.value.func))
        operands = tuple([value_of(a) for a in statement.value.args])
        params = {k.arg: param(k.value) for k in statement.value.keywords}
        target = statement.targets[0]
        names = [t.id for t in target.elts] if isinstance(target, ast.Tuple) else [target.id]
        parsed = tuple([parse_meta(m, size) for m in re.split(r", (?=\w+\[)", metas)])
        single = len(names) == 1
        results = graph.call(op, operands, tuple([params[name] for name in op.params]), parsed[0] if single else parsed)
        values.update(zip(names, (results,) if single else results))
    returned = lines[-1].strip().removeprefix("return").strip()
    graph.output([values[name.strip()] for name in returned.split(",")] if returned else [])
    return graph


def parse_number(source: str, size: Callable[[str], Any]) -> Any:
    """A number as `literal` writes it; `size` reads a size. ValueError for other text."""
    return _value(ast.parse(source.strip(), mode="eval").body, {}, size)


def _value(node: ast.expr, values: dict[str, Value], size: Callable[[str], Any]) -> Any:
    """The object of an argument: a value, a literal, a dtype, a device, or a size that is a symbol."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Tuple():
            return tuple([_value(item, values, size) for item in node.elts])
        case ast.UnaryOp(op=ast.USub()):
            return -_value(node.operand, values, size)
        case ast.BinOp(op=ast.Add() | ast.Sub() as op, right=ast.Constant(value=complex() as imaginary)):
            real = _value(node.left, values, size)  # complex(1, 2) prints as (1+2j)
            return real + imaginary if isinstance(op, ast.Add) else real - imaginary
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.Name(id="inf" | "nan" as name):
            return float(name)
        case ast.Name(id=name) if name in _FORMATS:
            return _FORMATS[name]
        case ast.Name(id=name) if name in _DTYPES:
            return dtypes.named(name)
        case ast.Name() | ast.BinOp() if size is not int:
            return size(ast.unparse(node))
        case ast.Call(func=ast.Name(id=name), args=parts) if name in OPERATORS and size is not int:
            operands = [_value(x, values, size) for x in parts]
            symbols = [x for x in operands if isinstance(x, SYMBOLS)]
            if not symbols or any(type(x) not in (int, float, *SYMBOLS) for x in operands):
                raise ValueError(f"no float of sizes: {ast.unparse(node)!r}")
            return SymFloat.of(symbols[0].facts, name, *operands)
        case ast.Call(func=ast.Name(id="device"), args=[ast.Constant(value=where)]):
            return device(str(where))
    raise ValueError(f"cannot read {ast.unparse(node)!r}")
