"""Runs line programs (`kernels.line_source`) over arrays of any strides, on all threads.

    run(program, dims, outs, ins)      # the lines lie along the dimensions `dims` of the shape that all broadcast to

Lines are independent, so results do not depend on the number of threads. Native code is made for real floating-point
dtypes; `fits` says whether an array is one for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from rushlight.kernels.cpu import native
from rushlight.kernels.cpu.jit import compile_source
from rushlight.kernels.cpu.team import run_kernel
from rushlight.kernels.half import BFLOAT16, FLOAT16, is_half, storage_dtype
from rushlight.kernels.layout import as_words, plan_layout
from rushlight.kernels.line_source import TAIL, TILE, TILE_WIDTH, WIDTH, LineLoop, LineProgram, line_source

FLOATS = (np.dtype(np.float32), np.dtype(np.float64), FLOAT16, BFLOAT16)
# Fewer neighbouring lines than this are not worth going side by side.
NARROW = 8
# A strip of lines should stay in the second-level cache from one pass to the next.
STRIP_BYTES = 1 << 19


def fits(x: np.ndarray) -> bool:
    """Is this an array of real floats, large enough for native code, and aligned?

    A row of numpy's loops as one native call is as quick for few elements; half types numpy converts first.
    """
    return native.enough(x.size, 1 if is_half(x.dtype) else 4096) and x.dtype in FLOATS and x.flags.aligned


def run(
    program: LineProgram,
    dims: tuple[int, ...],
    outs: Sequence[np.ndarray],
    ins: Sequence[np.ndarray],
    dtype: np.dtype,
) -> None:
    """Do what the program says to all lines of elements of a dtype; half types are passed as their `bits`.

    Arrays have a size for each dimension; those in `each`, in the dtype in which that one computes, 1 along `dims`.
    """
    arrays = [*outs, *ins]
    loop, tasks, grain, layout = plan(program, dims, dtype, tuple([(x.shape, x.strides, x.itemsize) for x in arrays]))
    if tasks:
        run_kernel(loop, tasks, grain, layout, *arrays)


@lru_cache(maxsize=4096)
def plan(
    program: LineProgram, dims: tuple[int, ...], dtype: np.dtype, signature: tuple
) -> tuple[Any, int, int, np.ndarray]:
    """The native loop for arrays of these shapes, strides and item sizes; its tasks, their grain, and its layout."""
    names = (*program.outs, *program.ins)
    sizes = zip(*[shape for shape, _, _ in signature], strict=True)
    shape = tuple([next((n for n in along if n != 1), 1) for along in sizes])
    strides = [_strides(*one) for one in signature]
    kept = [d for d in range(len(shape)) if d not in dims]
    if 0 in shape:
        return None, 0, 1, np.zeros(0, np.int64)
    keep = plan_layout([shape[d] for d in kept], [[own[d] for d in kept] for own in strides])
    element = [k for k, name in enumerate(names) if name not in program.each]
    fold = plan_layout([shape[d] for d in dims], [[strides[k][d] for d in dims] for k in element])
    steps = {k: fold.strides[at] for at, k in enumerate(element)}
    n, lanes = fold.sizes[-1], keep.sizes[-1]
    beside = all(steps[k][-1] in (0, 1) for k in element)
    columns = lanes >= NARROW and not (beside and n >= TAIL)
    along = [keep.strides[k] if columns else steps.get(k, (None,)) if n >= TAIL else (None,) for k in range(len(names))]
    apart = tuple([own[-1] if own[-1] in (0, 1) else None for own in along])
    tiled = columns and fold.rank == 1 and n <= TILE // NARROW and any(apart[k] is None for k in element)
    loop = LineLoop(program, dtype, columns, apart, tiled)
    elements = math.prod(fold.sizes)
    fitting = STRIP_BYTES // (elements * dtype.itemsize * len(element)) // 16 * 16
    if tiled:
        width = TILE_WIDTH if n <= TILE // TILE_WIDTH else TILE // n // NARROW * NARROW
    else:
        width = min(WIDTH, max(16, fitting))
    strips = -(-lanes // width)
    outer = keep.sizes[:-1] if columns else keep.sizes
    parts = fold.sizes[:-1]
    layout = [n, math.prod(parts), lanes, strips, width, len(outer), len(parts), *outer, *parts]
    for k in range(len(names)):
        own = steps.get(k, (0,) * fold.rank)
        layout += [*keep.strides[k][: len(outer)], *own[:-1], keep.strides[k][-1], own[-1]]
    tasks = math.prod(outer) * strips if columns else math.prod(outer)
    grain = max(1, native.GRAIN // (elements * (width if columns else 1) * len(program.passes)))
    return compile_source(line_source(loop), loop.signature), tasks, grain, as_words(layout)


def _strides(own: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Strides in elements, 0 where the array repeats."""
    return tuple([0 if size == 1 else stride // itemsize for size, stride in zip(own, strides, strict=True)])


def bits(x: np.ndarray) -> np.ndarray:
    """The array as kernels load it: half types as the bits they are."""
    stored = storage_dtype(x.dtype)
    return x if stored == x.dtype else x.view(stored)
