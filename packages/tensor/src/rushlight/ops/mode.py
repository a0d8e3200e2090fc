"""The most frequent element of a dimension: mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.declare import structured
from rushlight.core.errors import check_dim
from rushlight.core.front import function
from rushlight.core.meta import Meta
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.out import EXACT
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import axes
from rushlight.ops.extremum import check_not_empty, check_order, chosen
from rushlight.ops.reduction import reduced_shape
from rushlight.ops.sorting import comparable, on_threads, positions_like

_MATRIX = np.array([[3, 1, 2, 1], [0, -1, 5, 2]], np.float32)
_LONG = 4096  # from here on a line is sorted by itself, and looked through in pieces of this size


def _infer_mode(input: Meta, *, dim: int) -> Meta:
    check_order("mode", input)
    if input.ndim:
        check_not_empty("mode()", input, (dim,))
    return positions_like(input, reduced_shape(input.shape, (dim,), True))


def _last_of_most(row: np.ndarray) -> int:
    """The reference for one row: last position of its most frequent element, the smallest of equally frequent ones."""
    values, counts = np.unique(row, return_counts=True)
    return np.flatnonzero(row == values[counts.argmax()])[-1]


mode_op = structured(
    "mode",
    _infer_mode,
    errors=lambda: [ErrorSample((_MATRIX[:, :0],), (1,), IndexError, "non-zero size")],
    doc="The position of the last one of the most frequent elements of a dimension.",
    samples=lambda: [Sample((_MATRIX,), (1,))],
    reference=lambda x, dim: np.expand_dims(np.apply_along_axis(_last_of_most, dim, x), dim),
)


@kernel(mode_op, "cpu")
def _mode(x: np.ndarray, dim: int) -> np.ndarray:
    if x.ndim == 0:
        return np.zeros((), np.int64)
    return on_threads(_most_frequent, comparable(x), dim, 1, _LONG)


def _most_frequent(x: np.ndarray, axis: int) -> np.ndarray:
    """Positions, with size 1 along `axis`, of the last one of the most frequent elements."""
    x = axes.last(x, axis)
    if x.shape[-1] >= _LONG:
        found = [_last_place(row, _most_frequent_of(np.sort(row))) for row in x.reshape(-1, x.shape[-1])]
        return np.moveaxis(np.array(found, np.int64).reshape(*x.shape[:-1], 1), -1, axis)
    order = x.argsort(-1, "stable")
    ordered = axes.take_along(x, order, -1)
    places = np.arange(x.shape[-1])
    starts = np.ones(x.shape, bool)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    run = places - np.maximum.accumulate(np.where(starts, places, 0), axis=-1)
    best = np.argmax(run, axis=-1, keepdims=True)  # the first longest run: the smallest of equally frequent values
    return np.moveaxis(np.take_along_axis(order, best, -1), -1, axis)


def _most_frequent_of(ordered: np.ndarray) -> np.generic:
    """The first one of the most frequent elements of a sorted line."""
    start, longest, found = 0, 0, ordered[0]
    for at in range(1, ordered.size, _LONG):
        stop = min(at + _LONG, ordered.size)
        bounds = at + np.flatnonzero(ordered[at:stop] != ordered[at - 1 : stop - 1])
        if bounds.size:
            lengths = np.diff(bounds, prepend=start)
            best = lengths.argmax()
            if lengths[best] > longest:
                longest, found = lengths[best], ordered[bounds[best] - 1]
            start = bounds[-1]
    return ordered[start] if ordered.size - start > longest else found


def _last_place(row: np.ndarray, value: np.generic) -> int:
    """Where an element is last; 0 for NaN, which is the most frequent only where there is nothing else."""
    for stop in range(row.size, 0, -_LONG):
        places = np.flatnonzero(row[max(stop - _LONG, 0) : stop] == value)
        if places.size:
            return int(max(stop - _LONG, 0) + places[-1])
    return 0


@function(out=EXACT)
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent element along `dim` and its last position: a named tuple (values, indices).

    The smallest of equally frequent.

    Example:
        >>> import rushlight
        >>> rushlight.mode(rushlight.tensor([3, 1, 3, 1, 1])).values
        tensor(1)
    """
    d = check_dim("mode", dim, input.ndim)
    return chosen("mode", input, mode_op.apply((input,), (d,)), d, keepdim)
