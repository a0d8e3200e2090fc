"""Places in a sorted sequence: searchsorted, bucketize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import structured
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.op import ErrorSample, Sample, kernel, planner
from rushlight.core.tensor import Tensor, wrap
from rushlight.kernels.cpu.native import WORTH
from rushlight.kernels.cpu.search import searchsorted as native_search
from rushlight.ops.arithmetic import Number
from rushlight.ops.inspect import result_type

_VALUES = np.array([0.5, 1.5, 1.0, 3.0], np.float32)



def _infer_searchsorted(
    sorted_sequence: Meta, input: Meta, sorter: Meta | None, *, right: bool, out_int32: bool
) -> Meta:
    if sorted_sequence.ndim == 0:
        raise RuntimeError("searchsorted: boundaries tensor should have positive dimension, but got 0 dimension")
    if input.weak:
        if sorted_sequence.ndim != 1:
            raise RuntimeError("searchsorted: input value can be a scalar only when boundaries tensor dimension is 1")
    else:
        if sorted_sequence.dtype is not input.dtype:
            raise RuntimeError(
                f"searchsorted: boundary and input should have the same dtype, got {sorted_sequence.dtype.name} and "
                f"{input.dtype.name}"
            )
        if sorted_sequence.ndim != 1 and sorted_sequence.shape[:-1] != input.shape[:-1]:
            raise RuntimeError(
                f"searchsorted: boundaries must have 1 dimension, or all sizes but the last must match: got "
                f"{shape_text(sorted_sequence.shape)} and {shape_text(input.shape)}"
            )
    if sorter is not None:
        if sorter.dtype is not dtypes.int64:
            raise RuntimeError(f"searchsorted: sorter must be a tensor of long dtype but got dtype {sorter.dtype.name}")
        if sorter.shape != sorted_sequence.shape:
            raise RuntimeError(
                f"searchsorted: boundaries and sorter must have one size: got {shape_text(sorted_sequence.shape)} and "
                f"{shape_text(sorter.shape)}"
            )
    return meta(dtypes.int32 if out_int32 else dtypes.int64, input.shape, None, sorted_sequence.device)


searchsorted_op = structured(
    "searchsorted",
    _infer_searchsorted,
    errors=lambda: [ErrorSample((_VALUES, np.arange(3), None), (False, False), RuntimeError, "same dtype")],
    doc="Where each value belongs in a sorted sequence, or row by row in sorted rows.",
    samples=lambda: [Sample((np.array([1.0, 2.0, 3.0], np.float32), _VALUES, None), (False, False))],
    reference=lambda sequence, x, sorter, right, out_int32: np.searchsorted(
        sequence, x, "right" if right else "left", sorter
    ),
)


@planner(searchsorted_op)
def _plan_searchsorted(metas: tuple[Meta | None, ...], params: tuple, out: Meta) -> Callable | None:
    """Few values in one sequence, of the dtypes that numpy orders."""
    sequence, x, sorter = metas
    if sorter is not None or x is None or x.weak or x.dtype is not sequence.dtype or sequence.numpy.kind not in "iuf":
        return None
    if sequence.ndim != 1 or sequence.numpy.itemsize == 2 or x.numel >= WORTH or not x.contiguous or not x.ndim:
        return None
    side = "right" if params[0] else "left"
    if out.dtype is not dtypes.int64:
        return None
    return lambda sequence, x, sorter: wrap(sequence._array.searchsorted(x._array, side), out)


@kernel(searchsorted_op, "cpu")
def _searchsorted(sequence: np.ndarray, x: Any, sorter: np.ndarray | None, right: bool, out_int32: bool) -> np.ndarray:
    if sorter is not None:
        if sorter.size and (sorter.min() < 0 or sorter.max() >= sequence.shape[-1]):
            raise RuntimeError("searchsorted: sorter index out of range")
        sequence = np.take_along_axis(sequence, sorter, -1)
    if sequence.dtype.itemsize == 2 and sequence.dtype.kind not in "iu":
        sequence, x = sequence.astype(np.float32), np.asarray(x).astype(np.float32)
    side = "right" if right else "left"
    if isinstance(x, np.ndarray) and x.size >= WORTH and sequence.dtype == x.dtype and sequence.dtype.kind in "iuf":
        return native_search(sequence, x, side, np.int32 if out_int32 else np.int64)
    if sequence.ndim == 1:
        found = sequence.searchsorted(x, side)
    else:
        found = np.empty(x.shape, np.int64)
        for row in np.ndindex(x.shape[:-1]):
            found[row] = np.searchsorted(sequence[row], x[row], side)
    return np.asarray(found).astype(np.int32 if out_int32 else np.int64, copy=False)


@function(method=False, memo=True)
def searchsorted(
    sorted_sequence: Tensor,
    input: Tensor | Number,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """The index at which each value would be inserted to keep the last dimension of `sorted_sequence` sorted.

    Before equal elements, after them for `right` (or `side="right"`). `sorter` sorts a sequence that is not. Shapes: a
    1-dim sequence takes any input, else all but the last sizes must match. Raises RuntimeError when they do not.

    Example:
        >>> import rushlight
        >>> rushlight.searchsorted(rushlight.tensor([1, 3, 5]), rushlight.tensor([3, 4]))
        tensor([1, 2])
    """
    if side is not None:
        if side not in ("left", "right"):
            raise RuntimeError(f"searchsorted: side can only be 'left' or 'right' but got {side}")
        if right and side == "left":
            raise RuntimeError(
                "searchsorted: side and right can't be set to opposites, got side of left while right was True"
            )
        right = side == "right"
    return _searched(sorted_sequence, input, sorter, right, out_int32)


def _searched(sequence: Tensor, input: Tensor | Number, sorter: Tensor | None, right: bool, out_int32: bool) -> Tensor:
    """The op's result for tensors whose dtypes may differ: they are compared as their common dtype."""
    if hasattr(input, "_meta") and input.dtype is not sequence.dtype:
        common = result_type(sequence, input)
        sequence, input = sequence.to(common), input.to(common)
    return searchsorted_op.apply((sequence, input, sorter), (bool(right), bool(out_int32)))


@function(method=False, memo=True)
def bucketize(input: Tensor | Number, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The bucket of each value: `i` where `boundaries[i-1] < input <= boundaries[i]` (`<=` and `<` for `right`).

    Raises RuntimeError unless `boundaries` has one dimension.

    Example:
        >>> import rushlight
        >>> rushlight.bucketize(rushlight.tensor([0, 3, 9]), rushlight.tensor([1, 3, 5]))
        tensor([0, 1, 3])
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"bucketize: boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return _searched(boundaries, input, None, right, out_int32)
