"""Reading by index tensors: index, masked_select, nonzero, gather, index_select, take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import structured
from rushlight.core.errors import check_dim, shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.ops.create import filled
from rushlight.ops.join import cat_op
from rushlight.ops.view import broadcast_tensors, reshape

_MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)
_ROWS = np.array([2, 0, 2])
_INDEX_DTYPES = (dtypes.int64, dtypes.int32)


def check_index(name: str, index: Meta) -> None:
    """Refuse index tensors of other dtypes than int64 and int32."""
    if index.weak or index.dtype not in _INDEX_DTYPES:
        raise IndexError(f"{name}: tensors used as indices must be long or int, got {index.dtype.name}; convert with .long()")


def check_bounds(name: str, index: np.ndarray, size: int, dim: int | None = None, least: int = 0,
                 error: type[Exception] = IndexError) -> None:
    """Refuse indices outside [least, size): every kernel calls this before it touches memory, except where numpy itself checks."""
    if index.size and (int(index.min()) < least or int(index.max()) >= size):
        flat = index.reshape(-1)
        wrong = int(flat[(flat < least) | (flat >= size)][0])
        where = "" if dim is None else f" for dimension {dim}"
        raise error(f"{name}: index {wrong} is out of bounds{where} with size {size}")


# Several dimensions at once: x[i, :, j]


def indexed_shape(name: str, shape: tuple[int, ...], indices: Sequence[Meta | None]) -> tuple[int, ...]:
    """The shape of `x[indices]`: the indices' broadcast shape in the place of the dimensions they index, or first when those are apart.

    Raises IndexError for too many indices, for other dtypes than integers, and when the indices do not broadcast.
    """
    if len(indices) > len(shape):
        raise IndexError(f"{name}: too many indices for tensor of dimension {len(shape)} (got {len(indices)})")
    at = [d for d, index in enumerate(indices) if index is not None]
    for d in at:
        check_index(name, indices[d])
    try:
        common = np.broadcast_shapes(*[indices[d].shape for d in at])
    except ValueError:
        texts = ", ".join(shape_text(indices[d].shape) for d in at)
        raise IndexError(f"{name}: shape mismatch: indexing tensors could not be broadcast together with shapes {texts}") from None
    if not at:
        return shape
    if 0 in [shape[d] for d in at] and 0 not in common:
        raise IndexError(f"{name}: index is out of bounds for a dimension with size 0 in shape {shape_text(shape)}")
    rest = [size for d, size in enumerate(shape) if d not in at]
    first = at[0] if at == list(range(at[0], at[-1] + 1)) else 0
    return (*rest[:first], *common, *rest[first:])


def numpy_index(indices: Sequence[np.ndarray | None]) -> tuple:
    """Index arrays as numpy takes them: a full slice for None."""
    return tuple([slice(None) if index is None else index for index in indices])


def as_torch_error(error: IndexError) -> IndexError:
    """numpy's message about an index, in the words of tensors."""
    return IndexError(str(error).replace("axis", "dimension"))


def _infer_index(input: Meta, *indices: Meta | None) -> Meta:
    return meta(input.dtype, indexed_shape("index", input.shape, indices), None, input.device)


index_op = structured(
    "index", _infer_index, variadic=True, doc="The elements at integer index tensors; None takes a whole dimension.",
    samples=lambda: [Sample((_MATRIX, _ROWS)), Sample((_MATRIX, None, _ROWS[:2])), Sample((_MATRIX, _ROWS, -_ROWS))],
    reference=lambda x, *indices: x[numpy_index(indices)],
    errors=lambda: [ErrorSample((_MATRIX, _ROWS + 1), (), IndexError, "out of bounds"),
                    ErrorSample((_MATRIX, _ROWS - 4), (), IndexError, "out of bounds")])


@kernel(index_op, "cpu")
def _index(array: np.ndarray, *indices: np.ndarray | None) -> np.ndarray:
    given = [d for d, index in enumerate(indices) if index is not None]
    try:
        if len(given) == 1:
            return np.take(array, indices[given[0]], axis=given[0])
        return np.ascontiguousarray(array[numpy_index(indices)])
    except IndexError as error:
        raise as_torch_error(error) from None


def _infer_masked_select(input: Meta, mask: Meta) -> None:
    if mask.dtype is not dtypes.bool:
        raise RuntimeError(f"masked_select: expected mask to be a bool tensor, got {mask.dtype.name}; compare it: mask != 0")
    for d, size in enumerate(mask.shape):
        if d >= input.ndim or input.shape[d] != size:
            raise IndexError(f"The shape of the mask {shape_text(mask.shape)} at index {d} does not match the shape of the "
                             f"indexed tensor {shape_text(input.shape)} at index {d}")


masked_select_op = structured(
    "masked_select", _infer_masked_select, doc="The elements (or parts) where a mask over the leading dimensions is True.",
    samples=lambda: [Sample((_MATRIX, _MATRIX > 4)), Sample((_MATRIX, np.array([True, False, True])))],
    reference=lambda x, mask: x[mask],
    errors=lambda: [ErrorSample((_MATRIX, np.array([True])), (), IndexError, "does not match")])


@kernel(masked_select_op, "cpu")
def _masked_select(array: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return array[mask] if mask.ndim else array[None][mask[None]]


@function()
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements of `input` where `mask` is True, in one dimension; the two broadcast.

    Raises RuntimeError when mask is not bool, or when they do not broadcast.

    Example:
        >>> import rushlight
        >>> x = rushlight.tensor([1, 2, 3])
        >>> rushlight.masked_select(x, x > 1)
        tensor([2, 3])
    """
    if mask.dtype is not dtypes.bool:
        raise RuntimeError(f"masked_select: expected mask to be a bool tensor, got {mask.dtype.name}; compare it: mask != 0")
    if input.shape != mask.shape:
        input, mask = broadcast_tensors(input, mask)
    return masked_select_op.apply((input, mask)) if input.ndim else masked_select_op.apply((reshape(input, 1), reshape(mask, 1)))


# Where values are not zero


nonzero_op = structured(
    "nonzero", lambda input: None, doc="The indices of the elements that are not zero, one row each.",
    samples=lambda: [Sample((_MATRIX,)), Sample((_MATRIX > 5,))], reference=lambda x: np.argwhere(x))


@kernel(nonzero_op, "cpu")
def _nonzero(array: np.ndarray) -> np.ndarray:
    if array.ndim == 0:
        return np.zeros((int(bool(array)), 0), np.int64)
    return np.stack(np.nonzero(array), 1)


@function()
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """The indices of all elements that are not zero: shape `(n, ndim)`, or with `as_tuple` one tensor of n indices per dimension.

    Example:
        >>> import rushlight
        >>> rushlight.nonzero(rushlight.tensor([0, 3, 0, 5]))
        tensor([[1],
                [3]])
    """
    if as_tuple:
        return nonzero_op.apply((reshape(input, 1) if not input.ndim else input,)).unbind(1)
    return nonzero_op.apply((input,))


@function()
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` rows of `nonzero(input)`, filled up with rows of `fill_value`. Raises RuntimeError for a negative size."""
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    found = nonzero_op.apply((input,))[:size]
    rest = filled((size - found.shape[0], input.ndim), fill_value, dtypes.int64, input.device)
    return cat_op.apply((found, rest), (0,))


@function(out=False)
def argwhere(input: Tensor) -> Tensor:
    """The indices of all elements that are not zero, shape `(n, ndim)`."""
    return nonzero_op.apply((input,))


# Along one dimension


def _infer_index_select(input: Meta, index: Meta, *, dim: int) -> Meta:
    check_index("index_select", index)
    if index.ndim > 1:
        raise IndexError(f"index_select: Index is supposed to be a vector, got shape {shape_text(index.shape)}")
    shape = (*input.shape[:dim], index.numel, *input.shape[dim + 1:]) if input.ndim else ()
    if not input.ndim and index.numel != 1:
        raise RuntimeError(f"index_select: Index to scalar must have exactly 1 value, got {index.numel} value(s)")
    return meta(input.dtype, shape, None, input.device)


index_select_op = structured(
    "index_select", _infer_index_select, doc="The parts at a vector of indices along a dimension.",
    samples=lambda: [Sample((_MATRIX, _ROWS), (0,)), Sample((_MATRIX, _ROWS[:2]), (1,))],
    reference=lambda x, index, dim: np.take(x, index, dim),
    errors=lambda: [ErrorSample((_MATRIX, _ROWS + 1), (0,), IndexError, "out of bounds"),
                    ErrorSample((_MATRIX, _ROWS - 1), (0,), IndexError, "out of bounds")])


@kernel(index_select_op, "cpu")
def _index_select(array: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray:
    check_bounds("index_select", index, array.shape[dim] if array.ndim else 1, dim)
    return np.take(array, index.reshape(-1), axis=dim) if array.ndim else array.copy()


@function()
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
    if index.dtype not in _INDEX_DTYPES:
        raise RuntimeError(f"{name}: expected dtype int64 for index, got {index.dtype.name}")
    if max(index.ndim, 1) != max(input.ndim, 1):
        raise RuntimeError(f"{name}: index tensor must have the same number of dimensions as input tensor, got {index.ndim} and {input.ndim}")
    for d, size in enumerate(index.shape):
        if d != dim and input.ndim and size > input.shape[d]:
            raise RuntimeError(f"{name}: size does not match at dimension {d}: expected index {shape_text(index.shape)} to be no larger "
                               f"than {shape_text(input.shape)} apart from dimension {dim}")
    if src is not None and not src.weak:
        if max(src.ndim, 1) != max(index.ndim, 1):
            raise RuntimeError(f"{name}: index tensor must have the same number of dimensions as src tensor, got {index.ndim} and {src.ndim}")
        if any(a > b for a, b in zip(index.shape, src.shape)):
            raise RuntimeError(f"{name}: expected index {shape_text(index.shape)} to be no larger than src {shape_text(src.shape)}")


def _infer_gather(input: Meta, index: Meta, *, dim: int) -> Meta:
    check_gather("gather", input, index, dim)
    return meta(input.dtype, index.shape, None, input.device)


gather_op = structured(
    "gather", _infer_gather, doc="`result[i, j] = input[index[i, j], j]` along dimension 0, likewise along others.",
    samples=lambda: [Sample((_MATRIX, np.array([[0, 2, 1], [1, 1, 0]])), (0,)), Sample((_MATRIX, np.array([[3], [0], [1]])), (1,))],
    reference=lambda x, index, dim: np.take_along_axis(x[: index.shape[0]] if dim else x[:, : index.shape[1]], index, dim),
    errors=lambda: [ErrorSample((_MATRIX, np.array([[4]])), (1,), RuntimeError, "out of bounds"),
                    ErrorSample((_MATRIX, np.array([[-1]])), (1,), RuntimeError, "out of bounds")])


def along(array: np.ndarray, index: np.ndarray, dim: int) -> tuple:
    """The numpy index of the elements that gather and scatter address: `index` along `dim`, its own position along the others."""
    return tuple([index if d == dim else np.arange(size).reshape((-1,) + (1,) * (index.ndim - d - 1))
                  for d, size in enumerate(index.shape)])


@kernel(gather_op, "cpu")
def _gather(array: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray:
    if index.size == 0:
        return np.empty(index.shape, array.dtype)
    if not array.ndim or not index.ndim:
        check_bounds("gather", index, max(array.size, 1), dim, error=RuntimeError)
        return array.reshape(-1)[index]
    check_bounds("gather", index, array.shape[dim], dim, error=RuntimeError)
    return array[along(array, index, dim)]


@function()
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


@function()
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """The elements at `indices` along `dim`, the two broadcasting apart from it; without `dim`, of all elements in a row.

    Negative indices count from the end. Raises RuntimeError for other dtypes than int64, another number of dimensions, and indices
    outside the dimension.
    """
    if indices.dtype not in _INDEX_DTYPES:
        raise RuntimeError(f"take_along_dim: expected dtype of indices to be Long, got {indices.dtype.name}")
    if dim is None:
        return gather(reshape(input, -1), 0, _from_front(reshape(indices, -1), input.numel()))
    if input.ndim != indices.ndim:
        raise RuntimeError(f"take_along_dim: input and indices should have the same number of dimensions, got {input.ndim} and {indices.ndim}")
    at = check_dim("take_along_dim", dim, input.ndim)
    if not input.ndim:
        return gather(input, 0, indices)
    common = broadcast_of(input.shape, indices.shape, at)
    here, there = list(common), list(common)
    here[at], there[at] = input.shape[at], indices.shape[at]
    return gather(input.expand(here), at, _from_front(indices.expand(there), input.shape[at]))


def _from_front(indices: Tensor, size: int) -> Tensor:
    """Indices with those that count from the end turned round."""
    return (indices < 0).to(indices.dtype) * size + indices


def broadcast_of(a: tuple[int, ...], b: tuple[int, ...], dim: int) -> tuple[int, ...]:
    """What two shapes broadcast to, apart from one dimension; RuntimeError when they do not fit."""
    for d, (x, y) in enumerate(zip(a, b)):
        if d != dim and x != y and 1 not in (x, y):
            raise RuntimeError(f"take_along_dim: shapes {shape_text(a)} and {shape_text(b)} do not broadcast at dimension {d}")
    return tuple([y if x == 1 else x for x, y in zip(a, b)])


def _infer_take(input: Meta, index: Meta) -> Meta:
    if index.weak or index.dtype not in _INDEX_DTYPES:
        raise RuntimeError(f"take: expected a long tensor for index, got {index.dtype.name}")
    if not input.numel and index.numel:
        raise IndexError("take: tried to take from an empty tensor")
    return meta(input.dtype, index.shape, None, input.device)


take_op = structured("take", _infer_take, doc="Elements by their position in row-major order.",
                     samples=lambda: [Sample((_MATRIX, np.array([[0, 11], [-1, 5]])))], reference=lambda x, index: x.reshape(-1)[index],
                     errors=lambda: [ErrorSample((_MATRIX, np.array([12])), (), IndexError, "out of")])


@kernel(take_op, "cpu")
def _take(array: np.ndarray, index: np.ndarray) -> np.ndarray:
    check_bounds("take", index, array.size, least=-array.size)
    return np.take(array, index)


@function()
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at `index`, counted through `input` in row-major order; the result has the shape of `index`.

    Raises RuntimeError for an index that is not int64, IndexError for one out of range.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([[4, 3], [2, 1]]).take(rushlight.tensor([0, 3]))
        tensor([4, 1])
    """
    return take_op.apply((input, index))


