"""A recurrent layer, in one direction, in one native call; and its gradient in another and a product per weight.

Sequences come as `x`, what the input gives to the gates, in rows of `gates * units`: (times, batch, row), (batch,
times, row) or, packed, (rows, row), where time t has the first `sizes[t]` sequences. Results have the same rows, so no
layout is ever turned into another. Small sequences are worked off with numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from rushlight.kernels.cpu import allocator, blas, gemm, gemm_kernels, pool
from rushlight.kernels.cpu.jit import compile_source
from rushlight.kernels.cpu.recurrent_source import backward_source, forward_source
from rushlight.kernels.cpu.team import run_kernel
from rushlight.kernels.recurrent import Cell
from rushlight.kernels.source import SHORT

# Multiply-adds from which on native code is worth waiting for a compiler, once a machine: a step takes 20 us with it,
# most of them in Python, and 40 with numpy.
WORTH = 1 << 9
# Most and fewest rows of a block: four tiles of rows pay for fetching the weights, and less than four rows leave the
# processor waiting for sums.
MOST_ROWS, FEWEST_ROWS = 56, 4


class Layer(NamedTuple):
    """One direction of a layer: its cell, its weights by the names of PyTorch's parameters, and how it walks."""

    cell: Cell
    weight_hh: np.ndarray
    bias_hh: np.ndarray | None
    weight_hr: np.ndarray | None
    reverse: bool

    @property
    def units(self) -> int:
        """Units of the layer: numbers of its state."""
        return self.weight_hh.shape[0] // self.cell.gates

    @property
    def width(self) -> int:
        """Numbers of its output, fewer where it is projected."""
        return self.weight_hh.shape[1]


class Rows(NamedTuple):
    """Where elements of sequences lie among the rows of an array: that of sequence b at time t in row
    `first[t] + b * pitch`, for the first `count[t]` sequences."""

    first: tuple[int, ...]
    count: tuple[int, ...]
    pitch: int
    batch: int

    def order(self, reverse: bool) -> Iterator[tuple[int, slice]]:
        """Times in order, each with its rows."""
        for t in reversed(range(len(self.first))) if reverse else range(len(self.first)):
            start, count = self.first[t], self.count[t]
            yield t, slice(start, start + count * self.pitch, self.pitch)


@lru_cache(256)
def rows_of(shape: tuple[int, ...], batch_first: bool) -> Rows:
    """The rows of sequences of one length, in an array of three dimensions."""
    batch, times = shape[:2] if batch_first else shape[1::-1]
    first = range(times) if batch_first else range(0, times * batch, max(batch, 1))
    return Rows(tuple(first)[:times] if batch else (0,) * times, (batch,) * times, times if batch_first else 1, batch)


def packed_rows(sizes: tuple[int, ...]) -> Rows:
    """The rows of packed sequences."""
    return Rows((0, *accumulate(sizes[:-1])), sizes, 1, sizes[0])


class Forward(NamedTuple):
    """What `forward` makes: outputs, last states, and what `backward` needs (empty where not asked for)."""

    out: np.ndarray
    h: np.ndarray
    c: np.ndarray
    saved: np.ndarray
    cells: np.ndarray


def forward(x: np.ndarray, rows: Rows, h: np.ndarray, c: np.ndarray | None, layer: Layer, saves: bool) -> Forward:
    """Run a layer from the states `h` (batch, width) and, for a cell that remembers, `c` (batch, units)."""
    cell, units, count = layer.cell, layer.units, x.size // max(layer.cell.gates * layer.units, 1)
    saved, cells = (cell.saved, int(cell.remembers)) if saves else (0, 0)
    made = Forward(
        allocator.empty((count, layer.width), x.dtype),
        np.array(h, order="C"),
        np.zeros(0, x.dtype) if c is None else np.array(c, order="C"),
        allocator.empty((count, saved * units), x.dtype),
        allocator.empty((count, cells * units), x.dtype),
    )
    run = _forward_native if _worth(x, layer) else _forward_numpy
    run(np.ascontiguousarray(x).reshape(count, cell.gates * units), rows, layer, saves, made)
    return made


def _worth(x: np.ndarray, layer: Layer) -> bool:
    return x.size * layer.width >= WORTH and x.dtype.char in "fd"


def _grain(x: np.ndarray, layer: Layer, blocks: int) -> float:
    """What part of a block is worth a thread: a walk of a few blocks is a long job."""
    return min(1.0, gemm.PIECE * blocks / (x.size * layer.width))


def _forward_numpy(x: np.ndarray, rows: Rows, layer: Layer, saves: bool, made: Forward) -> None:
    cell, weight = layer.cell, layer.weight_hh.T
    for t, place in rows.order(layer.reverse):
        h, c = made.h[: rows.count[t]], made.c[: rows.count[t]]
        products = h @ weight if layer.bias_hh is None else h @ weight + layer.bias_hh
        gates = [part for array in (x[place], products) for part in np.split(array, cell.gates, 1)]
        new, *results = cell.forward(*gates, h, c)
        h[:] = made.out[place] = new if layer.weight_hr is None else new @ layer.weight_hr.T
        if cell.remembers:
            c[:] = results.pop(0)
        if saves and cell.remembers:
            made.cells[place] = c
        if saves and cell.saved:
            made.saved[place] = np.concatenate(results, 1)


def _forward_native(x: np.ndarray, rows: Rows, layer: Layer, saves: bool, made: Forward) -> None:
    cell, dtype, batch, threads = layer.cell, x.dtype, rows.batch, pool.get_num_threads()
    weights, wide = _packed(layer.weight_hh.T)
    projects = layer.weight_hr is not None
    project, narrow = _packed(layer.weight_hr.T) if layer.weight_hr is not None else (weights, 0)
    bias = np.zeros(cell.gates * layer.units, dtype) if layer.bias_hh is None else np.ascontiguousarray(layer.bias_hh)
    words, steps, blocks = _plan(rows, layer.units, layer.width, layer.reverse, wide, narrow, dtype, threads)
    products, narrows = allocator.empty((batch, wide), dtype), allocator.empty((batch, narrow), dtype)
    run_kernel(
        _forward_kernel(cell, saves, projects, dtype), blocks, _grain(x, layer, blocks),
        words, steps, x, bias, weights, project, products, narrows, made.h, made.c, made.out, made.saved, made.cells,
    )  # fmt: skip


class Gradients(NamedTuple):
    """Gradients of a layer's operands: what the input gives to the gates, the first states, and the weights."""

    x: np.ndarray
    h: np.ndarray
    c: np.ndarray
    weight_hh: np.ndarray
    bias_hh: np.ndarray
    weight_hr: np.ndarray


class _Parts(NamedTuple):
    """What the walk back makes, row by row: gradients of `x` and of products with the state, the state before,
    gradients of projected outputs, and outputs before the projection."""

    dx: np.ndarray
    dp: np.ndarray
    before: np.ndarray
    projected: np.ndarray
    raw: np.ndarray


def backward(
    grads: tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None], start: tuple[np.ndarray, np.ndarray | None],
    made: Forward, rows: Rows, layer: Layer,
) -> Gradients:  # fmt: skip
    """The gradients for those of outputs and last states, from the first states and what `forward` made (without `h`
    and `c`)."""
    cell, units, width, dtype = layer.cell, layer.units, layer.width, made.out.dtype
    count, projects = made.out.size // max(width, 1), layer.weight_hr is not None
    out, saved, cells = (
        np.ascontiguousarray(a).reshape(count, -1) if a.size else np.zeros((count, 0), dtype)
        for a in (made.out, made.saved, made.cells)
    )
    grad = np.zeros((count, width), dtype) if grads[0] is None else np.ascontiguousarray(grads[0]).reshape(count, width)
    dh = np.zeros((rows.batch, _padded(width, dtype)), dtype)
    dh[:, :width] = 0 if grads[1] is None else grads[1]
    dc = np.zeros((rows.batch, units if cell.remembers else 0), dtype)
    dc[:] = 0 if grads[2] is None else grads[2]
    dx = allocator.empty((count, cell.gates * units), dtype)
    parts = _Parts(
        dx,
        allocator.empty(dx.shape, dtype) if cell.separate else dx,
        allocator.empty((count, width), dtype),
        allocator.empty((count, width if projects else 0), dtype),
        allocator.empty((count, units if projects else 0), dtype),
    )
    run = _backward_native if _worth(dx, layer) else _backward_numpy
    run(grad, dh, dc, start, Forward(out, dh, dc, saved, cells), rows, layer, parts)
    return Gradients(
        dx,
        np.ascontiguousarray(dh[:, :width]),
        dc if cell.remembers else np.zeros(0, dtype),
        blas.matmul(parts.dp.T, parts.before),
        gemm.multiply(np.ones((1, count), dtype), parts.dp)[0] if layer.bias_hh is not None else np.zeros(0, dtype),
        blas.matmul(parts.projected.T, parts.raw) if projects else np.zeros(0, dtype),
    )


def _backward_numpy(
    grad: np.ndarray, dh: np.ndarray, dc: np.ndarray, start: tuple[np.ndarray, np.ndarray | None], made: Forward,
    rows: Rows, layer: Layer, parts: _Parts,
) -> None:  # fmt: skip
    cell, width = layer.cell, layer.width
    h_start, c_start = start
    for t, place in rows.order(not layer.reverse):
        active = rows.count[t]
        earlier = t + 1 if layer.reverse else t - 1
        older = min(active, rows.count[earlier]) if 0 <= earlier < len(rows.first) else 0
        h_before, c_before = np.array(h_start[:active]), None if c_start is None else np.array(c_start[:active])
        if older:
            places = slice(rows.first[earlier], rows.first[earlier] + older * rows.pitch, rows.pitch)
            h_before[:older] = made.out[places]
            if c_before is not None:
                c_before[:older] = made.cells[places]
        own = dh[:active, :width] + grad[place]
        if layer.weight_hr is not None:
            parts.projected[place] = own
            own = own @ layer.weight_hr
        saved = np.split(made.saved[place], cell.saved, 1) if cell.saved else []
        results = cell.backward(own, dc[:active], h_before, c_before, made.out[place], made.cells[place], *saved)
        by_x, others = results[: cell.gates], results[cell.gates :]
        parts.before[place] = h_before
        parts.dx[place] = np.concatenate(by_x, 1)
        direct = 0.0
        if cell.separate:
            parts.dp[place] = np.concatenate((*by_x[:-1], others[0]), 1)
            direct = others[1]
        if cell.remembers:
            dc[:active] = others[0]
            if layer.weight_hr is not None:
                parts.raw[place] = others[1]
        dh[:active, :width] = parts.dp[place] @ layer.weight_hh + direct


def _backward_native(
    grad: np.ndarray, dh: np.ndarray, dc: np.ndarray, start: tuple[np.ndarray, np.ndarray | None], made: Forward,
    rows: Rows, layer: Layer, parts: _Parts,
) -> None:  # fmt: skip
    cell, dtype, threads = layer.cell, grad.dtype, pool.get_num_threads()
    weights, narrow = _packed(layer.weight_hh)
    projects = layer.weight_hr is not None
    project, wide = _packed(layer.weight_hr) if layer.weight_hr is not None else (weights, 0)
    h_start, c_start = (np.ascontiguousarray(dc if state is None else state) for state in start)
    words, steps, blocks = _plan(rows, layer.units, layer.width, layer.reverse, wide, narrow, dtype, threads)
    products = allocator.empty((rows.batch, wide), dtype)
    run_kernel(
        _backward_kernel(cell, projects, dtype), blocks, _grain(parts.dx, layer, blocks), words, steps, grad, weights,
        project, h_start, c_start, made.out, made.saved, made.cells, products, dh, dc, *parts,
    )  # fmt: skip


@lru_cache(256)
def _padded(n: int, dtype: np.dtype) -> int:
    """The length of a row of whole panels."""
    columns = gemm_kernels.tile_shape(dtype)[1]
    return -(-n // columns) * columns


def _packed(weights: np.ndarray) -> tuple[np.ndarray, int]:
    """Weights in panels, and the length of a row of a product with them."""
    depth, n = weights.shape
    wide = _padded(n, weights.dtype)
    panels = allocator.empty((depth * wide,), weights.dtype)
    gemm.pack_panels(weights, panels)
    return panels, wide


@lru_cache(256)
def _plan(
    rows: Rows, units: int, width: int, reverse: bool, wide: int, narrow: int, dtype: np.dtype, threads: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """The words and steps of a kernel, and the number of its tasks, on which results do not depend."""
    blocks = max(-(-rows.batch // MOST_ROWS), min(threads, rows.batch // FEWEST_ROWS), 1)
    words = [units, width, rows.batch, blocks, len(rows.first), reverse, rows.pitch, wide, narrow]
    words.append(gemm_kernels.tile(dtype))
    steps = np.array([rows.first, rows.count], np.int64).T
    return np.array(words, np.int64), np.ascontiguousarray(steps), blocks


def _compiled(source: str, dtype: np.dtype, arrays: int) -> Callable[..., None]:
    return compile_source(source, ("u64", "u64", "*i64", "*i64", *[f"*{SHORT[dtype.name]}"] * arrays))


@cache
def _forward_kernel(cell: Cell, saves: bool, projects: bool, dtype: np.dtype) -> Callable[..., None]:
    return _compiled(forward_source(cell, saves, projects, dtype), dtype, 11)


@cache
def _backward_kernel(cell: Cell, projects: bool, dtype: np.dtype) -> Callable[..., None]:
    return _compiled(backward_source(cell, projects, dtype), dtype, 16)
