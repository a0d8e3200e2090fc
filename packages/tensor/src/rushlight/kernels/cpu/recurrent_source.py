"""Prints the native kernels of recurrent layers: the walk over time, products with the tiles of `gemm`, and the loop
over the units of a row, which is made of the cell's scalar functions.

A task is a block of rows of the batch. No other task needs them, so it goes through all times alone: threads meet once
a layer. Its state stays in the first cache, the packed weights in the second.

Arrays that are written have a kind of their own each (`own0_store`, ...): LLVM takes them as apart from all others. It
would have to compare each with each before every loop, and rather not vectorise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rushlight.kernels.build import build_program
from rushlight.kernels.cpu import gemm_kernels
from rushlight.kernels.polynomials import POLYNOMIALS
from rushlight.kernels.recurrent import Cell
from rushlight.kernels.source import SHORT, emit
from rushlight.kernels.trace import Input

# The words that both kernels get, in this order: units and numbers of an output (the width), rows of the batch, blocks
# of them, times, whether they are walked backwards, the distance of rows of the batch in the sequence, row lengths of
# the products with the recurrent and with the projecting weights, and the address of the tile kernel.
WORDS = ("units", "width", "batch", "blocks", "times", "reverse", "pitch", "wide", "narrow", "tile")

_BLOCK = """    wide_vectors()
    READ_WORDS
    for task in range(i64(lo), i64(hi)):
        first, last = batch * task // blocks, batch * (task + 1) // blocks
        for step in range(times):
            t = times - 1 - step if BACKWARDS else step
            active = min(last, load(steps, 2 * t + 1)) - first
            if active <= 0:
                continue
            place = load(steps, 2 * t) + first * pitch
"""

# The rows of a block times packed weights.
_PRODUCT = """            for panel in range({pitch} // COLUMNS):
                right = moved({weights}, panel * COLUMNS * {depth})
                tiles = (active + ROWS - 1) // ROWS
                for n in range(tiles):
                    row = active * n // tiles
                    rows = active * (n + 1) // tiles - row
                    left = moved({a}, {a_first} + row * {a_row})
                    target = moved({c}, (first + row) * {pitch} + panel * COLUMNS)
                    invoke(tile, (rows, left, i64({a_row}), i64(1), right, i64(COLUMNS), i64({depth}), target, {pitch},
                                  i64({add}), T(1.0)))
"""

_FORWARD = """def kernel(lo, hi, words, steps, x, bias, weights, project, products, narrows, h, c, out, saved, cells):
"""

_FORWARD_ROWS = """            for i in range(active):
                at = place + i * pitch
                own_x, own_p = moved(x, at * GATES * units), moved(products, (first + i) * wide)
                own_h, own_c = moved(h, (first + i) * width), moved(c, (first + i) * units)
                own_out, own_cells = moved(out, at * width), moved(cells, at * units)
                own_saved = moved(saved, at * SAVED * units)
                for j in range(units):
                    EACH_UNIT
"""

_FORWARD_PROJECTED = """            for i in range(active):
                own_p, own_h = moved(narrows, (first + i) * narrow), moved(h, (first + i) * width)
                own_out = moved(out, (place + i * pitch) * width)
                for j in range(width):
                    projected = scratch_load(own_p, j)
                    own0_store(own_h, j, projected)
                    own1_store(own_out, j, projected)
"""

_BACKWARD = """def kernel(lo, hi, words, steps, grad, weights, project, h_start, c_start, out, saved, cells,
           products, dh, dc, dx, dp, before, projected, raw):
"""

_BACKWARD_PROJECTED = """            for i in range(active):
                at = place + i * pitch
                own_grad, own_dh = moved(grad, at * width), moved(dh, (first + i) * narrow)
                own_projected = moved(projected, at * width)
                for j in range(width):
                    store(own_projected, j, load(own_grad, j) + own0_load(own_dh, j))
"""

# Rows that have no earlier element began with the given state.
_BACKWARD_ROWS = """            earlier = t + 1 if reverse != 0 else t - 1
            older = load(steps, 2 * earlier + 1) - first if 0 <= earlier < times else i64(0)
            for i in range(active):
                at = place + i * pitch
                h_before, c_before = moved(h_start, (first + i) * width), moved(c_start, (first + i) * units)
                if i < older:
                    at_before = load(steps, 2 * earlier) + (first + i) * pitch
                    h_before, c_before = moved(out, at_before * width), moved(cells, at_before * units)
                own_before = moved(before, at * width)
                for j in range(width):
                    store(own_before, j, load(h_before, j))
                own_grad, own_p = moved(grad, at * width), moved(products, (first + i) * wide)
                own_dh, own_dc = moved(dh, (first + i) * narrow), moved(dc, (first + i) * units)
                own_dx, own_dp = moved(dx, at * GATES * units), moved(dp, at * GATES * units)
                own_out, own_cells = moved(out, at * width), moved(cells, at * units)
                own_saved, own_raw = moved(saved, at * SAVED * units), moved(raw, at * units)
                for j in range(units):
                    EACH_UNIT
"""


def _parts(array: str, count: int) -> list[str]:
    """Places of what a row has of unit j, for each gate."""
    return [f"{array}, j + {k} * units" for k in range(count)]


def _forward_unit(cell: Cell, saves: bool, projects: bool, dtype: np.dtype) -> list[str]:
    x = [f"load({place})" for place in _parts("own_x", cell.gates)]
    biases = _parts("bias", cell.gates)
    p = [f"scratch_load({place}) + load({bias})" for place, bias in zip(_parts("own_p", cell.gates), biases)]
    operands = [*x, *p, "own0_load(own_h, j)", "own2_load(own_c, j)"]
    lines, (h, *results) = _computed(cell.forward, operands, 1 + cell.remembers + cell.saved, dtype)
    if projects:
        lines.append(f"scratch_store(own_p, j, {h})")
    else:
        lines += [f"own0_store(own_h, j, {h})", f"own1_store(own_out, j, {h})"]
    if cell.remembers:
        c, *results = results
        lines.append(f"own2_store(own_c, j, {c})")
        lines += [f"own3_store(own_cells, j, {c})"] if saves else []
    if saves:
        places = _parts("own_saved", cell.saved)
        lines += [f"own{4 + k}_store({place}, {value})" for k, (place, value) in enumerate(zip(places, results))]
    return lines


def _backward_unit(cell: Cell, projects: bool, dtype: np.dtype) -> list[str]:
    dh = "scratch_load(own_p, j)" if projects else "own0_load(own_dh, j) + load(own_grad, j)"
    operands = [dh, "own1_load(own_dc, j)", "load(h_before, j)", "load(c_before, j)", "load(own_out, j)"]
    operands += ["load(own_cells, j)", *[f"load({place})" for place in _parts("own_saved", cell.saved)]]
    count = cell.gates + 2 * (cell.remembers + cell.separate)
    lines, results = _computed(cell.backward, operands, count, dtype)
    by_x, others = results[: cell.gates], results[cell.gates :]
    stores = list(zip(_parts("own_dx", cell.gates), by_x))
    if cell.separate:
        stores += zip(_parts("own_dp", cell.gates), (*by_x[:-1], others[0]))
        lines.append(f"own0_store(own_dh, j, {others[1]})")
    if cell.remembers:
        lines.append(f"own1_store(own_dc, j, {others[0]})")
        stores += [("own_raw, j", others[1])] if projects else []
    return lines + [f"own{2 + k}_store({place}, {value})" for k, (place, value) in enumerate(stores)]


def _computed(function: Callable, operands: Sequence[str], count: int, dtype: np.dtype) -> tuple[list[str], list[str]]:
    """Lines that compute a scalar function of operands, given by their source, and the names of its results."""
    program = build_program(function, [dtype] * len(operands), [dtype] * count, tables=(POLYNOMIALS,))
    used = sorted(node.index for node in program.nodes() if isinstance(node, Input))
    lines, results = emit(program, [f"x{k}" for k in range(len(operands))])
    return [f"x{k} = {operands[k]}" for k in used] + lines, results


def _with_lines(template: str, mark: str, lines: Sequence[str]) -> str:
    """The template with the line that only holds `mark` replaced."""
    result = []
    for line in template.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        result += [indent + new for new in lines] if line.strip() == mark else [line]
    return "\n".join(result) + "\n"


def _complete(head: str, backwards: str, body: str, cell: Cell, dtype: np.dtype) -> str:
    rows, columns = gemm_kernels.tile_shape(dtype)
    names = {"ROWS": rows, "COLUMNS": columns, "GATES": cell.gates, "SAVED": cell.saved, "T": SHORT[dtype.name]}
    constants = "".join(f"{name} = {value}\n" for name, value in names.items())
    words = [f"{name} = load(words, {k})" for k, name in enumerate(WORDS)]
    block = _with_lines(_BLOCK, "READ_WORDS", words).replace("BACKWARDS", backwards)
    return constants + head + block + body


def forward_source(cell: Cell, saves: bool, projects: bool, dtype: np.dtype) -> str:
    """The kernel that makes outputs and last states, and saves what its gradient needs."""
    body = _PRODUCT.format(
        a="h", a_first="first * width", a_row="width", weights="weights", depth="width", c="products", pitch="wide",
        add=0,
    )  # fmt: skip
    body += _with_lines(_FORWARD_ROWS, "EACH_UNIT", _forward_unit(cell, saves, projects, dtype))
    if projects:
        body += _PRODUCT.format(
            a="products", a_first="first * wide", a_row="wide", weights="project", depth="units", c="narrows",
            pitch="narrow", add=0,
        ) + _FORWARD_PROJECTED  # fmt: skip
    return _complete(_FORWARD, "reverse != 0", body, cell, dtype)


def backward_source(cell: Cell, projects: bool, dtype: np.dtype) -> str:
    """The kernel that makes the gradients of what the input gives to the gates, and of the states; and arrays whose
    products are those of the weights."""
    body = ""
    if projects:
        body += _BACKWARD_PROJECTED + _PRODUCT.format(
            a="projected", a_first="place * width", a_row="pitch * width", weights="project", depth="width",
            c="products", pitch="wide", add=0,
        )  # fmt: skip
    body += _with_lines(_BACKWARD_ROWS, "EACH_UNIT", _backward_unit(cell, projects, dtype))
    body += _PRODUCT.format(
        a="dp" if cell.separate else "dx", a_first="place * GATES * units", a_row="pitch * GATES * units",
        weights="weights", depth="GATES * units", c="dh", pitch="narrow", add=int(cell.separate),
    )  # fmt: skip
    return _complete(_BACKWARD, "reverse == 0", body, cell, dtype)
