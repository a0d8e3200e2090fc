"""Prints a reduction as Python source of a loop: an elementwise program whose results are folded together.

Every reduction runs in blocks: `BLOCK` elements are folded in the accumulator's dtype, in lanes; the block results
are folded in a wider one (float32 sums in float64). So the error does not grow with the length, along rows as along
columns, and the cut into blocks depends on shapes only, never on threads.

Two loops, by where the neighbours in memory are:

- rows: the innermost dimension is folded; lanes run along it;
- columns: the innermost dimension is kept; lanes are neighbouring results, `ROWS` rows to a block, of which
  `TOGETHER` are folded while their results are in registers.

`kernel(lo, hi, layout, out, in0, ...)` works on tasks [lo, hi). A task is one chunk of `chunk` folded elements
for one result (rows) or for `WIDTH` of them (columns). With `partial` it stores the wide accumulators, `out[chunk,
result]`, and a second loop (`partials_source`) folds the chunks and finishes; without, it finishes itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.kernels.source import SHORT, emit, is_call, literal_source
from rushlight.kernels.trace import Const, Program

BLOCK = 1024
ROWS = 16
TOGETHER = 4  # rows that are folded in one pass over a block in memory; with 2 and with 16, 1.2 times as slow
CHEAP = 8  # nodes of `pre` and `combine` up to which a loop is printed for so many rows
WIDTH = 2048  # long runs along a row: 2048 x 2048 float32 in 0.8 ms, with 1024 in 1.3 (one thread)


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction: `pre` maps elements to accumulators, `combine` folds two of them, `combine_wide` two wide ones,
    `finish` takes the wide accumulator and the number of elements."""

    pre: Program
    combine: Program
    combine_wide: Program
    widen: Program
    finish: Program
    init: Const
    init_wide: Const

    @property
    def out(self) -> str:
        return SHORT[self.finish.outputs[0].dtype.name]

    @property
    def wide(self) -> str:
        return SHORT[self.init_wide.dtype.name]

    @property
    def narrow(self) -> str:
        return SHORT[self.init.dtype.name]


@dataclass(frozen=True, slots=True)
class FoldLoop:
    """How a fold walks: `kept` outer kept dimensions (columns: plus the inner one), `folded` folded dimensions;
    `walks` of the inputs along the inner dimension."""

    fold: Fold
    columns: bool
    kept: int
    folded: int
    walks: tuple[str, ...]
    partial: bool

    @property
    def lanes(self) -> bool:
        """Whether LLVM folds rows in lanes. Where it cannot, one narrow accumulator for a block would lose digits:
        use the wide one."""
        nodes = self.fold.pre.nodes()
        return "s" not in self.walks and not any(is_call(n) for n in nodes)

    @property
    def cheap(self) -> bool:
        """Whether memory, not arithmetic, bounds the loop, and several rows at a time are worth their code."""
        nodes = [*self.fold.pre.nodes(), *self.fold.combine.nodes()]
        return len(nodes) <= CHEAP and not any(is_call(n) for n in nodes)

    @property
    def signature(self) -> tuple[str, ...]:
        target = self.fold.wide if self.partial else self.fold.out
        inputs = (f"*{SHORT[dtype.name]}" for dtype in self.fold.pre.inputs)
        return ("u64", "u64", "*i64", f"*{target}", *inputs)


def fold_source(loop: FoldLoop) -> str:
    """Source of `kernel` for the loop."""
    inputs = [f"in{k}" for k in range(len(loop.fold.pre.inputs))]
    lines = [f"def kernel(lo, hi, layout, out0, {', '.join(inputs)}):", "    wide_vectors()"]
    lines += _read_layout(loop, inputs)
    lines += (_columns if loop.columns else _rows)(loop, inputs)
    return "\n".join(lines) + "\n"


def _read_layout(loop: FoldLoop, inputs: list[str]) -> list[str]:
    sizes = [f"n{d}" for d in range(loop.kept)] + [f"m{d}" for d in range(loop.folded)]
    names = ["chunk", "chunks", *sizes] + [f"out0_s{d}" for d in range(loop.kept)]
    for name in inputs:
        names += [f"{name}_s{d}" for d in range(loop.kept)] + [f"{name}_r{d}" for d in range(loop.folded)]
    return [f"    {name} = u64(load(layout, u64({k})))" for k, name in enumerate(names)] + [
        f"    count = {' * '.join(f'm{d}' for d in range(loop.folded)) or 'u64(1)'}",
        f"    results = {' * '.join(f'n{d}' for d in range(loop.kept)) or 'u64(1)'}",
    ]


def _decompose(index: str, sizes: list[str], names: list[str]) -> list[str]:
    """Split a flat index into one index per dimension, the last one fastest."""
    lines = []
    for size, name in reversed(list(zip(sizes, names, strict=True))[1:]):
        lines += [f"{name} = {index} % {size}", f"{index} = {index} // {size}"]
    return [*lines, f"{names[0]} = {index}"] if names else lines


def _offset(terms: list[tuple[str, str]]) -> str:
    return " + ".join(f"{index} * {stride}" for index, stride in terms) or "u64(0)"


def _indent(lines: list[str], depth: int) -> list[str]:
    return [f"{'    ' * depth}{line}" for line in lines]


def _store(loop: FoldLoop, value: str, result: str, position: str) -> list[str]:
    if loop.partial:
        return [f"store(out0, which * results + {position}, {value})"]
    lines, (name,) = emit(loop.fold.finish, [value, "i64(count)"], "f")
    return [*lines, f"store(out0, {result}, {name})"]


def _elements(loop: FoldLoop, inputs: list[str], inner: str, stride: str, row: str = "") -> tuple[list[str], str]:
    """Loads and `pre` for one element; `<input><row>_at` is the offset that does not depend on `inner`."""
    lines = []
    for k, (name, walk) in enumerate(zip(inputs, loop.walks, strict=True)):
        at = f"{name}{row}_at"
        index = {"c": f"{at} + {inner}", "0": at, "s": f"{at} + {inner} * {name}_{stride}"}[walk]
        lines.append(f"x{k} = load({name}, {index})")
    computed, (value,) = emit(loop.fold.pre, [f"x{k}" for k in range(len(inputs))])
    return lines + computed, value


def _rows(loop: FoldLoop, inputs: list[str]) -> list[str]:
    kept, last = range(loop.kept), loop.folded - 1
    init_wide = literal_source(loop.fold.init_wide.value, loop.fold.init_wide.dtype)
    start = [f"{name}_task = {_offset([(f'k{d}', f'{name}_s{d}') for d in kept])}" for name in inputs]
    row = [
        f"{name}_at = {name}_task + {_offset([(f'q{d}', f'{name}_r{d}') for d in range(last)])}" for name in inputs
    ]
    if last:
        runs = [
            "while i < end:",
            f"    row = i // m{last}",
            f"    first = i - row * m{last}",
            f"    stop = min(m{last}, first + (end - i))",
            "    i += stop - first",
            *_indent(_decompose("row", [f"m{d}" for d in range(last)], [f"q{d}" for d in range(last)]), 1),
            *_indent([*row, *_blocks(loop, inputs)], 1),
        ]
    else:  # no division, for which the first loads would wait
        runs = ["first = i", "stop = end", *row, *_blocks(loop, inputs)]
    return _indent([
        "for task in range(lo, hi):",
        "    result = task // chunks",
        "    which = task - result * chunks",
        "    position = result",
        *_indent(_decompose("result", [f"n{d}" for d in kept], [f"k{d}" for d in kept]), 1),
        *_indent(start, 1),
        f"    whole = {init_wide}",
        "    i = which * chunk",
        "    end = min(i + chunk, count)",
        *_indent(runs, 1),
        *_indent(_store(loop, "whole", _offset([(f"k{d}", f"out0_s{d}") for d in kept]), "position"), 1),
    ], 1)  # fmt: skip


def _blocks(loop: FoldLoop, inputs: list[str]) -> list[str]:
    """Fold elements [first, stop) of a row into `whole`. Full blocks have a loop of their own, whose length LLVM
    knows: the bound of the other it computes anew in each turn."""
    fold = loop.fold
    init = literal_source(fold.init.value, fold.init.dtype)
    element, value = _elements(loop, inputs, "k", f"r{loop.folded - 1}")
    if not loop.lanes:
        widen, (wide,) = emit(fold.widen, [value], "v")
        combine_wide, (total,) = emit(fold.combine_wide, ["whole", wide], "w", reassociate=True)
        each = [*element, *widen, *combine_wide, f"whole = {total}"]
        return ["for k in range(first, stop):", *_indent(each, 1)]
    combine, (folded,) = emit(fold.combine, ["acc", value], "c", reassociate=True)
    widen, (wide,) = emit(fold.widen, ["acc"], "v")
    combine_wide, (total,) = emit(fold.combine_wide, ["whole", wide], "w")
    each, after = [*element, *combine, f"acc = {folded}"], [*widen, *combine_wide, f"whole = {total}"]
    return [
        f"while first + u64({BLOCK}) <= stop:",
        f"    acc = {init}",
        f"    for step in range(u64(0), u64({BLOCK})):",
        "        k = first + step",
        *_indent(each, 2),
        *_indent(after, 1),
        f"    first += u64({BLOCK})",
        "if first < stop:",
        f"    acc = {init}",
        "    for k in range(first, stop):",
        *_indent(each, 2),
        *_indent(after, 1),
    ]


def _fold_rows(loop: FoldLoop, inputs: list[str], rows: int) -> list[str]:
    """While so many are left before `stop`, fold `rows` rows into `block`, one after the other in each lane."""
    dims = range(loop.folded)
    places, folds = [], []
    for r in range(rows):
        places.append(f"row = i + u64({r})")
        places += _decompose("row", [f"m{d}" for d in dims], [f"q{d}" for d in dims])
        for name in inputs:
            places.append(f"{name}{r}_at = {name}_task + {_offset([(f'q{d}', f'{name}_r{d}') for d in dims])}")
        element, value = _elements(loop, inputs, "j", f"s{loop.kept - 1}", str(r))
        combine, (folded,) = emit(loop.fold.combine, ["acc", value], "c")
        folds += [*element, *combine, f"acc = {folded}"]
    return [
        f"while i + u64({rows}) <= stop:",
        *_indent(places, 1),
        "    for j in range(left, right):",
        "        acc = scratch_load(block, j - left)",
        *_indent(folds, 2),
        "        scratch_store(block, j - left, acc)",
        f"    i += u64({rows})",
    ]


def _columns(loop: FoldLoop, inputs: list[str]) -> list[str]:
    fold, inner = loop.fold, loop.kept - 1
    outer = range(inner)
    init, init_wide = (
        literal_source(fold.init.value, fold.init.dtype),
        literal_source(fold.init_wide.value, fold.init_wide.dtype),
    )
    widen, (wide,) = emit(fold.widen, ["acc"], "v")
    combine_wide, (total,) = emit(fold.combine_wide, ["whole", wide], "w")
    start = [f"{name}_task = {_offset([(f'k{d}', f'{name}_s{d}') for d in outer])}" for name in inputs]
    result = _offset([(f"k{d}", f"out0_s{d}") for d in outer] + [("j", f"out0_s{inner}")])
    return _indent([
        f"block = stack_array({fold.narrow}, {WIDTH})",
        f"total = stack_array({fold.wide}, {WIDTH})",
        f"strips = (n{inner} + u64({WIDTH - 1})) // u64({WIDTH})",
        "for task in range(lo, hi):",
        "    which = task % chunks",
        "    strip = (task // chunks) % strips",
        "    line = task // chunks // strips",
        f"    position = line * n{inner}",
        *_indent(_decompose("line", [f"n{d}" for d in outer], [f"k{d}" for d in outer]), 1),
        *_indent(start, 1),
        f"    left = strip * u64({WIDTH})",
        f"    right = min(left + u64({WIDTH}), n{inner})",
        "    for j in range(left, right):",
        f"        scratch_store(total, j - left, {init_wide})",
        "    i = which * chunk",
        "    end = min(i + chunk, count)",
        "    while i < end:",
        "        for j in range(left, right):",
        f"            scratch_store(block, j - left, {init})",
        f"        stop = min(i + u64({ROWS}), end)",
        *(_indent(_fold_rows(loop, inputs, TOGETHER), 2) if loop.cheap else []),
        *_indent(_fold_rows(loop, inputs, 1), 2),
        "        for j in range(left, right):",
        "            acc = scratch_load(block, j - left)",
        "            whole = scratch_load(total, j - left)",
        *_indent([*widen, *combine_wide, f"scratch_store(total, j - left, {total})"], 3),
        "    for j in range(left, right):",
        "        whole = scratch_load(total, j - left)",
        *_indent(_store(loop, "whole", result, "(position + j)"), 2),
    ], 1)  # fmt: skip


def partials_source(fold: Fold, kept: int) -> str:
    """Source of `kernel(lo, hi, layout, out, partial)`: fold the chunks of each result in order, and finish."""
    init_wide = literal_source(fold.init_wide.value, fold.init_wide.dtype)
    combine_wide, (total,) = emit(fold.combine_wide, ["whole", "part"], "w")
    finish, (value,) = emit(fold.finish, ["whole", "i64(count)"], "f")
    names = [f"n{d}" for d in range(kept)] + [f"out0_s{d}" for d in range(kept)] + ["count", "results", "chunks"]
    return "\n".join([
        "def kernel(lo, hi, layout, out0, partial):",
        *(f"    {name} = u64(load(layout, u64({k})))" for k, name in enumerate(names)),
        "    for position in range(lo, hi):",
        f"        whole = {init_wide}",
        "        for which in range(u64(0), chunks):",
        "            part = load(partial, which * results + position)",
        *_indent([*combine_wide, f"whole = {total}"], 3),
        "        result = position",
        *_indent(_decompose("result", [f"n{d}" for d in range(kept)], [f"k{d}" for d in range(kept)]), 2),
        *_indent(finish, 2),
        f"        store(out0, {_offset([(f'k{d}', f'out0_s{d}') for d in range(kept)])}, {value})",
        "",
    ])  # fmt: skip


def partials_signature(fold: Fold) -> tuple[str, ...]:
    """Argument types of `partials_source`."""
    return ("u64", "u64", "*i64", f"*{fold.out}", f"*{fold.wide}")
