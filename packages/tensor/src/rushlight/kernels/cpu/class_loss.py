"""Cross entropy of few rows, for callers who know all metadata beforehand: two native calls instead of ten of numpy.

    run = cross_entropy((64, 10), np.dtype(np.float32), ignore_index, mean=True)
    loss, largest, rest = run(x, target)

`x` is row-major, `target` int64. For 64 rows of 10 classes numpy takes 20 us, this 3; compiled programs use it, whose
user has agreed to wait for a compiler.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rushlight.kernels.cpu import lines, native, targets
from rushlight.kernels.cpu.cross_entropy import BACKWARD, FORWARD

_TOTAL = """def kernel(lo, hi, layout, total, wrong, loss, target):
    classes = load(layout, u64(0))
    ignored = load(layout, u64(1))
    count = i64(0)
    added = f64(0.0)
    for i in few(lo, hi):  # sums in order are no vectors
        t = load(target, i)
        if t != ignored:
            if t < 0 or t >= classes:
                store(wrong, u64(0), i64(1))
            added += f64(load(loss, i))
            count += 1
    if load(layout, u64(2)) != 0:
        added = added / f64(count)
    store(total, u64(0), T(added))
"""

_SCALES = """def kernel(lo, hi, layout, scale, grad, target):
    ignored = load(layout, u64(0))
    each = f64(load(grad, u64(0)))
    if load(layout, u64(1)) != 0:
        count = i64(0)
        for i in range(lo, hi):
            if load(target, i) != ignored:
                count += 1
        each = each / f64(count)
    for i in range(lo, hi):
        store(scale, i, T(0.0) if load(target, i) == ignored else T(each))
"""


def cross_entropy(
    shape: tuple[int, int], dtype: np.dtype, ignore_index: int, mean: bool
) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]]:
    """`run(x, target)` gives the loss, and the logarithms of the sums of exponentials in two parts, of each row the
    largest number and what is added to it; IndexError as in `targets`."""
    rows, classes = shape
    loop, tasks, layout = _lines(FORWARD, dtype, ["row", "row", "row", "whole", "target"], shape)
    total_of = native.compiled(_TOTAL, "TiTi", dtype)
    words = np.array([classes, ignore_index, mean])
    empty = np.empty

    def run(x: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, ...]:
        losses, largest, rest = empty(rows, dtype), empty(rows, dtype), empty(rows, dtype)
        total, wrong = empty((), dtype), np.zeros(1, np.int64)
        loop(0, tasks, layout, losses, largest, rest, x, target)
        total_of(0, rows, words, total, wrong, losses, target)
        if wrong[0]:
            targets.checked("cross_entropy", target, classes, ignore_index)  # finds which one it is
        return total, largest, rest

    run.calls = (loop, tasks, layout), (total_of, rows, words)  # type: ignore[attr-defined]  # for native programs
    return run


def cross_entropy_backward(
    shape: tuple[int, int], dtype: np.dtype, ignore_index: int, mean: bool
) -> Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """`run(grad, x, target, largest, rest)` gives the gradient of `x`; targets were checked before."""
    rows = shape[0]
    loop, tasks, layout = _lines(BACKWARD, dtype, ["whole", "whole", "target", "one", "row", "row", "row"], shape)
    scales_of = native.compiled(_SCALES, "TTi", dtype)
    words, ignored = np.array([ignore_index, mean]), np.full((1, 1), ignore_index)
    empty = np.empty

    def run(
        grad: np.ndarray, x: np.ndarray, target: np.ndarray, largest: np.ndarray, rest: np.ndarray
    ) -> np.ndarray:
        scale, out = empty(rows, dtype), empty(shape, dtype)
        scales_of(0, rows, words, scale, grad, target)
        loop(0, tasks, layout, out, x, target, ignored, largest, rest, scale)
        return out

    run.calls = (scales_of, rows, words), (loop, tasks, layout, ignored)  # type: ignore[attr-defined]
    return run


def _lines(program: lines.LineProgram, dtype: np.dtype, kinds: list[str], shape: tuple[int, int]) -> tuple:
    """The native loop of a line program over row-major rows, how many tasks it has, and its layout."""
    size, item = dtype.itemsize, np.dtype(np.int64).itemsize
    known = {
        "whole": (shape, (shape[1] * size, size), size),
        "row": ((shape[0], 1), (size, size), size),
        "target": ((shape[0], 1), (item, item), item),
        "one": ((1, 1), (item, item), item),
    }
    loop, tasks, _, layout = lines.plan(program, (1,), dtype, tuple([known[kind] for kind in kinds]))
    return loop, tasks, layout
