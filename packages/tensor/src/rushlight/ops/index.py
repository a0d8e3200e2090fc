"""Reading by index tensors and masks: index, masked_select, nonzero."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rushlight.core import dtypes, native
from rushlight.core.declare import broadcast_shapes_of, structured
from rushlight.core.eager import plan_kernel
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.native import At
from rushlight.core.op import ErrorSample, Sample, kernel, planner
from rushlight.core.out import APART
from rushlight.core.tensor import Tensor, wrap
from rushlight.kernels.cpu import gather
from rushlight.kernels.cpu.indexed import inside
from rushlight.kernels.cpu.masked import places, select_where
from rushlight.kernels.cpu.native import WORTH
from rushlight.ops.create import filled
from rushlight.ops.join import cat_op
from rushlight.ops.view import broadcast_tensors, reshape

_MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)


_ROWS = np.array([2, 0, 2])


INDEX_DTYPES = (dtypes.int64, dtypes.int32)


def check_index(name: str, index: Meta) -> None:
    """Refuse index tensors of other dtypes than int64 and int32."""
    if index.weak or index.dtype not in INDEX_DTYPES:
        raise IndexError(
            f"{name}: tensors used as indices must be long or int, got {index.dtype.name}; convert with .long()"
        )


_FEW = 64


def check_bounds(
    name: str, index: np.ndarray, size: int, dim: int | None = None, least: int = 0, error: type[Exception] = IndexError
) -> None:
    """Refuse indices outside [least, size): every kernel calls this before it touches memory,
    except where numpy itself checks.
    """
    if index.size <= _FEW:  # the extremes of a short list cost a third of those of an array
        values = index.reshape(-1).tolist()
        if not values or min(values) >= least and max(values) < size:
            return
    if not inside(index, least, size):
        flat = index.reshape(-1)
        wrong = int(flat[(flat < least) | (flat >= size)][0])
        where = "" if dim is None else f" for dimension {dim}"
        raise error(f"{name}: index {wrong} is out of bounds{where} with size {size}")


def indexed_shape(name: str, shape: tuple[int, ...], indices: Sequence[Meta | None]) -> tuple[int, ...]:
    """The shape of `x[indices]`: the indices' broadcast shape in the place of the dimensions they index, or first when
    those are apart.

    Raises IndexError for too many indices, for other dtypes than integers, and when the indices do not broadcast.
    """
    if len(indices) > len(shape):
        raise IndexError(f"{name}: too many indices for tensor of dimension {len(shape)} (got {len(indices)})")
    at = [d for d, index in enumerate(indices) if index is not None]
    for d in at:
        check_index(name, indices[d])
    try:
        common = broadcast_shapes_of(name, [indices[d] for d in at]) if at else ()
    except RuntimeError:
        texts = ", ".join(shape_text(indices[d].shape) for d in at)
        raise IndexError(
            f"{name}: shape mismatch: indexing tensors could not be broadcast together with shapes {texts}"
        ) from None
    if not at:
        return shape
    if 0 in [shape[d] for d in at] and 0 not in common:
        raise IndexError(f"{name}: index is out of bounds for a dimension with size 0 in shape {shape_text(shape)}")
    rest = [size for d, size in enumerate(shape) if d not in at]
    first = at[0] if at == list(range(at[0], at[-1] + 1)) else 0
    return (*rest[:first], *common, *rest[first:])


def taken(name: str, array: np.ndarray, index: np.ndarray, dim: int, wraps: bool) -> np.ndarray:
    """The parts of an array at the places `index` (of any shape) of a dimension; `wraps`: negative ones count from the
    end. Raises IndexError for one outside.
    """
    size = array.shape[dim]
    if gather.worth((*array.shape[:dim], *index.shape, *array.shape[dim + 1 :]), array, index):
        result = gather.take(array, index, dim, wraps)
        if result is not None:
            return result
    check_bounds(name, index, size, dim, -size if wraps else 0)
    if array.flags.c_contiguous:
        return array.take(index, dim)
    if not index.ndim:
        return array[(*(slice(None),) * dim, index)].copy()
    return array[(*(slice(None),) * dim, index)]  # `take` would copy the whole array first


def plan_taken(
    name: str, input: Meta, index: Meta, dim: int, wraps: bool, out: Meta, others: int = 0
) -> Callable | None:
    """The plan of `taken` for few indices into a row-major tensor, without what has been decided by its metadata; there
    are `others` operands between the two, all None.
    """
    if not input.contiguous or not input.ndim or not index.numel or index.numel > _FEW or out.numel >= WORTH:
        return None
    size = input.shape[dim]
    least = -size if wraps else 0

    def run(x: Tensor, *operands: Tensor) -> Tensor:
        array = operands[-1]._array
        values = array.ravel().tolist()
        if min(values) < least or max(values) >= size:
            check_bounds(name, array, size, dim, least)
        return wrap(x._array.take(array, dim), out)

    if not native.installed() or not out.numel:
        return run
    metas = (input, *(None,) * others, index)
    return read_by_index(run, metas, out, {others + 1: index}, [None] * dim + [index], wraps)


def read_by_index(
    plan: Callable, metas: tuple, out: Meta, operands: dict[int, Meta], indices: Sequence[Meta | None], wraps: bool
) -> Callable:
    """The native form of the plan of `x[indices]`, the operands that are indices being these."""
    strides, at = walked(metas[0], indices, out.ndim, wraps)
    return native.form("take", plan, metas, out, strides, dict(zip(operands, at, strict=True)))


def walked(input: Meta, indices: Sequence[Meta | None], ndim: int, wraps: bool) -> tuple[tuple[int, ...], list[At]]:
    """The strides of `x` over the dimensions of `x[indices]`, and those of each index."""
    common = max([index.ndim for index in indices if index is not None])
    first = place_of(indices)  # type: ignore[arg-type]
    rest = [input.strides[d] for d in range(input.ndim) if d >= len(indices) or indices[d] is None]
    found = []
    for d, index in enumerate(indices):
        if index is not None:
            own = [0 if size == 1 else stride for size, stride in zip(index.shape, index.strides)]
            lead = (0,) * (first + common - index.ndim)
            after = (0,) * (ndim - first - common)
            found.append(At((*lead, *own, *after), input.shape[d], input.strides[d], wraps))
    return (*rest[:first], *(0,) * common, *rest[first:]), found


def place_of(indices: Sequence[np.ndarray | None]) -> int:
    """The dimension of `x[indices]` at which what the indices say begins: theirs, or 0 when they are apart."""
    at = [d for d, index in enumerate(indices) if index is not None]
    return at[0] if at[-1] - at[0] == len(at) - 1 else 0


def numpy_index(indices: Sequence[np.ndarray | None]) -> tuple:
    """Index arrays as numpy takes them: a full slice for None."""
    return tuple([slice(None) if index is None else index for index in indices])


def as_torch_error(name: str, error: IndexError) -> IndexError:
    """numpy's message about an index, in the words of tensors."""
    return IndexError(f"{name}: {str(error).replace('axis', 'dimension')}")


def _infer_index(input: Meta, *indices: Meta | None) -> Meta:
    return meta(input.dtype, indexed_shape("index", input.shape, indices), None, input.device)


index_op = structured(
    "index",
    _infer_index,
    variadic=True,
    doc="The elements at integer index tensors; None takes a whole dimension.",
    samples=lambda: [Sample((_MATRIX, _ROWS)), Sample((_MATRIX, None, _ROWS[:2])), Sample((_MATRIX, _ROWS, -_ROWS))],
    reference=lambda x, *indices: x[numpy_index(indices)],
    errors=lambda: [
        ErrorSample((_MATRIX, _ROWS + 1), (), IndexError, "out of bounds"),
        ErrorSample((_MATRIX, _ROWS - 4), (), IndexError, "out of bounds"),
    ],
)


@planner(index_op)
def _plan_index(metas: tuple[Meta | None, ...], params: tuple, out: Meta) -> Callable | None:
    input, *indices = metas
    if any(m is not None for m in indices[:-1]) or indices[-1] is None or not indices[-1].ndim:
        operands = {k: m for k, m in enumerate(metas) if k and m is not None}
        if not operands or not native.installed() or out.numel >= WORTH:
            return None
        return read_by_index(plan_kernel(index_op, metas, params, out), metas, out, operands, indices, True)
    return plan_taken("index", input, indices[-1], len(indices) - 1, True, out, len(indices) - 1)


@kernel(index_op, "cpu")
def _index(array: np.ndarray, *indices: np.ndarray | None) -> np.ndarray:
    given = [d for d, index in enumerate(indices) if index is not None]
    if len(given) == 1:
        return taken("index", array, indices[given[0]], given[0], True)
    if array.size < WORTH and max([indices[d].size for d in given]) <= _FEW:
        return _indexed(array, indices)
    arrays = [indices[d] for d in given]
    common = np.broadcast_shapes(*[index.shape for index in arrays])
    first = place_of(indices)
    rest = [size for d, size in enumerate(array.shape) if d not in given]
    shape = (*rest[:first], *common, *rest[first:])
    if gather.worth(shape, array, *arrays):
        result = gather.pick(array, indices, shape, first)
        if result is not None:
            return result
        for d in given:
            check_bounds("index", indices[d], array.shape[d], d, -array.shape[d])
    return _indexed(array, indices)


def _indexed(array: np.ndarray, indices: Sequence[np.ndarray | None]) -> np.ndarray:
    try:
        result = array[numpy_index(indices)]
        if any(index is not None and index.ndim for index in indices):
            return result
        return result.copy()  # numpy gives a view for 0-dim indices
    except IndexError as error:
        raise as_torch_error("index", error) from None


def _infer_masked_select(input: Meta, mask: Meta) -> None:
    if mask.dtype is not dtypes.bool:
        raise RuntimeError(
            f"masked_select: expected mask to be a bool tensor, got {mask.dtype.name}; compare it: mask != 0"
        )
    for d, size in enumerate(mask.shape):
        if d >= input.ndim or input.shape[d] != size:
            raise IndexError(
                f"The shape of the mask {shape_text(mask.shape)} at index {d} does not match the shape of the "
                f"indexed tensor {shape_text(input.shape)} at index {d}"
            )


masked_select_op = structured(
    "masked_select",
    _infer_masked_select,
    doc="The elements (or parts) where a mask over the leading dimensions is True.",
    samples=lambda: [Sample((_MATRIX, _MATRIX > 4)), Sample((_MATRIX, np.array([True, False, True])))],
    reference=lambda x, mask: x[mask],
    errors=lambda: [ErrorSample((_MATRIX, np.array([True])), (), IndexError, "does not match")],
)


@kernel(masked_select_op, "cpu")
def _masked_select(array: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return select_where(array, mask)


@function(out=APART)
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
        raise RuntimeError(
            f"masked_select: expected mask to be a bool tensor, got {mask.dtype.name}; compare it: mask != 0"
        )
    if input.shape != mask.shape:
        input, mask = broadcast_tensors(input, mask)
    return (
        masked_select_op.apply((input, mask))
        if input.ndim
        else masked_select_op.apply((reshape(input, 1), reshape(mask, 1)))
    )


nonzero_op = structured(
    "nonzero",
    lambda input: None,
    doc="The indices of the elements that are not zero, one row each.",
    samples=lambda: [Sample((_MATRIX,)), Sample((_MATRIX > 5,))],
    reference=lambda x: np.argwhere(x),
)


@kernel(nonzero_op, "cpu")
def _nonzero(array: np.ndarray) -> np.ndarray:
    if array.ndim == 0:
        return np.zeros((int(bool(array)), 0), np.int64)
    return places(array)


@function(memo=True)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """The indices of all elements that are not zero: shape `(n, ndim)`, or with `as_tuple` one tensor of n indices per
    dimension.

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
    """The first `size` rows of `nonzero(input)`, filled up with rows of `fill_value`.

    Raises RuntimeError for a negative size.
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    found = nonzero_op.apply((input,))[:size]
    rest = filled((size - found.shape[0], input.ndim), fill_value, dtypes.int64, input.device)
    return cat_op.apply((found, rest), (0,))


@function(out=False)
def argwhere(input: Tensor) -> Tensor:
    """The indices of all elements that are not zero, shape `(n, ndim)`."""
    return nonzero_op.apply((input,))
