"""Copies and conversions of large arrays, on all threads and into pooled memory. Plans keep numpy quiet meanwhile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.kernels.cpu import allocator, native
from rushlight.kernels.cpu.elementwise import ElementwiseKernel, bits_dtype, copy_array, elementwise_kernel
from rushlight.kernels.cpu.jit import compile_source
from rushlight.kernels.cpu.team import run_kernel
from rushlight.kernels.layout import Layout, plan_layout
from rushlight.kernels.source import SHORT

# What a loop would round twice, by way of float32.
_NUMPY = {(np.dtype(np.float64), np.dtype(np.float16))}
LARGE = 32768  # elements from which threads, and memory that was used before, are worth it


def assign(target: np.ndarray, source: np.ndarray) -> None:
    """`target[...] = source`, which broadcasts and is converted; real parts of complex numbers for real targets.

    The two may overlap.
    """
    if source.dtype.kind == "c" and target.dtype.kind != "c":
        source = source != 0 if target.dtype.kind == "b" else source.real
    if target.size < LARGE or np.may_share_memory(target, source):
        np.copyto(target, source, "unsafe")
    elif target.dtype == source.dtype:
        walk = _plan_copy(target.shape, target.strides, source.shape, source.strides, target.itemsize)
        if walk is None:
            copy_array(target, source)
        else:
            run_kernel(*walk, target, source)
    elif (loop := conversion(source.dtype, target.dtype)) is not None:
        loop(target, source)
    else:
        np.copyto(target, source, "unsafe")


def _walk(first: int, *places: str) -> str:
    """Source that takes `rest` apart into coordinates, the last one first, and moves each place along them. The layout
    holds, from `first` on, a size and a step for each place, dimension after dimension."""
    moves = "".join(
        f"            {place} = {place} + rest % size * load(layout, at + u64({k}))\n"
        for k, place in enumerate(places, 1)
    )
    return (
        "        for back in range(rank):\n"
        f"            at = u64({first} + {1 + len(places)} * (rank - 1 - back))\n"
        f"            size = load(layout, at)\n{moves}            rest = rest // size"
    )


# The target's neighbours lie along columns, the source's along rows. Where they lie side by side, a square as wide as a
# register is read in vectors, turned in registers and written in vectors, so that every line of memory is touched once:
# `x.t()` of 2048 x 2048 float32 takes 2.3 ms with it and 11 without, as lines 8 KiB apart drive each other out of the
# cache. Elements at the edges go one by one. Of the tiles tried these were best for most arrays (one thread).
_TURNED, _SINGLE = (256, 64), (64, 32)


def _turn(lanes: int) -> str:
    """Source that turns whole squares of a tile: zipping the rows of its halves, as often as it takes."""
    lines = [f"v0_{k} = vload(x, b + {k} * x_column, {lanes})" for k in range(lanes)]
    steps = lanes.bit_length() - 1
    for step in range(steps):
        for k in range(lanes // 2):
            pair = f"(v{step}_{k}, v{step}_{k + lanes // 2})"
            lines += [f"v{step + 1}_{2 * k} = vlower{pair}", f"v{step + 1}_{2 * k + 1} = vupper{pair}"]
    lines += [f"vstore(out, a + {k} * out_row, v{steps}_{k})" for k in range(lanes)]
    return f"""
        whole_right = right - (right - left) % {lanes}
        whole_bottom = bottom - (bottom - top) % {lanes}
        for c in range(left, whole_right, {lanes}):
            for r in range(top, whole_bottom, {lanes}):
                a = out_at + r * out_row + c
                b = x_at + c * x_column + r
""" + "".join(f"                {line}\n" for line in lines)


def _transpose(lanes: int) -> str:
    """The loop over tiles, with squares of so many lanes; 1 for arrays that have no neighbours side by side."""
    rows, columns = _SINGLE if lanes == 1 else _TURNED
    squares, start = ("", "left") if lanes == 1 else (_turn(lanes), "select(r < whole_bottom, whole_right, left)")
    return f"""def kernel(lo, hi, layout, out, x):
    wide_vectors()
    rank = load(layout, u64(0))
    rows = load(layout, u64(1))
    columns = load(layout, u64(2))
    out_row = load(layout, u64(3))
    x_row = load(layout, u64(4))
    out_column = load(layout, u64(5))
    x_column = load(layout, u64(6))
    down = (rows + {rows - 1}) // {rows}
    across = (columns + {columns - 1}) // {columns}
    for task in range(lo, hi):
        rest = i64(task) // across
        left = (i64(task) - rest * across) * {columns}
        top = (rest % down) * {rows}
        rest = rest // down
        out_at = i64(0)
        x_at = i64(0)
{_walk(7, "out_at", "x_at")}
        right = min(left + {columns}, columns)
        bottom = min(top + {rows}, rows)
{squares}
        for r in range(top, bottom):
            a = out_at + r * out_row
            b = x_at + r * x_row
            for c in range({start}, right):
                store(out, u64(a + c * out_column), load(x, u64(b + c * x_column)))
"""


# Rows of a few elements, in blocks of rows: an element of each, then the next of each. A loop over the elements of a
# row would cost more than they do.
_SHORT, _BLOCK = 16, 1024
_FEW = f"""def kernel(lo, hi, layout, out, x):
    rank = load(layout, u64(0))
    rows = load(layout, u64(1))
    n = load(layout, u64(2))
    x_row = load(layout, u64(3))
    x_step = load(layout, u64(4))
    blocks = (rows + {_BLOCK - 1}) // {_BLOCK}
    for task in range(lo, hi):
        rest = i64(task) // blocks
        first = (i64(task) - rest * blocks) * {_BLOCK}
        last = min(first + {_BLOCK}, rows)
        out_at = rest * rows * n
        x_at = i64(0)
{_walk(5, "x_at")}
        for j in range(n):
            a = out_at + j
            b = x_at + j * x_step
            for k in range(first, last):
                store(out, u64(a + k * n), load(x, u64(b + k * x_row)))
"""
_BACKWARD = f"""def kernel(lo, hi, layout, out, x):
    wide_vectors()
    rank = load(layout, u64(0))
    n = load(layout, u64(1))
    for row in range(lo, hi):
        rest = i64(row)
        out_at = rest * n
        x_at = i64(0)
{_walk(2, "x_at")}
        for j in range(n):
            store(out, u64(out_at + j), load(x, u64(x_at - j)))
"""


@lru_cache(4096)
def _plan_copy(shape: tuple, strides: tuple, source: tuple, steps: tuple, itemsize: int) -> tuple | None:
    """The loop for layouts that the general one is slow for, as `run_kernel` takes it; None for the others."""
    missing = len(shape) - len(source)
    spread = (0,) * missing + tuple([0 if size == 1 else step for size, step in zip(source, steps)])
    if any(stride % itemsize for stride in (*strides, *spread)):
        return None
    layout = plan_layout(shape, [[stride // itemsize for stride in own] for own in (strides, spread)])
    dims = list(zip(layout.sizes, *layout.strides))
    dense = all(own == math.prod(layout.sizes[d + 1 :]) for d, (_, own, _) in enumerate(dims))
    *outer, (n, _, step) = dims
    if dense and n <= _SHORT and outer and outer[-1][0] >= _SHORT:
        rows, _, row = outer.pop()
        numbers = [len(outer), rows, n, row, step, *[x for size, _, move in outer for x in (size, move)]]
        blocks = math.prod([size for size, *_ in outer]) * -(-rows // _BLOCK)
        return _planned(_FEW, itemsize, blocks, min(rows, _BLOCK) * n, numbers)
    if dense and step == -1:
        numbers = [len(outer), n, *[x for size, _, move in outer for x in (size, move)]]
        return _planned(_BACKWARD, itemsize, math.prod(layout.sizes[:-1]), n, numbers)
    tiled = layout.tiled(16)
    return None if tiled is None else _plan_tiles(tiled, itemsize)


def _planned(source: str, itemsize: int, tasks: int, elements_each: int, layout: list[int]) -> tuple:
    word = f"*{SHORT[bits_dtype(itemsize).name]}"
    kernel = compile_source(source, ("u64", "u64", "*i64", word, word))
    return kernel, tasks, max(1, native.GRAIN // elements_each), np.array(layout, np.int64)


def _plan_tiles(tiled: Layout, itemsize: int) -> tuple:
    """How to copy in tiles, where the neighbours of source and target lie along different dimensions."""
    *outer, rows, columns = zip(tiled.sizes, *tiled.strides)
    if rows[1] == columns[2] == 1:
        rows, columns = columns, rows
    lanes = _lanes(itemsize) if columns[1] == rows[2] == 1 else 1
    layout = [len(outer), rows[0], columns[0], *rows[1:], *columns[1:]]
    for dim in outer:
        layout += dim
    high, wide = _SINGLE if lanes == 1 else _TURNED
    tiles = math.prod([size for size, *_ in outer]) * -(-rows[0] // high) * -(-columns[0] // wide)
    return _planned(_transpose(lanes), itemsize, tiles, high * wide, layout)


def _lanes(itemsize: int) -> int:
    """Elements to a register: not more than there are registers for rows."""
    from rushlight.kernels.cpu.tiles import BYTES

    return 1 if itemsize == 16 else min(16, BYTES // itemsize)


def duplicate(array: np.ndarray) -> np.ndarray:
    """A row-major copy."""
    if array.size < LARGE:
        return array.copy()
    fresh = allocator.empty(array.shape, array.dtype)
    assign(fresh, array)
    return fresh


def dense(array: np.ndarray) -> np.ndarray:
    """The array, or a row-major copy where it is not contiguous."""
    return array if array.flags.c_contiguous else duplicate(array)


def zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros in memory that was used before, written by the threads that will work on them: a line that another thread
    wrote comes slowly."""
    fresh = allocator.empty(shape, dtype)
    assign(fresh, np.zeros((), dtype))
    return fresh


def joined(arrays: Sequence[np.ndarray], shape: tuple[int, ...], dtype: np.dtype, axis: int) -> np.ndarray:
    """Arrays one after the other along a dimension, in a new array of the shape and dtype."""
    out = allocator.empty(shape, dtype)
    if out.size < LARGE * len(arrays):
        return np.concatenate(arrays, axis=axis, out=out, casting="unsafe")
    rows = math.prod(shape[:axis])
    width = out.nbytes // rows
    if _NARROWEST * len(arrays) <= width <= _WIDEST and all(
        x.dtype == dtype and x.flags.c_contiguous and x.flags.aligned for x in arrays
    ):
        _join_rows(arrays, out, rows)
        return out
    at, before = 0, (slice(None),) * axis
    for array in arrays:
        size = array.shape[axis]
        assign(out[(*before, slice(at, at + size))], array)
        at += size
    return out


# Bytes of a joined row, in all and for each array, for which rows are written one after the other: two matrices of
# 1000 x 1000 float32 side by side take 0.3 ms, and 0.5 where the first is written to every other part before.
_WIDEST, _NARROWEST = 1 << 18, 256
# `layout`: arrays, elements of a joined row, then for each array those of its rows and where it begins.
_ROWS = """def kernel(lo, hi, layout, out):
    count, width = load(layout, 0), load(layout, 1)
    for row in range(i64(lo), i64(hi)):
        at = row * width
        for k in range(count):
            n, x = load(layout, 2 + 2 * k), pointer(load(layout, 3 + 2 * k), WORD)
            whole = n // 16 * 16
            for j in range(0, whole, 16):
                vstore(out, at + j, vload(x, row * n + j, 16))
            for j in few(whole, n):
                store(out, at + j, load(x, row * n + j))
            at += n
"""


def _join_rows(arrays: Sequence[np.ndarray], out: np.ndarray, rows: int) -> None:
    """Row-major arrays of one dtype, as so many rows each, side by side."""
    size = min(out.itemsize, 8)
    word = SHORT[bits_dtype(size).name]
    kernel = compile_source(_ROWS.replace("WORD", word), ("u64", "u64", "*i64", f"*{word}"))
    width = out.nbytes // rows // size
    places = [number for x in arrays for number in (x.nbytes // rows // size, x.ctypes.data)]
    layout = np.array([len(arrays), width, *places], np.int64)
    run_kernel(kernel, rows, max(1, native.GRAIN // width), layout, out)


@cache
def conversion(source: np.dtype, target: np.dtype) -> ElementwiseKernel | None:
    """The loop that converts elements; None where numpy has to."""
    if (source, target) in _NUMPY or target == np.uint64 or source.kind == "c" and target.kind != "c":
        return None

    def convert(x: Any) -> Any:
        if target.kind == "b":
            return x != 0
        if target.kind in "iu" and source.kind not in "iub":
            # The processor converts to these two only; what does not fit wraps around, as in numpy.
            return s.cast(x, np.int32 if target.itemsize < 4 or target == np.int32 else np.int64)
        return x

    return elementwise_kernel(convert, [source], target)
