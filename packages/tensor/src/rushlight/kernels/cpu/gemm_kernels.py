"""The native parts of `gemm`, each compiled once per dtype and called by its address, so that others can use them too.

| kernel | what it does |
| --- | --- |
| `tile` | `multiply_tile` of `gemm_tile`: the innermost loop |
| `row` | `multiply_panels`: a row of tiles, for convolution |
| `packer` | copies a block of a matrix so that its rows lie side by side; convolution can put its own in place |
| `asker` | asks for lines of a panel, so that they are near when it is packed |
| `starter` | writes what a product is added to |
| `multiply` | the loops around the tiles |
| `pack_rows`, `pack_panels` | A's rows, or B's panels, packed before a product of large matrices |

The sources see the names of `gemm_words`, the sizes of tiles, and `T`, the element type.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from rushlight.kernels.cpu import gemm_words
from rushlight.kernels.cpu.jit import address_of, compile_source
from rushlight.kernels.source import SHORT

# The length of sums that a tile adds up before it writes them. 512 rows of a panel are 64 KiB and come from the second
# cache, asked for in advance; 256, which fit the first, fetch and write C twice as often and take 10 % longer. Part of
# what a result is, bit for bit, so it depends on nothing.
DEPTH = 512
# Bytes of a cache line.
LINE = 64

_TILE = """def kernel(rows, a, a_row, a_depth, b, b_depth, depth, c, c_row, add, alpha):
    multiply_tile(rows, a, a_row, a_depth, b, b_depth, depth, c, c_row, add, alpha)
"""

_ROW = """def kernel(rows, panels, a, a_row, a_depth, b, b_panel, depth, c, c_row, add):
    multiply_panels(rows, panels, a, a_row, a_depth, b, b_panel, depth, c, c_row, add)
"""

_PACKER = """def kernel(b, words, k, rows, column, columns, panel, pitch):
    wide_vectors()
    down, along = load(words, B_DEPTH), load(words, B_COLUMN)
    source = moved(b, k * down + column * along)
    if along == 1:
        if columns == COLUMNS:
            for r in few(rows):
                vstore(panel, r * pitch, vload(source, r * down, COLUMNS))
        else:
            whole = columns // COLUMNS * COLUMNS
            for r in few(rows):
                for c in few(0, whole, COLUMNS):
                    vstore(panel, r * pitch + c, vload(source, r * down + c, COLUMNS))
                for c in few(whole, columns):
                    store(panel, r * pitch + c, load(source, r * down + c))
    else:
        whole_rows, whole_columns = i64(0), i64(0)
        if down == 1:
            whole_rows, whole_columns = rows // LANES * LANES, columns // LANES * LANES
        for c in few(0, whole_columns, LANES):
            for r in few(0, whole_rows, LANES):
                transpose_block(moved(source, c * along + r), along, moved(panel, r * pitch + c), pitch)
        for r in few(rows):
            for c in few(whole_columns if r < whole_rows else i64(0), columns):
                store(panel, r * pitch + c, load(source, r * down + c * along))
    for r in few(rows):  # what lies beside the matrix is multiplied, too; leftovers in memory may be slow numbers
        for c in few(columns, COLUMNS):
            store(panel, r * pitch + c, T(0))
"""

# A line of a cache is LINE elements, or a row of a panel if that is shorter.
_ASKER = """def kernel(b, words, k, column, first, last):
    down, along = load(words, B_DEPTH), load(words, B_COLUMN)
    source = moved(b, k * down + column * along)
    for line in few(first, last):
        if along == 1:
            ask(source, line // LINES * down + line % LINES * LINE)
        else:
            ask(source, line % COLUMNS * along + line // COLUMNS * LINE)
"""

_STARTER = """def kernel(c, words, d, numbers, batch, row, rows, column, columns):
    inner, pitch = load(words, INNER), load(words, C_ROW)
    down, along = load(words, D_ROW), load(words, D_COLUMN)
    start = batch // inner * load(words, D_OUTER) + batch % inner * load(words, D_INNER)
    beta = load(numbers, 1)
    source = moved(d, start + row * down + column * along)
    for i in few(rows):
        if along == 1 and columns == COLUMNS:
            vstore(c, i * pitch, vmul(splat(beta, COLUMNS), vload(source, i * down, COLUMNS)))
        else:
            for j in few(columns):
                store(c, i * pitch + j, beta * load(source, i * down + j * along))
"""

_MULTIPLY = """def kernel(lo, hi, words, a, b, c, d, numbers):
    panel, edge = stack_array(T, PANEL), stack_array(T, EDGE)
    tile, packer, starter, asker = load(words, TILE), load(words, PACKER), load(words, STARTER), load(words, ASKER)
    m, n, depth = load(words, M), load(words, N), load(words, K)
    a_row, a_depth, b_row, c_row = load(words, A_ROW), load(words, A_DEPTH), load(words, B_DEPTH), load(words, C_ROW)
    block, panels, place, inner = load(words, BLOCK), load(words, PANELS), load(words, PLACE), load(words, INNER)
    alpha, ahead = load(numbers, 0), load(words, A_AHEAD)
    blocks = (m + block - 1) // block
    for task in range(i64(lo), i64(hi)):
        number, batch = task % panels, task // panels // blocks
        first, outer = task // panels % blocks * block, batch // inner
        column, last, within = number * COLUMNS, min(m, first + block), batch % inner
        columns = min(COLUMNS, n - column)
        left = moved(a, load(words, A_FIRST) + outer * load(words, A_OUTER) + within * load(words, A_INNER))
        right = moved(b, load(words, B_FIRST) + outer * load(words, B_OUTER) + within * load(words, B_INNER))
        result = moved(c, load(words, C_FIRST) + outer * load(words, C_OUTER) + within * load(words, C_INNER) + column)
        tiles = (last - first + ROWS - 1) // ROWS
        least, larger = (last - first) // tiles, (last - first) % tiles  # a division takes as long as half a tile
        add = load(words, ADD)
        for k in range(0, max(depth, 1), DEPTH):
            length = min(DEPTH, depth - k)
            source, pitch = panel, i64(COLUMNS)
            if place == PACKED:
                source = moved(right, number * depth * COLUMNS)
            elif place == IN_PLACE and columns == COLUMNS:
                source, pitch = moved(right, k * b_row + column), b_row
            else:
                invoke(packer, (right, words, k, length, column, columns, panel, i64(COLUMNS)))
            # While tiles are multiplied, what is packed next comes nearer: further down, or the next panel.
            further, beside, lines, share = k + DEPTH, column, i64(0), i64(0)
            if further >= depth:
                further, beside = i64(0), column + COLUMNS
            if asker != 0 and beside + COLUMNS <= n:
                lines = min(DEPTH, depth - further) * LINES
                share = (lines + tiles - 1) // tiles
            row = first
            for t in range(tiles):
                rows = least + 1 if t < larger else least
                target = moved(result, row * c_row)
                factor = moved(left, row * a_row + k * a_depth)
                if lines > 0:
                    invoke(asker, (right, words, further, beside, t * share, min(lines, (t + 1) * share)))
                if number == 0 and ahead != 0:
                    for i in few(rows, min(rows + ROWS, last - row)):
                        for j in few(0, length, LINE):
                            ask(factor, i * a_row + j)
                if starter != 0 and k == 0:
                    invoke(starter, (target, words, d, numbers, batch, row, rows, column, columns))
                    add = i64(1)
                if columns == COLUMNS:
                    invoke(tile, (rows, factor, a_row, a_depth, source, pitch, length, target, c_row, add, alpha))
                else:
                    wide, fresh = i64(COLUMNS), i64(0)
                    invoke(tile, (rows, factor, a_row, a_depth, source, pitch, length, edge, wide, fresh, alpha))
                    for i in few(rows):
                        for j in few(columns):
                            value = scratch_load(edge, i * COLUMNS + j)
                            if add != 0:
                                value = value + scratch_load(target, i * c_row + j)
                            scratch_store(target, i * c_row + j, value)
                row += rows
            add = i64(1)
"""

# Words of pack_rows: the packer's; M rows, K columns, rows of the copy C_ROW apart.
_PACK_ROWS = """def kernel(lo, hi, words, a, copy):
    first = i64(lo) * LANES
    rows = min(load(words, M), i64(hi) * LANES) - first
    depth, pitch = load(words, K), load(words, C_ROW)
    invoke(load(words, PACKER), (a, words, first, rows, i64(0), depth, moved(copy, first * pitch), pitch))
"""

# Words of pack_panels: the packer's; K rows of N columns, a task packs BLOCK rows.
_PACK_PANELS = """def kernel(lo, hi, words, b, copy):
    n, depth, block = load(words, N), load(words, K), load(words, BLOCK)
    for task in range(i64(lo), i64(hi)):
        k = task * block
        for number in range(load(words, PANELS)):
            column = number * COLUMNS
            target = moved(copy, column * depth + k * COLUMNS)
            rows, columns = min(block, depth - k), min(COLUMNS, n - column)
            invoke(load(words, PACKER), (b, words, k, rows, column, columns, target, i64(COLUMNS)))
"""


def _compiled(source: str, dtype: np.dtype, *signature: str, simple: bool = False) -> Callable[..., None]:
    from rushlight.kernels.cpu.gemm_tile import ROWS, VECTORS, lanes

    columns = VECTORS * lanes(dtype.itemsize)
    names = {**gemm_words.NAMES, "DEPTH": DEPTH, "ROWS": ROWS, "COLUMNS": columns, "LANES": lanes(dtype.itemsize)}
    names |= {"PANEL": DEPTH * columns, "EDGE": ROWS * columns, "T": SHORT[dtype.name]}
    line = min(columns, LINE // dtype.itemsize)
    names |= {"LINE": line, "LINES": columns // line}
    kinds = {"a": f"*{SHORT[dtype.name]}", "w": "*i64", "i": "i64", "u": "u64", "T": SHORT[dtype.name]}
    constants = "".join(f"{name} = {value}\n" for name, value in names.items())
    return compile_source(constants + source, [kinds[letter] for letter in "".join(signature)], simple=simple)


def tile_shape(dtype: np.dtype) -> tuple[int, int]:
    """Most rows, and columns, of a tile."""
    from rushlight.kernels.cpu.gemm_tile import ROWS, VECTORS, lanes

    return ROWS, VECTORS * lanes(dtype.itemsize)


@cache
def tile(dtype: np.dtype) -> int:
    """The address of `(rows, a, a_row, a_depth, b, b_depth, depth, c, c_row, add, alpha)`."""
    return address_of(_compiled(_TILE, dtype, "iaiiaiiaiiT", simple=True))


@cache
def row(dtype: np.dtype) -> int:
    """The address of `(rows, panels, a, a_row, a_depth, b, b_panel, depth, c, c_row, add)`."""
    return address_of(_compiled(_ROW, dtype, "iiaiiaiiaii"))


@cache
def packer(dtype: np.dtype) -> int:
    """The address of `(b, words, k, rows, column, columns, panel, pitch)`: panel[r * pitch + c] = b[k + r, column + c].

    What stands beyond `columns`, up to the width of a panel, becomes zero.
    """
    return address_of(_compiled(_PACKER, dtype, "awiiiiai"))


@cache
def asker(dtype: np.dtype) -> int:
    """The address of `(b, words, k, column, first, last)`: asks for lines of the panel that begins at b[k, column]."""
    return address_of(_compiled(_ASKER, dtype, "awiiii"))


@cache
def starter(dtype: np.dtype) -> int:
    """The address of `(c, words, d, numbers, batch, row, rows, column, columns)`: c = beta * d for a tile."""
    return address_of(_compiled(_STARTER, dtype, "awaaiiiii"))


@cache
def multiply(dtype: np.dtype) -> Callable[..., None]:
    """`(lo, hi, words, a, b, c, d, numbers)`: tasks of a product; numbers are alpha and beta."""
    return _compiled(_MULTIPLY, dtype, "uuwaaaaa", simple=True)


@cache
def pack_rows(dtype: np.dtype) -> Callable[..., None]:
    """`(lo, hi, words, a, copy)`: groups of as many rows as a vector has lanes."""
    return _compiled(_PACK_ROWS, dtype, "uuwaa")


@cache
def pack_panels(dtype: np.dtype) -> Callable[..., None]:
    """`(lo, hi, words, b, copy)`: groups of BLOCK rows."""
    return _compiled(_PACK_PANELS, dtype, "uuwaa")
