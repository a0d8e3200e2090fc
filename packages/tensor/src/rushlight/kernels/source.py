"""Prints an expression graph as Python source of a loop, which numba compiles.

A `Loop` is a program plus how each operand walks through memory:

- `"c"`: next element is the neighbour in memory,
- `"0"`: the same element all along (a scalar, or the inner dimension is broadcast),
- `"s"`: a stride known at run time.

A tiled loop goes through squares of the two inner dimensions, `TILE` wide: for operands whose neighbours lie along
different ones of them (`x + y.T`), so that each cache line is used whole while it is near.

Rank 1 without strides is a flat range loop `kernel(lo, hi, out0, in0, ...)`; everything else is
`kernel(lo, hi, layout, out0, in0, ...)`, where `layout` holds sizes and element strides (see `layout.py`). Sizes
never enter the source: one kernel serves all shapes. `lo` and `hi` count elements in iteration order, so any cut is a
valid share of work.

The source runs as it stands with `NAMESPACE` of the device's intrinsics; integer results are cast at every step,
because numba widens integers to 64 bits and literals to float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.kernels.trace import Apply, Const, Input, Node, Program

TILE = 32

SHORT = {
    "bool": "b1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128",
}  # fmt: skip

_INFIX = {
    s.add: "+", s.subtract: "-", s.multiply: "*", s.divide: "/", s.bitwise_and: "&", s.bitwise_or: "|",
    s.bitwise_xor: "^", s.equal: "==", s.not_equal: "!=", s.less: "<", s.less_equal: "<=", s.greater: ">",
    s.greater_equal: ">=",
}  # fmt: skip
# Functions that stay calls into libm, one element at a time, once a graph is expanded.
_CALLS = {
    s.exp, s.exp2, s.expm1, s.log, s.log2, s.log10, s.log1p, s.sin, s.cos, s.tan, s.asin, s.acos, s.atan, s.sinh,
    s.cosh, s.tanh, s.asinh, s.acosh, s.atanh, s.atan2, s.hypot, s.erf, s.erfc, s.lgamma, s.pow, s.fmod, s.nextafter,
    s.gcd,
}  # fmt: skip
_COMPLEX_METHODS = {s.real: ".real", s.imag: ".imag", s.conj: ".conjugate()"}


@dataclass(frozen=True, slots=True)
class Loop:
    """A program over arrays: `walks` has one of "c", "0", "s" per operand, results first."""

    program: Program
    walks: tuple[str, ...]
    rank: int = 1
    tiled: bool = False

    @property
    def flat(self) -> bool:
        return self.rank == 1 and "s" not in self.walks

    @property
    def signature(self) -> tuple[str, ...]:
        """Argument types: "u64" for a number, "*f32" for the address of float32 elements."""
        dtypes = [node.dtype for node in self.program.outputs] + list(self.program.inputs)
        layout = () if self.flat else ("*i64",)
        return ("u64", "u64", *layout, *(f"*{SHORT[dtype.name]}" for dtype in dtypes))


def is_call(node: Node) -> bool:
    """Whether the node keeps LLVM from vectorising the loop it is in."""
    return isinstance(node, Apply) and (node.function in _CALLS or isinstance(node.function, s.Opaque))


def literal_source(value: Any, dtype: np.dtype) -> str:
    """Python source of a constant of exactly that dtype."""
    short = SHORT[dtype.name]
    if dtype.kind == "b":
        return str(bool(value))
    if dtype.kind == "c":
        return f"{short}(complex({_number(value.real)}, {_number(value.imag)}))"
    return f"{short}({int(value)})" if dtype.kind in "iu" else f"{short}({_number(value)})"


def _number(value: float) -> str:
    value = float(value)
    if math.isnan(value):
        return "nan"
    return repr(value) if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def expression(node: Apply, args: list[str]) -> str:
    """Source of one operation on already named operands."""
    function, dtype, operand = node.function, node.dtype, node.args[0].dtype
    short = SHORT[dtype.name]
    name = function.name
    if function is s._cast:
        return f"{short}({args[0]})"
    if function is s._bitcast:
        return f"bitcast({args[0]}, {short})"
    if isinstance(function, s.Opaque):
        inner = args if function.compute == "same" else [f"f64({arg})" for arg in args]
        return f"{short}({name}({', '.join(inner)}))"
    if function is s.negative:
        text = f"-{args[0]}" if dtype.kind != "u" else f"{short}(0) - {args[0]}"
    elif function is s.bitwise_not:
        text = f"~{args[0]}" if dtype.kind != "b" else f"not {args[0]}"
    elif function is s.complex:
        text = f"complex({', '.join(args)})"
    elif function in _COMPLEX_METHODS:
        return f"{args[0]}{_COMPLEX_METHODS[function]}"
    elif function is s.abs:
        text = f"fabs({args[0]})" if operand.kind == "f" else f"abs({args[0]})"
    elif function in _INFIX:
        text = f"{args[0]} {_INFIX[function]} {args[1]}"
        if function.result == "bool":
            return text
    elif function is s.pow and dtype.kind in "iu":
        negative = f"{args[1]} < 0" if dtype.kind == "i" else "False"
        text = f"integer_pow(i64({args[0]}), u64({args[1]}), {negative})"
    elif function is s.fmod and dtype.kind in "iu":
        text = f"truncate_remainder({', '.join(args)})"
    else:
        text = f"{'c_' if operand.kind == 'c' else ''}{name}({', '.join(args)})"
    if dtype.kind == "f" and (function in _INFIX or function.result in ("same", "real", "part")):
        return text  # numba keeps the operand's width there
    return f"{short}({text})"


_REASSOCIABLE = (s.add, s.multiply, s.maximum, s.minimum)


def emit(
    program: Program, operands: Sequence[str], prefix: str = "t", reassociate: bool = False
) -> tuple[list[str], list[str]]:
    """One assignment per operation, and the names of the results. `operands` are sources of the inputs.

    With `reassociate`, sums and products of floats may be reordered, and of zeros of both signs either is the largest:
    for the accumulators of reductions, and nothing else.
    """
    names: dict[Node, str] = {}
    lines: list[str] = []
    for node in program.nodes():
        match node:
            case Input():
                names[node] = operands[node.index]
            case Const():
                names[node] = literal_source(node.value, node.dtype)
            case Apply():
                args = [names[arg] for arg in node.args]
                names[node] = f"{prefix}{len(lines)}"
                if reassociate and node.dtype.kind == "f" and node.function in _REASSOCIABLE:
                    lines.append(f"{names[node]} = reassociable_{node.function.name}({', '.join(args)})")
                else:
                    lines.append(f"{names[node]} = {expression(node, args)}")
    return lines, [names[node] for node in program.outputs]


def loop_source(loop: Loop) -> str:
    """Source of `kernel` for the loop."""
    program = loop.program
    operands = [f"out{i}" for i in range(len(program.outputs))] + [f"in{i}" for i in range(len(program.inputs))]
    used = {node.index for node in program.nodes() if isinstance(node, Input)}
    writer = _flat if loop.flat else _tiled if loop.tiled else _strided
    return "\n".join(writer(loop, operands, used)) + "\n"


def _element_lines(loop: Loop, at: dict[str, str], used: set[int]) -> list[str]:
    """Loads, computation and stores for one element; `at` gives each operand's index source, absent when it was
    loaded before."""
    lines = [f"x{k} = load(in{k}, {at[f'in{k}']})" for k in sorted(used) if f"in{k}" in at]
    computation, results = emit(loop.program, [f"x{k}" for k in range(len(loop.program.inputs))])
    return lines + computation + [f"store(out{k}, {at[f'out{k}']}, {name})" for k, name in enumerate(results)]


def _flat(loop: Loop, operands: list[str], used: set[int]) -> list[str]:
    at, before = {}, []
    for operand, walk in zip(operands, loop.walks, strict=True):
        if walk == "c":
            at[operand] = "i"
        elif int(operand[2:]) in used:
            before.append(f"    x{operand[2:]} = load({operand}, u64(0))")
    return [
        f"def kernel(lo, hi, {', '.join(operands)}):",
        "    wide_vectors()",
        *before,
        "    for i in range(lo, hi):",
        *(f"        {line}" for line in _element_lines(loop, at, used)),
    ]


def _strided_head(loop: Loop, operands: list[str]) -> list[str]:
    lines = [f"def kernel(lo, hi, layout, {', '.join(operands)}):", "    wide_vectors()"]
    lines += [f"    n{d} = u64(load(layout, u64({d})))" for d in range(loop.rank)]
    position = loop.rank
    for operand, walk in zip(operands, loop.walks, strict=True):
        for d in range(loop.rank):
            if d < loop.rank - 1 or walk == "s":
                lines.append(f"    {operand}_s{d} = u64(load(layout, u64({position})))")
            position += 1
    return lines


def _row(loop: Loop, operands: list[str], used: set[int], dims: Sequence[int]) -> tuple[list[str], dict[str, str]]:
    """Where a row begins in each operand, what does not change along it, and the index of element `j`."""
    lines, at = [], {}
    for operand, walk in zip(operands, loop.walks, strict=True):
        offset = " + ".join(f"k{d} * {operand}_s{d}" for d in dims) or "u64(0)"
        lines.append(f"{operand}_row = {offset}")
        if walk != "0":
            at[operand] = f"{operand}_row + j" if walk == "c" else f"{operand}_row + j * {operand}_s{loop.rank - 1}"
        elif int(operand[2:]) in used:
            lines.append(f"x{operand[2:]} = load({operand}, {operand}_row)")
    return lines, at


def _tiled(loop: Loop, operands: list[str], used: set[int]) -> list[str]:
    """Here `lo` and `hi` count tiles."""
    rows, columns = loop.rank - 2, loop.rank - 1
    row, at = _row(loop, operands, used, range(loop.rank - 1))
    lines = _strided_head(loop, operands)
    lines += [f"    tiles{d} = (n{d} + u64({TILE - 1})) // u64({TILE})" for d in (rows, columns)]
    lines += ["    for tile in range(lo, hi):", f"        left = (tile % tiles{columns}) * u64({TILE})"]
    lines += [f"        rest = tile // tiles{columns}", f"        top = (rest % tiles{rows}) * u64({TILE})"]
    lines += [f"        rest = rest // tiles{rows}"]
    for d in reversed(range(rows)):
        lines += [f"        k{d} = rest % n{d}", f"        rest = rest // n{d}"]
    lines += [f"        for k{rows} in range(top, min(top + u64({TILE}), n{rows})):"]
    lines += [f"            {line}" for line in row]
    lines += [f"            for j in range(left, min(left + u64({TILE}), n{columns})):"]
    return lines + [f"                {line}" for line in _element_lines(loop, at, used)]


def _strided(loop: Loop, operands: list[str], used: set[int]) -> list[str]:
    rank = loop.rank
    outer = range(rank - 1)
    lines = _strided_head(loop, operands)
    lines += [
        "    i = lo",
        "    while i < hi:",
        f"        row = i // n{rank - 1}",
        f"        start = i - row * n{rank - 1}",
    ]
    lines += [f"        stop = min(n{rank - 1}, start + (hi - i))"]
    for d in reversed(outer):
        lines.append(f"        k{d} = row % n{d}" if d else "        k0 = row")
        if d:
            lines.append(f"        row = row // n{d}")
    row, at = _row(loop, operands, used, outer)
    lines += [f"        {line}" for line in row]
    lines.append("        for j in range(start, stop):")
    lines += [f"            {line}" for line in _element_lines(loop, at, used)]
    lines.append("        i += stop - start")
    return lines
