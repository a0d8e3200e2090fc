"""Reductions of runs of different lengths: segment_reduce."""

from __future__ import annotations

import math

from rushlight.core.errors import check_dim, shape_text
from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops.scatter import scatter_reduce
from rushlight.ops.selection import where_op

Number = bool | int | float | complex

# what PyTorch calls them -> the reduction of scatter_reduce, and the result for a segment without elements
_REDUCTIONS = {
    "sum": ("sum", 0.0),
    "mean": ("sum", 0.0),
    "prod": ("prod", 1.0),
    "max": ("amax", -math.inf),
    "min": ("amin", math.inf),
}


@function(method=False, out=False)
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Number | None = None,
) -> Tensor:
    """Sum, mean, prod, max or min of each of the segments that follow one another along `axis`.

    `lengths` (or `offsets`, with one more entry) says how long they are; its dimensions before the last are those of
    `data` before `axis`. A segment without elements gives `initial`, by default the neutral element (NaN for mean).
    Shapes: data `(*batch, n, *rest)`, lengths `(*batch, segments)` -> `(*batch, segments, *rest)`. Raises RuntimeError
    when the lengths do not add up to n or data is not floating-point.

    Example:
        >>> import rushlight
        >>> rushlight.segment_reduce(rushlight.arange(4.0), "sum", lengths=rushlight.tensor([1, 0, 3]))
        tensor([0., 0., 6.])
    """
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"segment_reduce: reduce must be one of {', '.join(_REDUCTIONS)}, got {reduce!r}")
    if indices is not None:
        raise RuntimeError("segment_reduce: reduction by indices is not supported; pass lengths, or use scatter_reduce")
    if not data.is_floating_point():
        raise RuntimeError(f"segment_reduce: data must be floating-point, got {data.dtype.name}")
    axis = check_dim("segment_reduce", axis, data.ndim, "axis")
    count = _lengths(lengths, offsets)
    if count.shape[:-1] != data.shape[:axis]:
        raise RuntimeError(
            f"segment_reduce: lengths of shape {shape_text(count.shape)} do not fit data of shape "
            f"{shape_text(data.shape)}: the dimensions before the last must be {shape_text(data.shape[:axis])}"
        )
    if not unsafe and (bool((count < 0).any()) or bool((count.sum(-1) != data.shape[axis]).any())):
        raise RuntimeError(
            f"segment_reduce: expected all rows of lengths along axis to sum to {data.shape[axis]}, the size of data "
            "there, and none to be negative"
        )
    name, neutral = _REDUCTIONS[reduce]
    start = neutral if initial is None else initial
    shape = (*count.shape, *data.shape[axis + 1 :])
    result = data.new_full(shape, start)
    trailing = (1,) * (data.ndim - axis - 1)
    segment = _segments(count, data.shape[axis]).reshape((*data.shape[: axis + 1], *trailing)).expand(data.shape)
    result = scatter_reduce(result, axis, segment, data, name)
    if reduce != "mean":
        return result
    count = count.reshape((*count.shape, *trailing))
    if initial is None:
        return result / count
    return where_op(count > 0, result / count, result)


def _lengths(lengths: Tensor | None, offsets: Tensor | None) -> Tensor:
    if (lengths is None) == (offsets is None):
        raise RuntimeError("segment_reduce: either lengths or offsets must be defined")
    given = lengths if offsets is None else offsets
    if given.dtype.category != 1 or not given.ndim:
        raise RuntimeError(
            f"segment_reduce: lengths and offsets must be integer tensors with dimensions, got {given.dtype.name} "
            f"{shape_text(given.shape)}"
        )
    return given if offsets is None else offsets.diff()


def _segments(count: Tensor, size: int) -> Tensor:
    """The number of the segment of each element: as many segments as end at or before it."""
    ends = count.cumsum(-1)
    place = ends.new_ones((*count.shape[:-1], size)).cumsum(-1) - 1
    return (place.unsqueeze(-1) >= ends.unsqueeze(-2)).sum(-1)
