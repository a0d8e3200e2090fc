"""Counting and placing values: bincount, histc, histogram, searchsorted, bucketize."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import structured
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.ops.arithmetic import Number
from rushlight.ops.create import tensor
from rushlight.ops.search import searchsorted
from rushlight.return_types import named

_range = range  # histogram has an argument of this name
_BLOCK = 1 << 14  # values that are sorted into bins at a time: what that takes stays in the cache
_VALUES = np.array([0.5, 1.5, 1.0, 3.0], np.float32)


def _infer_bincount(input: Meta, weights: Meta | None, *, minlength: int) -> None:
    if input.ndim != 1 or input.dtype.category != 1:
        raise RuntimeError(
            f"bincount: only supports 1-d non-negative integral inputs, got {input.dtype.name} of shape "
            f"{shape_text(input.shape)}"
        )
    if minlength < 0:
        raise RuntimeError(f"bincount: minlength should be >= 0, got {minlength}")
    if weights is not None and weights.shape != input.shape:
        raise RuntimeError(
            f"bincount: weights should be 1-d and have the same length as input, got {shape_text(weights.shape)} and "
            f"{shape_text(input.shape)}"
        )
    return None


bincount_op = structured(
    "bincount",
    _infer_bincount,
    errors=lambda: [
        ErrorSample((np.array([-1]), None), (0,), RuntimeError, "negative"),
        ErrorSample((_VALUES, None), (0,), RuntimeError, "integral"),
    ],
    doc="How often each number from 0 on occurs.",
    samples=lambda: [Sample((np.array([0, 2, 2]), None), (4,))],
    reference=lambda x, weights, minlength: np.bincount(x, weights, minlength),
)


@kernel(bincount_op, "cpu")
def _bincount(x: np.ndarray, weights: np.ndarray | None, minlength: int) -> np.ndarray:
    if weights is not None and weights.dtype.kind == "c":
        raise RuntimeError(f"bincount: weights must be real numbers, got {weights.dtype.name}")
    if not x.size:  # PyTorch counts nothing in integers, with weights too
        return np.zeros(minlength, np.int64)
    try:
        counts = np.bincount(x.astype(np.int64, copy=False), weights, minlength)
    except ValueError:  # numpy looks at the numbers anyway
        raise RuntimeError(
            "bincount: only supports 1-d non-negative integral inputs, got a negative number"
        ) from None
    if weights is not None:
        return counts.astype(np.float32 if weights.dtype == np.float32 else np.float64)
    return counts.astype(np.int64, copy=False)


@function(out=False)
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number 0, 1, 2, ... occurs, or the sum of its weights; at least `minlength` entries.

    Raises RuntimeError for negative or non-integer numbers.

    Example:
        >>> import rushlight
        >>> rushlight.bincount(rushlight.tensor([0, 2, 2]))
        tensor([1, 0, 2])
    """
    return bincount_op.apply((input, weights), (int(minlength),))


def _infer_histc(input: Meta, min: Meta, max: Meta, *, bins: int) -> Meta:
    if bins <= 0:
        raise RuntimeError(f"histc: bins must be > 0, got {bins}")
    if input.dtype.is_complex or input.dtype is dtypes.bool:
        raise RuntimeError(f"histc: not implemented for {input.dtype.name}")
    return meta(input.dtype, (bins,), None, input.device)


histc_op = structured(
    "histc",
    _infer_histc,
    errors=lambda: [
        ErrorSample((_VALUES, 0.0, 1.0), (0,), RuntimeError, "bins must be"),
        ErrorSample((_VALUES, -np.inf, 1.0), (2,), RuntimeError, "not finite"),
    ],
    doc="Counts in bins of equal width between min and max.",
    samples=lambda: [Sample((_VALUES, 0.0, 4.0), (4,))],
    reference=lambda x, low, high, bins: np.histogram(x, bins, (low, high))[0],
)


@kernel(histc_op, "cpu")
def _histc(x: np.ndarray, low: float, high: float, bins: int) -> np.ndarray:
    values = x.reshape(-1)
    whole = low == high
    if whole and values.size:
        low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"histc: range of [{low}, {high}] is not finite")
    counts = np.zeros(bins, np.int64)
    # Which bin a number at an edge belongs to is a matter of rounding: as PyTorch does, in the dtype of the numbers.
    kind = np.dtype(np.float32 if x.dtype.itemsize == 2 else x.dtype if x.dtype.kind == "f" else np.float64)
    limit = dtypes.largest(dtypes.from_numpy_dtype(kind))
    scale = kind.type(1.0 if high - low < limit else 0.25)  # so that differences are finite
    start, end = kind.type(low) * scale, kind.type(high) * scale
    for at in _range(0, values.size, _BLOCK):
        block = values[at : at + _BLOCK].astype(kind) * scale
        if not whole:
            block = block[(block >= start) & (block <= end)]
        places = ((block - start) * kind.type(bins) / (end - start)).astype(np.int64)
        counts += np.bincount(np.minimum(places, bins - 1), minlength=bins)
    return counts.astype(x.dtype)


@function()
def histc(input: Tensor, bins: int = 100, min: Number = 0, max: Number = 0) -> Tensor:
    """Counts of the elements in `bins` bins of equal width between `min` and `max`; of the data when both are equal.

    Elements outside do not count. Raises RuntimeError for `max < min` or a range that is not finite.

    Example:
        >>> import rushlight
        >>> rushlight.histc(rushlight.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
        tensor([0., 2., 1., 0.])
    """
    if max < min:
        raise RuntimeError(f"histc: max must be larger than min, got {max} and {min}")
    return histc_op.apply((input, float(min), float(max)), (int(bins),))


def _infer_histogram(input: Meta, edges: Meta, weight: Meta | None, *, density: bool) -> Meta:
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"histogram: not implemented for {input.dtype.name}")
    if edges.dtype is not input.dtype or weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError("histogram: input, bins and weight must have the same dtype")
    if weight is not None and weight.shape != input.shape:
        raise RuntimeError(
            f"histogram: weight must have input's shape, got {shape_text(weight.shape)} and {shape_text(input.shape)}"
        )
    if edges.ndim != 1 or edges.numel < 2:
        raise RuntimeError(
            f"histogram: bins tensor should have one dimension and at least 2 elements, got {shape_text(edges.shape)}"
        )
    return meta(input.dtype, (edges.numel - 1,), None, input.device)


histogram_op = structured(
    "histogram",
    _infer_histogram,
    doc="Counts, weights or densities between increasing edges.",
    samples=lambda: [Sample((_VALUES, np.array([0, 1, 4], np.float32), None), (False,))],
    reference=lambda x, edges, weight, density: np.histogram(x, edges, weights=weight, density=density)[0],
)


@kernel(histogram_op, "cpu")
def _histogram(x: np.ndarray, edges: np.ndarray, weight: np.ndarray | None, density: bool) -> np.ndarray:
    if (edges[1:] < edges[:-1]).any():
        raise RuntimeError("histogram: the edges of bins must increase; sort them")
    counts, _ = np.histogram(x, edges, weights=weight)
    counts = counts.astype(np.float64)
    return (counts / counts.sum() / np.diff(edges.astype(np.float64)) if density else counts).astype(x.dtype)


@function()
def histogram(
    input: Tensor,
    bins: int | Tensor,
    *,
    range: tuple[float, float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Counts in bins and the edges of the bins: a named tuple (hist, bin_edges).

    `bins` is a number of bins of equal width over `range` (of the data by default), or a tensor of increasing edges.
    `weight` adds weights up, `density` divides so that the integral is 1. Raises RuntimeError for other dtypes than
    floating point.
    """
    if not hasattr(bins, "_meta"):
        if bins <= 0:
            raise RuntimeError(f"histogram: bins must be > 0, but got {bins}")
        if range is None:
            low, high = (input.min().item(), input.max().item()) if input.numel() else (0.0, 1.0)
        else:
            low, high = range
        if not (np.isfinite(low) and np.isfinite(high)) or high < low:
            raise RuntimeError(f"histogram: range [{low}, {high}] must be finite and increasing")
        if low == high:
            low, high = low - 0.5, high + 0.5
        bins = tensor(np.linspace(low, high, bins + 1), dtype=input.dtype, device=input.device)
    return named("histogram", (histogram_op.apply((input, bins, weight), (bool(density),)), bins))


def _edges(column: Tensor, bins: int | Tensor, span: tuple[float, float] | None) -> Tensor:
    """The edges of bins along one coordinate."""
    if hasattr(bins, "_meta"):
        return bins
    if span is None:
        span = (column.min().item(), column.max().item()) if column.numel() else (0.0, 1.0)
    low, high = (span[0] - 0.5, span[1] + 0.5) if span[0] == span[1] else span
    return tensor(np.linspace(low, high, bins + 1), dtype=column.dtype, device=column.device)


@function(method=False, out=False)
def histogramdd(
    input: Tensor,
    bins: int | list[int] | tuple[int, ...] | list[Tensor] | tuple[Tensor, ...],
    range: list[float] | tuple[float, ...] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Counts of points in the cells of a grid and the edges of the grid: a named tuple (hist, bin_edges).

    Shapes: points `(*, D)`; `bins` is a number per coordinate, one for all, or tensors of edges; `range` holds the
    lowest and highest edge of each coordinate in turn. Raises RuntimeError for bins or a range that do not fit.
    """
    if input.ndim < 2:
        raise RuntimeError(f"histogramdd: input tensor should have at least 2 dimensions, but got {input.ndim}")
    points = input.reshape(-1, input.shape[-1])
    count = points.shape[1]
    each = [bins] * count if isinstance(bins, int) else list(bins)
    if len(each) != count:
        raise RuntimeError(
            f"histogramdd: The size of bins must be equal to the innermost dimension of the input, got "
            f"{len(each)} for {count} coordinates"
        )
    if range is not None and len(range) != 2 * count:
        raise RuntimeError(f"histogramdd: range should have {2 * count} elements, but got {len(range)}")
    spans = [None] * count if range is None else list(zip(range[::2], range[1::2]))
    columns = [points.select(1, d) for d in _range(count)]
    edges = [_edges(column, b, span) for column, b, span in zip(columns, each, spans)]
    cell, inside = (
        points.new_zeros(points.shape[0], dtype=dtypes.int64),
        points.new_ones(points.shape[0], dtype=dtypes.bool),
    )
    for column, edge in zip(columns, edges):
        size = edge.numel() - 1
        place = searchsorted(edge, column.contiguous(), right=True) - 1
        place = place - (column == edge[-1]).to(dtypes.int64)  # the last bin holds its upper edge too
        inside = inside & (place >= 0) & (place < size)
        cell = cell * size + place
    shape = [edge.numel() - 1 for edge in edges]
    values = None if weight is None else weight.reshape(-1)[inside]
    hist = bincount(cell[inside], values, int(np.prod(shape))).reshape(shape).to(input.dtype)
    if density:
        hist = hist / hist.sum()
        for d, edge in enumerate(edges):
            widths = edge[1:] - edge[:-1]
            hist = hist / widths.reshape([-1 if i == d else 1 for i in _range(count)])
    return named("histogramdd", (hist, tuple(edges)))
