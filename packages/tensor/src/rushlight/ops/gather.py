"""Reading along a dimension by index tensors: index_select, gather, take_along_dim, take."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from rushlight.core import native as calls
from rushlight.core.declare import structured
from rushlight.core.errors import check_dim, shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta, contiguous_strides, meta
from rushlight.core.native import At
from rushlight.core.op import HANDLERS, ErrorSample, Sample, kernel, planner
from rushlight.core.out import APART
from rushlight.core.tensor import Tensor, wrap
from rushlight.kernels.cpu import gather as native
from rushlight.kernels.cpu.scatter import along
from rushlight.ops.index import INDEX_DTYPES, check_bounds, check_index, plan_taken, taken
from rushlight.ops.view import reshape

_MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)
_ROWS = np.array([2, 0, 2])


def _infer_index_select(input: Meta, index: Meta, *, dim: int) -> Meta:
    check_index("index_select", index)
    if index.ndim > 1:
        raise IndexError(f"index_select: Index is supposed to be a vector, got shape {shape_text(index.shape)}")
    shape = (*input.shape[:dim], index.numel, *input.shape[dim + 1 :]) if input.ndim else ()
    if not input.ndim and index.numel != 1:
        raise RuntimeError(f"index_select: Index to scalar must have exactly 1 value, got {index.numel} value(s)")
    return meta(input.dtype, shape, None, input.device)


index_select_op = structured(
    "index_select",
    _infer_index_select,
    doc="The parts at a vector of indices along a dimension.",
    samples=lambda: [Sample((_MATRIX, _ROWS), (0,)), Sample((_MATRIX, _ROWS[:2]), (1,))],
    reference=lambda x, index, dim: np.take(x, index, dim),
    errors=lambda: [
        ErrorSample((_MATRIX, _ROWS + 1), (0,), IndexError, "out of bounds"),
        ErrorSample((_MATRIX, _ROWS - 1), (0,), IndexError, "out of bounds"),
    ],
)


@planner(index_select_op)
def _plan_index_select(metas: tuple[Meta, ...], params: tuple, out: Meta) -> Callable | None:
    return plan_taken("index_select", metas[0], metas[1], params[0], False, out) if metas[1].ndim == 1 else None


@kernel(index_select_op, "cpu")
def _index_select(array: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray:
    if not array.ndim:
        check_bounds("index_select", index, 1, dim)
        return array.copy()
    return taken("index_select", array, index.reshape(-1), dim, False)


@function(out=APART, memo=True)
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The parts of `input` at the places `index` (a vector) of dimension `dim`.

    Raises IndexError for indices outside the dimension or not integers.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([[1, 2], [3, 4]]).index_select(0, rushlight.tensor([1, 1]))
        tensor([[3, 4],
                [3, 4]])
    """
    return index_select_op.apply((input, index), (check_dim("index_select", dim, input.ndim),))


def check_gather(name: str, input: Meta, index: Meta, dim: int, src: Meta | None = None) -> None:
    """The checks that gather and the scatter functions share."""
    if index.numel == 0:
        return
    if index.dtype not in INDEX_DTYPES:
        raise RuntimeError(f"{name}: expected dtype int64 for index, got {index.dtype.name}")
    if max(index.ndim, 1) != max(input.ndim, 1):
        raise RuntimeError(
            f"{name}: index tensor must have the same number of dimensions as input tensor, got {index.ndim} and "
            f"{input.ndim}"
        )
    for d, size in enumerate(index.shape):
        if d != dim and input.ndim and size > input.shape[d]:
            raise RuntimeError(
                f"{name}: size does not match at dimension {d}: expected index {shape_text(index.shape)} to be no "
                "larger "
                f"than {shape_text(input.shape)} apart from dimension {dim}"
            )
    if src is not None and not src.weak:
        if max(src.ndim, 1) != max(index.ndim, 1):
            raise RuntimeError(
                f"{name}: index tensor must have the same number of dimensions as src tensor, got {index.ndim} and "
                f"{src.ndim}"
            )
        if any(a > b for a, b in zip(index.shape, src.shape)):
            raise RuntimeError(
                f"{name}: expected index {shape_text(index.shape)} to be no larger than src {shape_text(src.shape)}"
            )


def _infer_gather(input: Meta, index: Meta, *, dim: int) -> Meta:
    check_gather("gather", input, index, dim)
    return meta(input.dtype, index.shape, None, input.device)


gather_op = structured(
    "gather",
    _infer_gather,
    doc="`result[i, j] = input[index[i, j], j]` along dimension 0, likewise along others.",
    samples=lambda: [
        Sample((_MATRIX, np.array([[0, 2, 1], [1, 1, 0]])), (0,)),
        Sample((_MATRIX, np.array([[3], [0], [1]])), (1,)),
    ],
    reference=lambda x, index, dim: np.take_along_axis(
        x[: index.shape[0]] if dim else x[:, : index.shape[1]], index, dim
    ),
    errors=lambda: [
        ErrorSample((_MATRIX, np.array([[4]])), (1,), RuntimeError, "out of bounds"),
        ErrorSample((_MATRIX, np.array([[-1]])), (1,), RuntimeError, "out of bounds"),
    ],
)


@lru_cache(256)
def _line_starts(shape: tuple[int, ...], index_shape: tuple[int, ...], dim: int) -> np.ndarray:
    """Where, in an array of a shape, the lines along `dim` begin that gather reads; for small arrays."""
    starts = np.zeros((1,) * len(shape), np.int64)
    for d, (size, stride) in enumerate(zip(index_shape, contiguous_strides(shape))):
        if d != dim:
            starts = starts + (np.arange(size) * stride).reshape((-1,) + (1,) * (len(shape) - d - 1))
    return starts


_FEW = 512  # elements of a result for which what metadata says is worked out once


@planner(gather_op)
def _plan_gather(metas: tuple[Meta, ...], params: tuple, out: Meta) -> Callable | None:
    """Few elements of a row-major tensor: one index, into all elements in a row."""
    input, index = metas
    (dim,) = params
    if not (input.contiguous and input.ndim and index.ndim and 0 < index.numel <= _FEW and input.numel):
        return None
    size, flat = input.shape[dim], input.ndim == 1
    stride, starts = contiguous_strides(input.shape)[dim], _line_starts(input.shape, index.shape, dim)

    def run(x: Tensor, places: Tensor) -> Tensor:
        at = places._array
        check_bounds("gather", at, size, dim, error=RuntimeError)
        result = x._array[at] if flat else x._array.reshape(-1)[at * stride + starts]
        return wrap(result if result.flags.c_contiguous else result.copy(), out)

    if not calls.installed():
        return run
    strides, at = walk_along(input, index, dim)
    return calls.form("take", run, metas, out, strides, {1: at})


def walk_along(input: Meta, index: Meta, dim: int) -> tuple[tuple[int, ...], At]:
    """The strides of an input over the shape of an index of its places along a dimension, and those of the index."""
    strides = tuple([0 if d == dim else stride for d, stride in enumerate(input.strides)])
    return strides, At(index.strides, input.shape[dim], input.strides[dim], False)


@kernel(gather_op, "cpu")
def _gather(array: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray:
    if index.size == 0:
        return np.empty(index.shape, array.dtype)
    if not array.ndim or not index.ndim:
        check_bounds("gather", index, max(array.size, 1), dim, error=RuntimeError)
        return array.reshape(-1)[index]
    if native.worth(index.shape, array, index):
        result = native.gather(array, index, dim)
        if result is not None:
            return result
    check_bounds("gather", index, array.shape[dim], dim, error=RuntimeError)
    if array.flags.c_contiguous:  # one index is several times as fast as one per dimension
        stride = array.strides[dim] // array.itemsize
        return array.take((index if stride == 1 else index * stride) + _line_starts(array.shape, index.shape, dim))
    return array[along(index, dim)]


@function(out=APART, memo=True)
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """The elements at `index` along dimension `dim`: `result[i][j] = input[index[i][j]][j]` for `dim=0`.

    Shapes: `index` has as many dimensions as `input` and is no larger apart from `dim`; the result has its shape.
    Raises RuntimeError for shapes that do not fit and for indices outside the dimension.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([[1, 2], [3, 4]]).gather(1, rushlight.tensor([[0], [1]]))
        tensor([[1],
                [4]])
    """
    return gather_op.apply((input, index), (check_dim("gather", dim, input.ndim),))


@function(out=APART)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """The elements at `indices` along `dim`, the two broadcasting apart from it; without `dim`, of all elements in a
    row.

    Negative indices count from the end. Raises RuntimeError for other dtypes than int64, another number of dimensions,
    and indices outside the dimension.
    """
    if indices.dtype not in INDEX_DTYPES:
        raise RuntimeError(f"take_along_dim: expected dtype of indices to be Long, got {indices.dtype.name}")
    if dim is None:
        return gather(reshape(input, -1), 0, _from_front(reshape(indices, -1), input.numel()))
    if input.ndim != indices.ndim:
        raise RuntimeError(
            f"take_along_dim: input and indices should have the same number of dimensions, got {input.ndim} and "
            f"{indices.ndim}"
        )
    at = check_dim("take_along_dim", dim, input.ndim)
    if not input.ndim:
        return gather(input, 0, indices)
    common = broadcast_of(input.shape, indices.shape, at)
    here, there = list(common), list(common)
    here[at], there[at] = input.shape[at], indices.shape[at]
    indices = _from_front(indices, input.shape[at])
    if input._meta.shape != tuple(here):
        input = input.expand(here)
    if indices._meta.shape != tuple(there):
        indices = indices.expand(there)
    return gather(input, at, indices)


def _from_front(indices: Tensor, size: int) -> Tensor:
    """Indices with those that count from the end turned round."""
    if not HANDLERS and indices.device.type == "cpu" and indices.numel() and int(indices._array.min()) >= 0:
        return indices  # as nearly always; the sum below would take several times the memory of the result
    return (indices < 0).to(indices.dtype) * size + indices


def broadcast_of(a: tuple[int, ...], b: tuple[int, ...], dim: int) -> tuple[int, ...]:
    """What two shapes broadcast to, apart from one dimension; RuntimeError when they do not fit."""
    for d, (x, y) in enumerate(zip(a, b)):
        if d != dim and x != y and 1 not in (x, y):
            raise RuntimeError(
                f"take_along_dim: shapes {shape_text(a)} and {shape_text(b)} do not broadcast at dimension {d}"
            )
    return tuple([y if x == 1 else x for x, y in zip(a, b)])


def _infer_take(input: Meta, index: Meta) -> Meta:
    if index.weak or index.dtype not in INDEX_DTYPES:
        raise RuntimeError(f"take: expected a long tensor for index, got {index.dtype.name}")
    if not input.numel and index.numel:
        raise IndexError("take: tried to take from an empty tensor")
    return meta(input.dtype, index.shape, None, input.device)


take_op = structured(
    "take",
    _infer_take,
    doc="Elements by their position in row-major order.",
    samples=lambda: [Sample((_MATRIX, np.array([[0, 11], [-1, 5]])))],
    reference=lambda x, index: x.reshape(-1)[index],
    errors=lambda: [ErrorSample((_MATRIX, np.array([12])), (), IndexError, "out of")],
)


@kernel(take_op, "cpu")
def _take(array: np.ndarray, index: np.ndarray) -> np.ndarray:
    if array.flags.c_contiguous:
        return taken("take", array.reshape(-1), index, 0, True)
    check_bounds("take", index, array.size, least=-array.size)
    return np.asarray(array.flat[index])


@function(out=APART, memo=True)
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at `index`, counted through `input` in row-major order; the result has the shape of `index`.

    Raises RuntimeError for an index that is not int64, IndexError for one out of range.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([[4, 3], [2, 1]]).take(rushlight.tensor([0, 3]))
        tensor([4, 1])
    """
    return take_op.apply((input, index))
