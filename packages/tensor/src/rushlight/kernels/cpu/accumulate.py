"""Adding rows to the places that an index says, where places may repeat:
the heart of every scatter and of embedding's gradient.
"""

from __future__ import annotations

import numpy as np

from rushlight.kernels.cpu import native
from rushlight.kernels.cpu.jit import compile_source

# Tasks are blocks of columns, so that no two threads write to one place and the order of additions does not depend on
# their number.
_ADD_ROWS = """def kernel(lo, hi, layout, out, values, index):
    wide_vectors()
    width = load(layout, u64(0))
    count = load(layout, u64(1))
    step = load(layout, u64(2))
    for block in range(lo, hi):
        first = i64(block) * step
        last = first + step
        if last > width:
            last = width
        for k in range(count):
            target = load(index, u64(k)) * width
            source = i64(k) * width
            for j in range(first, last):
                at = u64(target + j)
                scratch_store(out, at, scratch_load(out, at) + load(values, u64(source + j)))
"""
_SIGNATURES = {
    np.dtype(name): ("u64", "u64", "*i64", f"*{short}", f"*{short}", "*i64")
    for name, short in (("float32", "f32"), ("float64", "f64"))
}
_BLOCK = 64  # columns of a task: four cache lines of float32


def add_rows(target: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    """`target[index[i]] += values[i]` along axis 0, where indices may repeat; they must be checked and not negative.

    What comes to one row is added in the order in which it comes, so the result is the same on every run.
    """
    if not index.size or not values.size:
        return
    if _is_native(target, values):
        width = values.size // len(index)
        kernel = compile_source(_ADD_ROWS, _SIGNATURES[target.dtype])
        step = min(width, _BLOCK)
        layout = (width, len(index), step)
        native.over(
            kernel, -(-width // step), step * len(index), layout, target, values, np.ascontiguousarray(index, np.int64)
        )
    elif target.dtype.kind in "fiuc" and target.ndim == 1:
        np.add.at(target, index, values)
    else:
        _add_sorted(target, index, values)


def _is_native(target: np.ndarray, values: np.ndarray) -> bool:
    same = target.dtype == values.dtype and target.dtype in _SIGNATURES
    return values.size >= native.WORTH and same and target.flags.c_contiguous and values.flags.c_contiguous


def _add_sorted(target: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    """Rows of one place brought together and summed at once."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    half = target.dtype.kind == "V" or target.dtype == np.float16
    sums = np.add.reduceat(values[order], starts, axis=0, dtype=np.float32 if half else target.dtype)
    rows = ordered[starts]
    target[rows] = target[rows] + sums  # half types: the sum in float32, rounded once
