"""Native loops that read or write at places which index arrays name: the heart of every gather and scatter.

An element at coordinates `c` of a *shape* stands at

    sum over d of c[d] * strides[d]  +  sum over indices of index[c] * step

of the indexed array: a dimension that an index stands for has stride 0 there. One picture for `x[i, :, j]`,
`index_select`, `gather`, `scatter`, `index_add`, `embedding`: they differ in strides only. Elements are moved by
their size, so one loop serves all dtypes of a size.

Reading is shared out by elements of the result. Writing is shared out along the dimensions in which the indexed array
moves by itself (stride not 0), or whole rows by what an index says: two threads never reach one element, and what comes
to an element comes in row-major order, so the result does not depend on the number of threads. `inside` checks indices
before anything is written.

What is planned here serves all calls with such shapes and strides; `gather.py` and `scatter.py` keep the plans.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from rushlight.core import scalar as s
from rushlight.kernels.build import build_program
from rushlight.kernels.cpu import native, pool
from rushlight.kernels.cpu.elementwise import bits_dtype
from rushlight.kernels.cpu.jit import compile_source
from rushlight.kernels.half import storage_dtype
from rushlight.kernels.polynomials import POLYNOMIALS
from rushlight.kernels.source import SHORT, emit

MOST_DIMS = 32  # coordinates that a loop keeps
FEW = 8192  # indices that numpy has looked at before a loop has been called
LINE = 16  # a written dimension is walked along from so many elements on; across it below


class Place(NamedTuple):
    """What an index says: the place in a dimension of `size` whose neighbours lie `step` elements apart.

    The index array has elements of `itemsize` bytes (int64 or int32) and `strides` (in elements) over the walked shape.
    `wraps`: negative indices count from the end.
    """

    itemsize: int
    strides: tuple[int, ...]
    size: int
    step: int
    wraps: bool


class Walk(NamedTuple):
    """A loop and how it is to go: `run_kernel(kernel, count, grain, layout, *arrays)`."""

    kernel: Callable[..., None]
    count: int
    grain: int
    layout: np.ndarray


def merge(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Sizes and strides (a list per dimension, an entry per operand) with neighbours joined that all operands run
    through in one go; the order stays."""
    sizes: list[int] = []
    steps: list[list[int]] = []
    for d, size in enumerate(shape):
        own = [each[d] for each in strides]
        if size == 1:
            continue
        if sizes and all(a == b * size for a, b in zip(steps[-1], own, strict=True)):
            sizes[-1] *= size
            steps[-1] = own
        else:
            sizes.append(size)
            steps.append(own)
    return sizes, steps


# Indices

_CHECK = """def kernel(lo, hi, layout, bad, index):
    least = load(layout, u64(0))
    room = u64(load(layout, u64(1)))
    wrong = False
    for i in range(lo, hi):
        wrong = wrong | (u64(i64(load(index, i)) - least) >= room)
    if wrong:
        scratch_store(bad, u64(0), i64(1))
"""


def inside(index: np.ndarray, least: int, size: int) -> bool:
    """Are all indices in [least, size)?"""
    index = index[tuple([slice(0, 1) if stride == 0 else slice(None) for stride in index.strides])]
    if index.size <= FEW and index.dtype == np.int64:
        places = index - least if least else index  # those below are too large when they are taken as unsigned numbers
        return not index.size or int(places.view(np.uint64).max()) < size - least
    if native.enough(index.size):
        index = index.transpose(sorted(range(index.ndim), key=lambda d: -index.strides[d]))
        if index.flags.c_contiguous:
            kernel = compile_source(_CHECK, ("u64", "u64", "*i64", "*i64", f"*i{8 * index.itemsize}"))
            bad = np.zeros(1, np.int64)
            native.over(kernel, index.size, 1, (least, size - least), bad, index)
            return not bad[0]
    return not index.size or bool(index.min() >= least and index.max() < size)


def _place(wraps: tuple[bool, ...], at: str, check: bool, indent: str, plain: bool = False) -> str:
    """Source that adds to `place` what the indices say; `plain` if their steps are 1."""
    lines = []
    for m, wrap in enumerate(wraps):
        lines.append(f"p = i64(load(i{m}, u64(i{m}_row{at.format(m=m)})))")
        if wrap:
            lines.append(f"p = p + select(p < 0, size{m}, i64(0))")
        if check:
            lines += [f"outside = u64(p) >= u64(size{m})", "wrong = wrong | outside", "p = select(outside, i64(0), p)"]
        lines.append("place = place + p" if plain else f"place = place + p * step{m}")
    return "".join(f"{indent}{line}\n" for line in lines)


def _loads(names: Sequence[str], first: int) -> str:
    return "".join(f"    {name} = load(layout, u64({first + k}))\n" for k, name in enumerate(names))


def _index_names(count: int) -> list[str]:
    return [f"{name}{m}" for m in range(count) for name in ("size", "step", "inner")]


def _index_layout(places: Sequence[Place], inner: Sequence[int]) -> list[int]:
    return [x for at, own in zip(places, inner, strict=True) for x in (at.size, at.step, own)]


def _kinds(places: Sequence[Place]) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """What the loops are made for: the types of the indices, and which of them wrap."""
    return tuple([f"*i{8 * at.itemsize}" for at in places]), tuple([at.wraps for at in places])


# Reading


@cache
def _reader(itemsize: int, kinds: tuple[str, ...], wraps: tuple[bool, ...], mode: str) -> Callable[..., None]:
    """The loop for indices of the `kinds`. `mode`: "row" copies contiguous runs, "spread" strided ones, "each" looks
    every element up; "line" does so along the dimension that one index stands for, both contiguous: without three
    multiplications that takes 0.73 to 0.85 of the time."""
    count = len(kinds)
    rows = [f"i{m}_row" for m in range(count)]
    names = ["rank", "n", "x_step", *_index_names(count)]
    first, each = len(names), 2 + count
    moved = ["x_row", *rows]

    def move(sign: str, indent: str, times: str = "") -> str:
        each = enumerate(moved, 1)
        return "".join(f"{indent}{x} = {x} {sign} {times}load(layout, at + u64({k}))\n" for k, x in each)

    if mode in ("each", "line"):
        line = mode == "line"
        body = (
            f"        for j in range(start, stop):\n            place = x_row{'' if line else ' + j * x_step'}\n"
            + _place(wraps, " + j" if line else " + j * inner{m}", True, " " * 12, line)
            + "            store(out, u64(i - start + j), load(x, u64(place)))\n"
        )
    else:
        element = "place + j" if mode == "row" else "place + j * x_step"
        body = (
            "        place = x_row\n"
            + _place(wraps, "", True, " " * 8)
            + "        for j in range(start, stop):\n"
            + f"            store(out, u64(i - start + j), load(x, u64({element})))\n"
        )
    source = (
        f"def kernel(lo, hi, layout, bad, out, x, {', '.join(f'i{m}' for m in range(count))}):\n    wide_vectors()\n"
        + _loads(names, 0)
        + f"    coordinates = stack_array(i64, {MOST_DIMS})\n    wrong = False\n"
        + "    i = i64(lo)\n    end = i64(hi)\n    rest = i // n\n    start = i - rest * n\n"
        + "".join(f"    {x} = i64(0)\n" for x in moved)
        + f"    for back in range(rank):\n        at = u64({first} + {each} * (rank - 1 - back))\n"
        + "        size = load(layout, at)\n        c = rest % size\n        rest = rest // size\n"
        + "        scratch_store(coordinates, u64(rank - 1 - back), c)\n"
        + move("+", " " * 8, "c * ")
        + "    while i < end:\n        stop = min(n, start + end - i)\n"
        + body
        + "        i = i + stop - start\n        start = i64(0)\n"
        + _advance("rank", first, each, move)
        + "    if wrong:\n        scratch_store(bad, u64(0), i64(1))\n"
    )
    bits = f"*{SHORT[bits_dtype(itemsize).name]}"
    return compile_source(source, ("u64", "u64", "*i64", "*i64", bits, bits, *kinds))


def _advance(rank: str, first: int | str, each: int, move: Callable[..., str]) -> str:
    """Source that goes to the next coordinates."""
    return (
        f"        d = {rank} - 1\n        while d >= 0:\n            at = u64({first} + {each} * d)\n"
        + "            c = scratch_load(coordinates, u64(d)) + 1\n"
        + move("+", " " * 12)
        + "            if c < load(layout, at):\n                scratch_store(coordinates, u64(d), c)\n"
        + "                break\n"
        + move("-", " " * 12, "c * ")
        + "            scratch_store(coordinates, u64(d), i64(0))\n            d = d - 1\n"
    )


def plan_read(shape: Sequence[int], itemsize: int, strides: Sequence[int], places: Sequence[Place]) -> Walk:
    """How to fill a new row-major array; arrays of the walk are a flag (int64), the result, the indexed array and the
    indices. The flag becomes 1 when an index is outside: the result is then of no use. No array may be empty.
    """
    each = [strides, *[at.strides for at in places]]
    sizes, steps = merge(shape, each)
    if not sizes:
        sizes, steps = [1], [[0] * len(each)]
    *outer, (x_step, *inner) = steps
    mode = "each" if any(inner) else "row" if x_step == 1 else "spread"
    if inner == [1] and x_step == 0 and places[0].step == 1:
        mode = "line"
    layout = [len(outer), sizes[-1], x_step, *_index_layout(places, inner)]
    for size, own in zip(sizes, outer):
        layout += (size, *own)
    kernel = _reader(itemsize, *_kinds(places), mode)
    return Walk(kernel, math.prod(shape), native.GRAIN, np.array(layout, np.int64))


# Writing

_COMBINE = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "maximum": lambda a, b: s.maximum(a, b),
    "minimum": lambda a, b: s.minimum(a, b),
}


def _check_first(count: int) -> list[str]:
    """Source that looks at the indices of a run before it is written, and leaves it out when one is outside.

    That goes in vectors, where a look at each on its way does not: 0.48 instead of 0.59 ms for a million.
    """
    lines = ["outside = False", "for j in range(begin, stop):"]
    lines += [
        f"    outside = outside | (u64(i64(load(i{m}, u64(i{m}_row + j * inner{m})))) >= u64(size{m}))"
        for m in range(count)
    ]
    lines += ["wrong = wrong | outside", "last = select(outside, begin, stop)"]
    return [" " * 12 + line + "\n" for line in lines]


@cache
def _writer(
    dtype: np.dtype, source: np.dtype, combine: str, check: bool, kinds: tuple, wraps: tuple[bool, ...], mode: str
) -> Callable[..., None]:
    """The loop for indices of the `kinds`. `mode`: "row" goes along contiguous runs, "fill" too, with one value,
    "spread" along strided ones, "line" along the indexed dimension, "each" along another, with an index for each
    element."""
    count = len(kinds)
    rows = [f"i{m}_row" for m in range(count)]
    names = ["free", "blocks", "block", "parts", "group", "rank", "rows", "n", "t_step", "v_step", *_index_names(count)]
    first, each = len(names), 3 + count
    moved = ["t_row", "v_row", *rows]

    def move(sign: str, indent: str, times: str = "") -> str:
        each = enumerate(moved, 1)
        return "".join(f"{indent}{x} = {x} {sign} {times}load(layout, at + u64({k}))\n" for k, x in each)

    v_at = {"row": "v_row + j", "fill": "v_row"}.get(mode, "v_row + j * v_step")
    t_at = {"row": "place + j", "fill": "place + j", "spread": "place + j * t_step"}.get(mode, "place")
    if combine == "set":
        put = [f"scratch_store(t, u64({t_at}), load(v, u64({v_at})))"]
    else:
        program = build_program(_COMBINE[combine], [dtype, source], [dtype], tables=(POLYNOMIALS,))
        lines, (result,) = emit(program, ["a", "b"])
        put = [f"a = scratch_load(t, u64({t_at}))", f"b = load(v, u64({v_at}))", *lines]
        put.append(f"scratch_store(t, u64({t_at}), {result})")
    if mode in ("each", "line"):
        start = "t_row" if mode == "line" else "t_row + j * t_step"
        body = _check_first(count) if check else ["            last = stop\n"]
        body += [" " * 12 + "for j in range(begin, last):\n" + " " * 16 + f"place = {start}\n"]
        body.append(_place(wraps, " + j * inner{m}", False, " " * 16))
    else:
        body = [" " * 12 + "place = t_row\n", _place(wraps, "", check, " " * 12)]
        body.append(" " * 12 + "last = select(u64(p // group) == part, stop, begin)\n")
        body.append(" " * 12 + "for j in range(begin, last):\n")
    body += [" " * 16 + line + "\n" for line in put]
    text = (
        f"def kernel(lo, hi, layout, bad, t, v, {', '.join(f'i{m}' for m in range(count))}):\n    wide_vectors()\n"
        + _loads(names, 0)
        + f"    coordinates = stack_array(i64, {MOST_DIMS})\n    wrong = False\n"
        + "    for task in range(lo, hi):\n        rest = i64(task) // blocks\n"
        + "        begin = i64(task) - rest * blocks\n        part = u64(begin % parts)\n"
        + "        begin = begin // parts * block\n        stop = min(begin + block, n)\n"
        + "".join(f"        {x} = i64(0)\n" for x in moved)
        + f"        for back in range(free):\n            at = u64({first} + {each} * (free - 1 - back))\n"
        + "            size = load(layout, at)\n            c = rest % size\n            rest = rest // size\n"
        + move("+", " " * 12, "c * ")
        + "        for d in range(rank):\n            scratch_store(coordinates, u64(d), i64(0))\n"
        + "        for row in range(rows):\n"
        + "".join(body)
        + "\n".join("    " + line for line in _advance("rank", f"{first} + {each} * free", each, move).splitlines())
        + "\n    if wrong:\n        scratch_store(bad, u64(0), i64(1))\n"
    )
    arrays = [f"*{SHORT[storage_dtype(kind).name]}" for kind in (dtype, source)]
    return compile_source(text, ("u64", "u64", "*i64", "*i64", *arrays, *kinds))


def plan_write(
    shape: Sequence[int],
    dtype: np.dtype,
    strides: Sequence[int],
    values: Sequence[int],
    places: Sequence[Place],
    combine: str = "set",
    threads: int = 1,
    check: bool = False,
    source: np.dtype | None = None,
) -> Walk:
    """How to store values, with strides `values` over the walked shape, each in its place, or to combine them with what
    is there by "add", "multiply", "maximum" or "minimum".

    Arrays of the walk are a flag (int64), the target, the values (of dtype `source`, by default the target's) and the
    indices. These must have been checked (`inside`), or with `check` (for indices that do not wrap) the flag becomes 1
    when one is outside, and the target is then of no use. `threads` decides how work is cut and nothing about the
    result. No array may be empty.
    """
    each = [strides, values, *[at.strides for at in places]]
    dims = [d for d, size in enumerate(shape) if size != 1]
    free, bound = [d for d in dims if strides[d]], [d for d in dims if not strides[d]]
    sizes, steps = merge([shape[d] for d in free], [[own[d] for d in free] for own in each])
    rows, row_steps = merge([shape[d] for d in bound], [[own[d] for d in bound] for own in each])
    runs = bool(sizes) and sizes[-1] >= LINE and steps[-1][0] == 1 and not any(steps[-1][2:])  # whole rows are written
    along = bool(rows) and (not sizes or not runs and rows[-1] >= LINE and abs(row_steps[-1][1]) <= 1)
    n, inner = (rows.pop(), row_steps.pop()) if along else (sizes.pop(), steps.pop()) if sizes else (1, [0] * len(each))
    tasks, length = math.prod(sizes), math.prod(rows)
    # Few tasks with long runs, but enough for all threads. Each thread writes the rows of a part of the indexed
    # dimension: with a part of every row, they would take cache lines from each other (450 us for 1000 rows of 1000
    # elements, 100 with this).
    wanted = -(-threads * pool.PIECES_PER_THREAD // tasks)
    parts = max(1, min(wanted, n // LINE)) if runs and rows and threads > 1 else 1
    group = -(-places[-1].size // parts)
    block = n if along or runs else max(min(n, 64), -(-n // wanted))
    blocks = -(-n // block) * parts
    t_step, v_step, *own = inner
    mode = "line" if along else "each" if any(own) else "row" if t_step == v_step == 1 else "spread"
    if mode == "spread" and t_step == 1 and not v_step:
        mode = "fill"
    layout = [len(sizes), blocks, block, parts, group, len(rows), length, n, t_step, v_step]
    layout += _index_layout(places, own)
    for size, step in (*zip(sizes, steps), *zip(rows, row_steps)):
        layout += (size, *step)
    if combine == "set":
        dtype = bits_dtype(dtype.itemsize)
    kernel = _writer(dtype, source or dtype, combine, check, *_kinds(places), mode)
    grain = max(1, native.GRAIN // max(1, block * length // parts))
    return Walk(kernel, tasks * blocks, grain, np.array(layout, np.int64))
