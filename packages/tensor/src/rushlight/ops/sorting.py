"""Order: sort, argsort, topk, kthvalue, median. Each op finds positions, from which gather takes the values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import reduction, structured
from rushlight.core.errors import check_dim, shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.op import ErrorSample, Op, Sample, kernel
from rushlight.core.out import APART, EXACT
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import axes, native, pool, select
from rushlight.ops.extremum import check_not_empty, check_order, chosen
from rushlight.ops.reduction import infer_reduced, reduced_samples, reduced_shape
from rushlight.return_types import named

_FEW = 512  # elements that are sorted whole quicker than a part of them is
_MATRIX = np.array([[3, 1, 2, 1], [0, -1, 5, 2]], np.float32)


def comparable(x: np.ndarray) -> np.ndarray:
    """The values in a dtype that numpy sorts fast, with NaN last: half types as float32."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x


def _radix_key(x: np.ndarray) -> np.ndarray:
    """16-bit integers in the order of the half-precision numbers, which numpy sorts by radix, the fastest way and a
    stable one.
    """
    bits = np.where(x == 0, x.dtype.type(0), x).view(np.int16)  # -0.0 equals 0.0
    return np.where(np.isnan(x), np.int16(32767), bits ^ ((bits >> 15) & np.int16(32767)))


def on_threads(
    find: Callable, x: np.ndarray, dim: int, count: int | None = None, part: int = native.WORTH
) -> np.ndarray:
    """`find(array, axis)`, which gives `count` positions along `dim` (by default as many as there are elements), on
    parts of about so many elements for each thread. What it needs meanwhile it needs for a part.
    """
    if x.size < native.WORTH or x.ndim < 2:
        return find(x, dim)
    lines = axes.last(x, dim)
    if lines.shape[0] < 2:
        return find(x, dim)
    found = np.empty([count or size if d == dim else size for d, size in enumerate(x.shape)], np.int64)
    places = axes.last(found, dim)

    step = max(1, part * lines.shape[0] // x.size)

    def piece(low: int, high: int) -> None:
        for at in range(low, high, step):
            places[at : min(at + step, high)] = find(lines[at : min(at + step, high)], -1)

    pool.parallel_for(piece, lines.shape[0], step)
    return found


def positions_like(input: Meta, shape: tuple[int, ...]) -> Meta:
    return meta(dtypes.int64, shape, None, input.device)


def _infer_sort(input: Meta, *, dim: int, descending: bool, stable: bool) -> Meta:
    check_order("sort", input)
    return positions_like(input, input.shape)


argsort_op = structured(
    "argsort",
    _infer_sort,
    errors=lambda: [ErrorSample((_MATRIX.astype(np.complex64),), (1, False, True), RuntimeError, "no order")],
    doc="The positions that sort a dimension; NaN counts as the largest number.",
    samples=lambda: [Sample((_MATRIX,), (1, False, True)), Sample((_MATRIX,), (0, True, True))],
    reference=lambda x, dim, descending, stable: np.argsort(-x if descending else x, dim, kind="stable"),
)


@kernel(argsort_op, "cpu")
def _argsort(x: np.ndarray, dim: int, descending: bool, stable: bool) -> np.ndarray:
    if x.ndim == 0:
        return np.zeros((), np.int64)
    if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
        x, stable = _radix_key(x), True
    kind = "stable" if stable else None
    if not descending:
        return on_threads(lambda part, axis: part.argsort(axis, kind), x, dim)

    def mirrored(part: np.ndarray, axis: int) -> np.ndarray:
        """Sorting the mirror image keeps equal elements in order when the result is mirrored back."""
        axis %= part.ndim
        order = axes.backward(part, axis).argsort(axis, kind)
        return axes.backward(np.subtract(part.shape[axis] - 1, order, out=order), axis)

    return on_threads(mirrored, x, dim)


@function(memo=True)
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The positions along `dim` of the elements in order; NaN counts as the largest number.

    `stable` keeps equal elements in their order. Raises RuntimeError for complex tensors, which have no order.

    Example:
        >>> import rushlight
        >>> rushlight.argsort(rushlight.tensor([30, 10, 20]))
        tensor([1, 2, 0])
    """
    return argsort_op.apply((input,), (check_dim("argsort", dim, input.ndim), bool(descending), bool(stable)))


@function(out=EXACT, memo=True)
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The elements along `dim` in order and where they came from: a named tuple (values, indices).

    NaN counts as the largest number. `stable` keeps equal elements in their order. Raises RuntimeError for complex
    tensors.

    Example:
        >>> import rushlight
        >>> rushlight.sort(rushlight.tensor([3, 1, 2]), descending=True).values
        tensor([3, 2, 1])
    """
    d = check_dim("sort", dim, input.ndim)
    indices = argsort_op.apply((input,), (d, bool(descending), bool(stable)))
    return named("sort", (input.gather(d, indices), indices))


@function()
def msort(input: Tensor) -> Tensor:
    """The elements along the first dimension in ascending order."""
    return sort(input, 0).values


# The first k


def _infer_topk(input: Meta, *, k: int, dim: int, largest: bool, sorted: bool) -> Meta:
    check_order("topk", input)
    size = input.shape[dim] if input.ndim else 1
    if not 0 <= k <= size:
        raise RuntimeError(
            f"topk: selected index k out of range: k is {k}, dimension {dim} of the tensor of shape "
            f"{shape_text(input.shape)} has {size} elements"
        )
    return positions_like(input, tuple([k if d == dim else n for d, n in enumerate(input.shape)]))


topk_op = structured(
    "topk",
    _infer_topk,
    errors=lambda: [ErrorSample((_MATRIX,), (5, 1, True, True), RuntimeError, "out of range")],
    doc="The positions of the k largest (or smallest) elements of a dimension.",
    samples=lambda: [Sample((_MATRIX,), (2, 1, True, True)), Sample((_MATRIX,), (1, 0, False, True))],
    reference=lambda x, k, dim, largest, sorted: np.take(_argsort(x, dim, largest, True), np.arange(k), dim),
)


def _first_of_few(x: np.ndarray, k: int, dim: int, largest: bool) -> np.ndarray:
    if not largest:
        return axes.part(x.argsort(dim), dim, 0, k).copy()
    order = axes.backward(x, dim).argsort(dim)  # of the mirror image, so that the first of equal elements is first
    return np.subtract(x.shape[dim] - 1, axes.part(order, dim, -1, -k - 1, -1))


@kernel(topk_op, "cpu")
def _topk(x: np.ndarray, k: int, dim: int, largest: bool, sorted: bool) -> np.ndarray:
    if x.ndim == 0:
        return np.zeros((), np.int64)
    if 0 < k and x.size <= _FEW and x.dtype.kind in "iuf":
        return _first_of_few(x, k, dim, largest)
    if select.fits(x, k):
        return select.first(x, k, dim, largest)
    x, size = comparable(x), x.shape[dim]
    if k == 0:
        return np.zeros([k if d == dim else n for d, n in enumerate(x.shape)], np.int64)
    if x.size <= _FEW:
        return _first_of_few(x, k, dim, largest)
    at = size - k if largest else k - 1

    def sorted_first(rows: np.ndarray, axis: int) -> np.ndarray:
        return axes.part(_argsort(rows, axis % rows.ndim, largest, False), axis, 0, k)

    def first(rows: np.ndarray, axis: int) -> np.ndarray:
        chosen = rows.argpartition(at, axis)
        chosen = axes.part(chosen, axis, at, size) if largest else axes.part(chosen, axis, 0, k)
        order = _argsort(np.take_along_axis(rows, chosen, axis), axis % rows.ndim, largest, False)
        return np.take_along_axis(chosen, order, axis)

    return on_threads(sorted_first if k * 4 > size else first, x, dim, k)


@function(out=EXACT, memo=True)
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The `k` largest (or smallest) elements along `dim` and their positions: a named tuple (values, indices).

    Shapes: size `k` along `dim`. Raises RuntimeError for a `k` above the size.

    Example:
        >>> import rushlight
        >>> rushlight.topk(rushlight.tensor([1, 5, 3]), 2).values
        tensor([5, 3])
    """
    d = check_dim("topk", dim, input.ndim)
    indices = topk_op.apply((input,), (int(k), d, bool(largest), bool(sorted)))
    return named("topk", (input.gather(d, indices), indices))


# One element of the order


def _infer_kth(input: Meta, *, k: int, dim: int) -> Meta:
    check_order("kthvalue", input)
    if input.ndim:
        check_not_empty("kthvalue()", input, (dim,))
    size = input.shape[dim] if input.ndim else 1
    if not 1 <= k <= size:
        raise RuntimeError(
            f"kthvalue: selected number k out of range: k is {k}, dimension {dim} of the tensor of shape "
            f"{shape_text(input.shape)} has {size} elements"
        )
    return positions_like(input, reduced_shape(input.shape, (dim,), True))


kthvalue_op = structured(
    "kthvalue",
    _infer_kth,
    errors=lambda: [ErrorSample((_MATRIX,), (0, 1), RuntimeError, "out of range")],
    doc="The position of the k-th smallest element of a dimension.",
    samples=lambda: [Sample((_MATRIX,), (2, 1))],
    reference=lambda x, k, dim: np.take(np.argsort(x, dim, kind="stable"), [k - 1], dim),
)


@kernel(kthvalue_op, "cpu")
def _kthvalue(x: np.ndarray, k: int, dim: int) -> np.ndarray:
    if x.ndim == 0:
        return np.zeros((), np.int64)
    return on_threads(
        lambda rows, axis: axes.part(rows.argpartition(k - 1, axis), axis, k - 1, k), comparable(x), dim, 1
    )


@function(out=APART, memo=True)
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The `k`-th smallest element along `dim` (counted from 1) and its position: a named tuple (values, indices).

    Raises RuntimeError for a `k` below 1 or above the size.
    """
    d = check_dim("kthvalue", dim, input.ndim)
    return chosen("kthvalue", input, kthvalue_op.apply((input,), (int(k), d)), d, keepdim)


def _middle(x: np.ndarray, dim: int, skip_nan: bool) -> np.ndarray:
    """Positions, with size 1 along `dim`, of the lower median; of a NaN if there is one and it is not skipped."""
    size = x.shape[dim]
    middle = (size - 1) // 2

    def find(rows: np.ndarray, axis: int) -> np.ndarray:
        if rows.dtype.kind != "f" or not np.isnan(rows.sum()):
            return axes.part(rows.argpartition(middle, axis), axis, middle, middle + 1)
        order = rows.argsort(axis)  # NaN last
        nans = np.isnan(rows).sum(axis=axis, keepdims=True)
        at = np.maximum(size - nans - 1, 0) // 2
        return np.take_along_axis(order, at if skip_nan else np.where(nans > 0, size - 1, at), axis)

    return on_threads(find, comparable(x), dim, 1)


def _middle_of_all(x: np.ndarray, skip_nan: bool) -> np.ndarray:
    """The lower median of all elements, as a vector of one; NaN if there is one and it is not skipped."""
    flat = x.flatten()
    nans = int(np.count_nonzero(flat != flat)) if flat.dtype.kind == "f" and np.isnan(flat.max()) else 0
    at = x.size - 1 if nans and not skip_nan else max(x.size - nans - 1, 0) // 2
    flat.partition(at)  # NaN last
    return flat[at : at + 1].copy()


def _median_ops(name: str, skip_nan: bool) -> tuple[Op, Op]:
    """The ops of a median: of all elements (its value), and along a dimension (its position)."""

    def infer_position(input: Meta, *, dim: int) -> Meta:
        check_order(name, input)
        if input.ndim:
            check_not_empty(f"{name}()", input, (dim,))
        return positions_like(input, reduced_shape(input.shape, (dim,), True))

    def infer_value(input: Meta, *, dim: tuple[int, ...], keepdim: bool) -> Meta:
        check_order(name, input)
        return infer_reduced(input, dim=dim, keepdim=keepdim)

    def position(x: np.ndarray, dim: int) -> np.ndarray:
        return _middle(x, dim, skip_nan) if x.ndim else np.zeros((), np.int64)

    def value(x: np.ndarray, dim: tuple[int, ...], keepdim: bool) -> np.ndarray:
        if len(dim) == x.ndim and x.size:
            middle = _middle_of_all(comparable(x), skip_nan).astype(x.dtype, copy=False)
            return middle.reshape((1,) * x.ndim if keepdim else ())
        rest = [d for d in range(x.ndim) if d not in dim]
        rows = x.transpose(*rest, *dim).reshape(*[x.shape[d] for d in rest], -1)
        if not rows.size:
            return np.full(
                reduced_shape(x.shape, dim, keepdim), np.nan if x.dtype.kind in "fV" else np.iinfo(x.dtype).min, x.dtype
            )
        return axes.take_along(rows, _middle(rows, -1, skip_nan), -1).reshape(reduced_shape(x.shape, dim, keepdim))

    along = structured(
        f"{name}_position",
        infer_position,
        doc=f"The position of the {name} of a dimension.",
        samples=lambda: [Sample((_MATRIX,), (1,))],
        reference=position,
    )
    kernel(along, "cpu")(position)
    whole = reduction(
        name, infer_value, numpy=value, doc=f"The {name} over dimensions.", samples=reduced_samples, reference=value
    )
    return whole, along


median_op, median_position_op = _median_ops("median", skip_nan=False)
nanmedian_op, nanmedian_position_op = _median_ops("nanmedian", skip_nan=True)


def _median(name: str, whole: Op, along: Op, input: Tensor, dim: int | None, keepdim: bool) -> Any:
    if dim is None:
        return whole.apply((input,), (tuple(range(input.ndim)), False))
    d = check_dim(name, dim, input.ndim)
    return chosen(name, input, along.apply((input,), (d,)), d, keepdim)


@function(out=EXACT, memo=True)
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median of all elements, or along `dim` with its position: a named tuple (values, indices).

    Of an even number of elements the lower middle one. NaN if there is one.

    Example:
        >>> import rushlight
        >>> rushlight.median(rushlight.tensor([4, 1, 3, 2]))
        tensor(2)
    """
    return _median("median", median_op, median_position_op, input, dim, keepdim)


@function(out=EXACT, memo=True)
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median of the elements that are not NaN, as `median`; NaN where all are."""
    return _median("nanmedian", nanmedian_op, nanmedian_position_op, input, dim, keepdim)
