r"""Prints what happens to the lines of arrays along one dimension as Python source of a loop: softmax, variance, scans.

A `LineProgram` says what one line needs, in passes over its elements:

    LineProgram(
        outs=("y",), ins=("x",),
        values=(("top", "C(-inf)"), ("total", "W(0.0)"), ("scale", "C(0.0)")),
        passes=(
            Pass("top = fmax(top, x)"),
            Pass("e = exp(x - top)\ntotal += e\ny = e", "scale = C(1.0 / total)"),
            Pass("y = y * scale"),
        ),
    )

The body of a pass is done for each element, its end once for the line. `x` and `y` are the element of an operand; the
`values` of a line have a start and live through all passes. `total += e` sums in blocks: in lanes of the compute type
C, whose results are added in the wide type W. `e = exp_term(x)` is for sums of exponentials of numbers that the largest
was taken off, `k = ascending(x)` an integer of type K, see `order`. An operand of `each` has one element for the line.
Half types compute in float32.

Two loops are printed from it, by where neighbours are in memory:

- rows: a line lies in one piece, the lanes of vectors run along it. What is left at the end of a line is done by one
  more vector of `TAIL` that reaches back over elements done before, which are masked out where that matters: a scalar
  rest would take longer than the line;
- columns: neighbouring lines lie side by side, each lane has its own. The values of a strip of lines are arrays on the
  stack, and a strip is narrow enough for its lines to stay in the cache from pass to pass. Lines that do not lie side
  by side in all operands go this way too, `tiled`: copied to the stack and back, where they are turned to do so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.kernels import order, polynomials, polynomials64
from rushlight.kernels.build import build_program
from rushlight.kernels.half import compute_dtype
from rushlight.kernels.polynomials import POLYNOMIALS
from rushlight.kernels.source import SHORT, emit

BLOCK = 2048  # elements of a row that are summed in the compute type
TAIL = 64  # LLVM takes up to 4 vectors of 16 float32 at a time, and the rest one by one
WIDTH = 512  # most lines in a strip
ROWS = 16  # elements of a column that are summed in the compute type
TILE = 1 << 14  # most elements of a tile
TILE_WIDTH = 64  # most lines of a tile


def _exp_term(x: Any) -> Any:
    return (polynomials if s.dtype_of(x) == np.float32 else polynomials64).exp_term(x)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": s.exp,
    "exp_term": _exp_term,
    "log": s.log,
    "ascending": order.ascending,
    "descending": order.descending,
}
_CALL = re.compile(rf"(\s*)(\w+) = ({'|'.join(_FUNCTIONS)})\((.+)\)")
_HEAD = ("n", "segments", "lanes", "strips", "width", "rank", "parts")


@dataclass(frozen=True, slots=True)
class Pass:
    """Statements for each element of a line, and those for the line after them. A `sequential` one goes through the
    elements in order, the others in any."""

    body: str
    end: str = ""
    sequential: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class LineProgram:
    """What happens to a line; see the module's text. `integers` are the outputs of int64 elements.

    Each is made once, and equal to itself alone: all of its text would be a slow key.
    """

    outs: tuple[str, ...]
    ins: tuple[str, ...]
    values: tuple[tuple[str, str], ...]
    passes: tuple[Pass, ...]
    each: tuple[str, ...] = ()
    integers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LineLoop:
    """How a program walks: by `columns` or rows; `apart` says how far each operand's lanes lie apart: 1, 0 where all
    are the same element, None where the loop is to find out."""

    program: LineProgram
    dtype: np.dtype
    columns: bool
    apart: tuple[int | None, ...]
    tiled: bool = False

    @property
    def operands(self) -> tuple[str, ...]:
        return (*self.program.outs, *self.program.ins)

    @property
    def compute(self) -> np.dtype:
        return compute_dtype(self.dtype)

    @property
    def signature(self) -> tuple[str, ...]:
        own = SHORT["uint16" if self.compute != self.dtype else self.dtype.name]
        kinds = [
            "i64" if name in self.program.integers else SHORT[self.compute.name] if name in self.program.each else own
            for name in self.operands
        ]
        return ("u64", "u64", "*i64", *(f"*{kind}" for kind in kinds))


def wide_dtype(compute: np.dtype) -> np.dtype:
    """The type in which sums over blocks are added."""
    return np.dtype(np.float64) if compute.kind == "f" else compute


@lru_cache(maxsize=256)
def line_source(loop: LineLoop) -> str:
    """Source of `kernel` for the loop. Kept, because it does not depend on sizes, and new ones ask for it again."""
    lines = [
        f"def kernel(lo, hi, layout, {', '.join(f'{name}_data' for name in loop.operands)}):",
        "    wide_vectors()",
        *(f"    {name} = u64(load(layout, u64({k})))" for k, name in enumerate(_HEAD)),
        f"    strides = u64({len(_HEAD)}) + rank + parts",
        "    each = rank + parts + u64(2)",
    ]
    for k, name in enumerate(loop.operands):
        lines.append(f"    {name}_lane = u64(load(layout, strides + u64({k}) * each + each - u64(2)))")
        lines.append(f"    {name}_step = u64(load(layout, strides + u64({k}) * each + each - u64(1)))")
    lines += _columns(loop) if loop.columns else _rows(loop)
    return "\n".join(_expanded(lines, loop)) + "\n"


def _indent(lines: list[str], depth: int) -> list[str]:
    return [f"{'    ' * depth}{line}" for line in lines]


def _offsets(loop: LineLoop, index: str, suffix: str, start: str | None, first: str, count: str) -> list[str]:
    """Split an index over `count` dimensions, whose sizes begin at place `first` of the layout, and add up offsets."""
    lines = [f"rest = {index}"]
    lines += [f"{name}_{suffix} = {f'{name}_{start}' if start else 'u64(0)'}" for name in loop.operands]
    lines += [f"for back in few({count}):", f"    dimension = {first} + {count} - u64(1) - back"]
    lines += [f"    size = u64(load(layout, u64({len(_HEAD)}) + dimension))"]
    lines += ["    digit = rest % size", "    rest = rest // size"]
    for k, name in enumerate(loop.operands):
        lines.append(f"    {name}_{suffix} += digit * u64(load(layout, strides + u64({k}) * each + dimension))")
    return lines


def _names(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def _index(loop: LineLoop, name: str, lane: str, element: str) -> str:
    """The place of an element; `lane` and `element` count lines and along them."""
    step = "lane" if loop.columns or name in loop.program.each else "step"
    along = lane if step == "lane" else element
    inner = {0: "", 1: f" + {along}", None: f" + {along} * {name}_{step}"}[loop.apart[loop.operands.index(name)]]
    if name in loop.program.each:
        return f"{name}_line{inner}"
    return f"{name}_at + {element} * {name}_step{inner}" if loop.columns else f"{name}_at{inner}"


def _loads(loop: LineLoop, names: set[str], lane: str, element: str, written: set[str]) -> list[str]:
    lines = []
    for name in loop.operands:
        if name in names:
            read = "scratch_load" if name in written else "load"
            if loop.tiled and name not in loop.program.each:
                lines.append(f"{name} = scratch_load({name}_tile, {element} * width + {lane} - left)")
                continue
            raw = f"{name}_raw" if loop.compute != loop.dtype and name not in loop.program.each else name
            lines.append(f"{raw} = {read}({name}_data, {_index(loop, name, lane, element)})")
            if raw != name:
                steps, (value,) = emit(build_program(lambda e: e, [loop.dtype], [loop.compute]), [raw], f"{name}_w")
                lines += [*steps, f"{name} = {value}"]
    return lines


def _stores(
    loop: LineLoop, names: set[str], lane: str, element: str, written: set[str], all: bool = False
) -> list[str]:
    lines = []
    for name in loop.operands if all else loop.program.outs:
        if name in names:
            value = name
            if loop.tiled and name not in loop.program.each:
                lines.append(f"scratch_store({name}_tile, {element} * width + {lane} - left, {name})")
                continue
            if name not in loop.program.integers and name not in loop.program.each and loop.compute != loop.dtype:
                steps, (value,) = emit(build_program(lambda e: e, [loop.compute], [loop.dtype]), [name], f"{name}_n")
                lines += steps
            write = "scratch_store" if name in written else "store"
            lines.append(f"{write}({name}_data, {_index(loop, name, lane, element)}, {value})")
    return lines


def _read_back(program: LineProgram) -> set[str]:
    """Outputs that a later pass reads again: they must not count as memory apart from what is read."""
    return {name for name in program.outs for p in program.passes if name in _reads(p.body)}


def _reads(body: str) -> set[str]:
    found: set[str] = set()
    assigned: set[str] = set()
    for line in body.splitlines():
        target, _, text = line.partition(" = ") if " += " not in line else line.partition(" += ")
        found |= _names(text) - assigned
        assigned |= {target.strip()}
    return found


def _assigned(body: str) -> set[str]:
    return {re.split(r" \+?= ", line)[0].strip() for line in body.splitlines()}


def _sums(body: str) -> list[str]:
    return [line.split(" += ")[0].strip() for line in body.splitlines() if " += " in line]


def _element(loop: LineLoop, p: Pass, lane: str, element: str, back: set[str], tail: bool = False) -> list[str]:
    """The statements of a pass for one element of a row."""
    body = []
    for line in p.body.splitlines():
        if " += " in line:
            target, text = line.split(" += ")
            term = f"select(fresh, {text}, C(0.0))" if tail else text
            line = f"{target}_part = reassociable_add({target}_part, {term})"
        body.append(line)
    reads = _reads(p.body) & set(loop.operands)
    writes = _assigned(p.body)
    if tail:
        body += [f"{name} = select(fresh, {name}, {name}_before)" for name in sorted(writes & reads)]
    loads = _loads(loop, reads - set(loop.program.each), lane, element, back)
    if tail:
        loads += [f"{name}_before = {name}" for name in sorted(writes & reads)]
    return [*loads, *body, *_stores(loop, writes, lane, element, back)]


def _rows(loop: LineLoop) -> list[str]:
    program, back = loop.program, _read_back(loop.program)
    long = all(loop.apart[k] is not None for k, name in enumerate(loop.operands) if name not in program.each)
    lines = _offsets(loop, "line", "line", None, "u64(0)", "rank")
    lines += [f"{name} = {start}" for name, start in program.values]
    lines += _loads(loop, set(program.each) & set(program.ins), "u64(0)", "u64(0)", set())
    for p in program.passes:
        sums = _sums(p.body)
        inner: list[str] = []
        if p.sequential:
            inner += ["for j in range(n):", *_indent(_element(loop, p, "u64(0)", "j", back), 1)]
        else:
            inner += [f"full = n // u64({TAIL}) * u64({TAIL})" if long else "full = n", "start = u64(0)"]
            inner += ["while start < full:"]
            inner += [f"    stop = min(start + u64({BLOCK}), full)" if sums else "    stop = full"]
            inner += [f"    {name}_part = C(0.0)" for name in sums]
            inner += ["    for j in range(start, stop):", *_indent(_element(loop, p, "u64(0)", "j", back), 2)]
            inner += [f"    {name} += W({name}_part)" for name in sums] + ["    start = stop"]
            if long:
                tail = [f"{name}_part = C(0.0)" for name in sums]
                tail += [f"for k in range(u64({TAIL})):", f"    j = n - u64({TAIL}) + k", "    fresh = j >= full"]
                tail += _indent(_element(loop, p, "u64(0)", "j", back, tail=True), 1)
                tail += [f"{name} += W({name}_part)" for name in sums]
                inner += ["if full < n:", *_indent(tail, 1)]
        lines += ["for segment in range(segments):"]
        lines += _indent([*_offsets(loop, "segment", "at", "line", "rank", "parts"), *inner], 1)
        lines += p.end.splitlines()
        lines += _stores(loop, _assigned(p.end) & set(program.each), "u64(0)", "u64(0)", set())
    return ["    for line in range(lo, hi):", *_indent(lines, 2)]


def _kinds(loop: LineLoop) -> dict[str, str]:
    """The types of a line's values."""
    return {name: start.partition("(")[0] for name, start in loop.program.values}


def _columns(loop: LineLoop) -> list[str]:
    program, kinds = loop.program, _kinds(loop)
    elements = [name for name in loop.operands if name not in program.each]
    head = [f"    {name}_kept = stack_array({kind}, {WIDTH})" for name, kind in kinds.items()]
    head += [f"    {name}_part = stack_array(C, {WIDTH})" for p in program.passes for name in _sums(p.body)]
    lines = ["strip = task % strips", "line = task // strips"]
    lines += _offsets(loop, "line", "line", None, "u64(0)", "rank")
    lines += ["left = strip * width", "right = min(left + width, lanes)"]
    if loop.tiled:
        kind = {name: "i64" if name in program.integers else "C" for name in elements}
        head += [f"    {name}_tile = stack_array({kind[name]}, {TILE})" for name in elements]
        lines += [f"{name}_at = {name}_line" for name in elements]
        lines += [line for name in elements if name in program.ins for line in _turned(loop, name, True)]
    if program.values:
        lines += ["for lane in range(left, right):"]
        lines += [f"    scratch_store({name}_kept, lane - left, {start})" for name, start in program.values]
    for p in program.passes:
        lines += _column_pass(loop, p, list(kinds))
    if loop.tiled:
        lines += [line for name in elements if name in program.outs for line in _turned(loop, name, False)]
    return [*head, "    for task in range(lo, hi):", *_indent(lines, 2)]


def _turned(loop: LineLoop, name: str, load: bool) -> list[str]:
    """Copy a strip of an operand's lines into its tile, or back."""
    plain = replace(loop, tiled=False)
    source, target = (plain, loop) if load else (loop, plain)
    lines = _loads(source, {name}, "lane", "j", set()) + _stores(target, {name}, "lane", "j", set(), all=True)
    if loop.apart[loop.operands.index(name)] is not None:
        return ["for j in range(n):", "    for lane in range(left, right):", *_indent(lines, 2)]
    return ["for lane in range(left, right):", "    for j in few(n):", *_indent(lines, 2)]


def _column_pass(loop: LineLoop, p: Pass, values: list[str]) -> list[str]:
    program, back, sums = loop.program, _read_back(loop.program), _sums(p.body)
    each_ins = set(program.each) & set(program.ins)
    reads, writes = _reads(p.body), _assigned(p.body)
    mine = [name for name in values if name in reads | writes and name not in sums]
    element = [f"{name} = scratch_load({name}_kept, lane - left)" for name in mine]
    element += [f"{name} = scratch_load({name}_part, lane - left)" for name in sums]
    element += _loads(loop, reads & set(loop.operands) - each_ins, "lane", "j", back)
    element += _loads(loop, reads & each_ins, "lane", "j", set())
    element += [re.sub(r"^(\w+) \+= (.+)$", r"\1 = \1 + (\2)", line) for line in p.body.splitlines()]
    element += [f"scratch_store({name}_kept, lane - left, {name})" for name in mine if name in writes]
    element += [f"scratch_store({name}_part, lane - left, {name})" for name in sums]
    element += _stores(loop, writes, "lane", "j", back)
    inner = [f"    for j in range(start, min(start + u64({ROWS}), n)):" if sums else "for j in range(n):"]
    inner += _indent(["    for lane in range(left, right):", *_indent(element, 2)], bool(sums))
    if sums:
        clear = [f"scratch_store({name}_part, lane - left, C(0.0))" for name in sums]
        add = []
        for name in sums:
            add += [f"part = scratch_load({name}_part, lane - left)"]
            add += [f"{name} = scratch_load({name}_kept, lane - left)"]
            add += [f"scratch_store({name}_kept, lane - left, {name} + W(part))"]
        each_lane = "    for lane in range(left, right):"
        inner = ["start = u64(0)", "while start < n:", each_lane, *_indent(clear, 2), *inner, each_lane]
        inner += [*_indent(add, 2), f"    start += u64({ROWS})"]
    lines = inner if loop.tiled else [
        "for segment in range(segments):",
        *_indent([*_offsets(loop, "segment", "at", "line", "rank", "parts"), *inner], 1),
    ]  # fmt: skip
    if p.end:
        reads, writes = _reads(p.end), _assigned(p.end)
        end = [f"{name} = scratch_load({name}_kept, lane - left)" for name in values if name in reads]
        end += _loads(loop, reads & each_ins, "lane", "u64(0)", set())
        end += p.end.splitlines()
        end += [f"scratch_store({name}_kept, lane - left, {name})" for name in values if name in writes]
        end += _stores(loop, writes & set(program.each), "lane", "u64(0)", set())
        lines += ["for lane in range(left, right):", *_indent(end, 1)]
    return lines


def _expanded(lines: list[str], loop: LineLoop) -> list[str]:
    """The lines with type letters replaced, and the functions that have a polynomial written out."""
    key = order.key_dtype(loop.compute)
    short = {"C": SHORT[loop.compute.name], "W": SHORT[wide_dtype(loop.compute).name], "K": SHORT[key.name]}
    done: list[str] = []
    for number, line in enumerate(lines):
        found = _CALL.fullmatch(line)
        if found is not None:
            indent, name, function, argument = found.groups()
            kind = key if function.endswith("cending") else loop.compute
            program = build_program(_FUNCTIONS[function], [loop.compute], [kind], tables=(POLYNOMIALS,))
            steps, (result,) = emit(program, [f"argument{number}"], prefix=f"f{number}_")
            done += [f"{indent}{step}" for step in (f"argument{number} = {argument}", *steps, f"{name} = {result}")]
        else:
            done.append(line)
    return [re.sub(r"\b[CWK]\b", lambda match: short[match[0]], line) for line in done]
