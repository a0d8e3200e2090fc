"""Writing by index tensors and masks: index_put, masked_fill, masked_scatter, put, index_fill, index_copy,
index_add.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import updating
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta
from rushlight.core.op import INPLACE, ErrorSample, Sample
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu.masked import fill_where, store_where
from rushlight.kernels.cpu.native import WORTH
from rushlight.kernels.cpu.scatter import add_rows
from rushlight.kernels.cpu.scatter import put as put_into
from rushlight.kernels.half import is_half
from rushlight.ops.allocation import number_array
from rushlight.ops.copy import check_number
from rushlight.ops.index import as_torch_error, check_bounds, indexed_shape, nonzero, numpy_index, place_of
from rushlight.ops.view import broadcast_shapes, expand

_MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)
_ROWS = np.array([2, 0, 2])
Number = bool | int | float | complex


# Several dimensions at once: x[i, :, j] = values


def _check_index_put(input: Meta, values: Meta, *indices: Meta | None, accumulate: bool) -> None:
    shape = indexed_shape("index_put", input.shape, indices)
    if not values.weak and values.dtype is not input.dtype:
        raise RuntimeError(
            f"index_put: Index put requires the source and destination dtypes match, got {input.dtype.name} for the "
            f"destination and {values.dtype.name} for the source; convert with .to(dtype)"
        )
    check_number("index_put", values, input.dtype)
    lead = len(shape) - values.ndim
    if lead < 0 or any(a not in (1, b) for a, b in zip(values.shape, shape[lead:])):
        raise RuntimeError(
            f"index_put: shape mismatch: value tensor of shape {shape_text(values.shape)} cannot be broadcast to "
            f"indexing result of shape {shape_text(shape)}"
        )


def _index_put(array: np.ndarray, values: Any, *rest: Any) -> None:
    *indices, accumulate = rest
    if not isinstance(values, np.ndarray):
        values = number_array(values, array.dtype)
    if array.size < WORTH and not (accumulate and is_half(array.dtype)):
        try:
            if accumulate:
                np.add.at(array, numpy_index(indices), values)
            else:
                array[numpy_index(indices)] = values
        except IndexError as error:
            raise as_torch_error("index_put", error) from None
        return
    given = [d for d, index in enumerate(indices) if index is not None]
    if not given:
        array[...] = array + values if accumulate else values
        return
    for d in given:
        check_bounds("index_put", indices[d], array.shape[d], d, -array.shape[d])
    first = place_of(indices)
    common = np.broadcast_shapes(*[indices[d].shape for d in given])
    rest = [size for d, size in enumerate(array.shape) if d not in given]
    shape = (*rest[:first], *common, *rest[first:])
    if accumulate and len(given) == len(indices) == 1 and indices[0].ndim == 1:
        add_rows(array, indices[0], np.broadcast_to(values, shape))
    else:
        put_into(array, indices, values, shape, first, "add" if accumulate else "set")


index_put_op = updating(
    "index_put",
    _check_index_put,
    _index_put,
    variadic=True,
    doc="The elements at integer index tensors replaced, or added to.",
    samples=lambda: [
        Sample((_MATRIX, _MATRIX + 20, _ROWS), (True,)),
        Sample((_MATRIX, _MATRIX[:, :1], None, _ROWS[:1]), (False,)),
        Sample((_MATRIX, 7, _ROWS, _ROWS), (False,)),
    ],
    reference=lambda x, values, *rest: _reference(_index_put, x, values, *rest),
    errors=lambda: [
        ErrorSample((_MATRIX, 1, _ROWS + 1), (False,), IndexError, "out of bounds"),
        ErrorSample((_MATRIX, _MATRIX[:, :3], _ROWS), (False,), RuntimeError, "cannot be broadcast"),
    ],
)


def _reference(update: Any, x: np.ndarray, *arguments: Any) -> np.ndarray:
    x = x.copy()
    update(x, *arguments)
    return x


def as_indices(indices: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Index tensors with each mask replaced by the index tensors of the places where it is True."""
    result: list[Tensor | None] = []
    for index in indices:
        if index is not None and index.dtype in (dtypes.bool, dtypes.uint8):
            result.extend(nonzero(index, as_tuple=True))
        else:
            result.append(index)
    return result


@function(out=False)
def index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` in which the elements at the index tensors are `values`, or have them added with `accumulate`.

    Raises IndexError for indices out of range, RuntimeError for values of another dtype or a shape that does not
    broadcast.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(3).index_put((rushlight.tensor([1, 1]),), rushlight.tensor([2., 3.]), accumulate=True)
        tensor([0., 5., 0.])
    """
    return index_put_op.apply((input, values, *as_indices(indices)), (bool(accumulate),))


@function(out=False)
def index_put_(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """In-place form of `index_put`."""
    return INPLACE[index_put_op].apply((input, values, *as_indices(indices)), (bool(accumulate),))


# By a mask


def _check_mask(name: str, input: Meta, mask: Meta) -> None:
    if mask.dtype is not dtypes.bool:
        raise RuntimeError(f"{name}: expected mask to be a bool tensor, got {mask.dtype.name}; compare it: mask != 0")
    lead = input.ndim - mask.ndim
    if lead < 0 or any(a not in (1, b) for a, b in zip(mask.shape, input.shape[lead:])):
        raise RuntimeError(
            f"{name}: mask of shape {shape_text(mask.shape)} does not broadcast to the tensor's shape "
            f"{shape_text(input.shape)}"
        )


def _check_masked_fill(input: Meta, mask: Meta, value: Meta) -> None:
    _check_mask("masked_fill", input, mask)
    if value.ndim:
        raise RuntimeError(
            f"masked_fill: only supports a 0-dimensional value tensor, got shape {shape_text(value.shape)}"
        )
    check_number("masked_fill", value, input.dtype)


def _masked_fill(array: np.ndarray, mask: np.ndarray, value: Any) -> None:
    fill_where(array, mask, number_array(value, array.dtype))


masked_fill_op = updating(
    "masked_fill",
    _check_masked_fill,
    _masked_fill,
    doc="One value in the places where a mask is True.",
    samples=lambda: [Sample((_MATRIX, _MATRIX > 5, -1)), Sample((_MATRIX, _MATRIX[0] > 1, np.array(9.5, np.float32)))],
    reference=lambda x, mask, value: np.where(mask, value, x),
    errors=lambda: [ErrorSample((_MATRIX, _MATRIX, 1), (), RuntimeError, "bool tensor")],
)


def _spread(name: str, input: Tensor, mask: Tensor) -> Tensor:
    """The input expanded to what it broadcasts to with the mask."""
    shape = input.shape
    if mask.shape == shape:
        return input
    wide = broadcast_shapes(shape, mask.shape)
    return input if wide == shape else expand(input, wide)


@function(out=False)
def masked_fill(input: Tensor, mask: Tensor, value: Number | Tensor) -> Tensor:
    """A copy of `input` with `value` in the places where `mask` is True; the two broadcast.

    Raises RuntimeError when mask is not bool, or value not a number or a 0-dim tensor.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([1, 2]).masked_fill(rushlight.tensor([True, False]), 0)
        tensor([0, 2])
    """
    return masked_fill_op.apply((_spread("masked_fill", input, mask), mask, value))


@function(out=False, public=False)
def masked_fill_(input: Tensor, mask: Tensor, value: Number | Tensor) -> Tensor:
    """In-place form of `masked_fill`."""
    return INPLACE[masked_fill_op].apply((input, mask, value))


def _check_masked_scatter(input: Meta, mask: Meta, source: Meta) -> None:
    _check_mask("masked_scatter", input, mask)
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got {input.dtype.name} and "
            f"{source.dtype.name}"
        )


def _masked_scatter(array: np.ndarray, mask: np.ndarray, source: np.ndarray) -> None:
    mask = np.broadcast_to(mask, array.shape)
    count = int(np.count_nonzero(mask))
    if count > source.size:
        raise RuntimeError(
            f"masked_scatter: expected source to have at least {count} elements, one for each True of mask, got "
            f"{source.size}"
        )
    if array.ndim:
        store_where(array, mask, source)
    elif count:
        array[...] = source.flat[0]


masked_scatter_op = updating(
    "masked_scatter",
    _check_masked_scatter,
    _masked_scatter,
    aliased=True,
    doc="The elements of a source, in order, in the places where a mask is True.",
    samples=lambda: [Sample((_MATRIX, _MATRIX > 5, -_MATRIX)), Sample((_MATRIX, _MATRIX[0] > 1, _MATRIX))],
    reference=lambda x, mask, source: _reference(_masked_scatter, x, mask, source),
    errors=lambda: [ErrorSample((_MATRIX, _MATRIX > 5, _MATRIX[0]), (), RuntimeError, "at least 6 elements")],
)


@function(out=False)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy of `input` with the elements of `source`, in order, in the places where `mask` is True.

    Raises RuntimeError when mask is not bool, for too few elements, or for another dtype.

    Example:
        >>> import rushlight
        >>> x, mask = rushlight.zeros(3), rushlight.tensor([True, False, True])
        >>> x.masked_scatter(mask, rushlight.tensor([5., 6.]))
        tensor([5., 0., 6.])
    """
    return masked_scatter_op.apply((_spread("masked_scatter", input, mask), mask, source))


@function(out=False, public=False)
def masked_scatter_(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """In-place form of `masked_scatter`."""
    return INPLACE[masked_scatter_op].apply((input, mask, source))


# By position in row-major order


def _check_put(input: Meta, index: Meta, source: Meta, *, accumulate: bool) -> None:
    if index.dtype is not dtypes.int64:
        raise RuntimeError(f"put: expected a long tensor for index, got {index.dtype.name}")
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"put: expected source and self expected to have the same dtype, got {source.dtype.name} and "
            f"{input.dtype.name}"
        )
    if index.numel != source.numel:
        raise RuntimeError(
            f"put: expected source and index to have the same number of elements, got {source.numel} and {index.numel}"
        )
    if index.numel and not input.numel:
        raise IndexError("put: tried to put elements into an empty tensor")


def _put(array: np.ndarray, index: np.ndarray, source: np.ndarray, accumulate: bool) -> None:
    check_bounds("put", index, array.size, least=-array.size)
    if array.flags.c_contiguous:
        array, places = array.reshape(-1), (index.reshape(-1),)
    else:
        places = np.unravel_index(np.where(index < 0, index + array.size, index).reshape(-1), array.shape)
    put_into(array, places, source.reshape(-1), (source.size,), 0, "add" if accumulate else "set")


put_op = updating(
    "put",
    _check_put,
    _put,
    doc="Elements replaced, or added to, by their position in row-major order.",
    samples=lambda: [
        Sample((_MATRIX, _ROWS, _MATRIX[0, :3]), (True,)),
        Sample((_MATRIX, _ROWS[:2] - 1, _MATRIX[0, :2]), (False,)),
    ],
    reference=lambda x, *rest: _reference(_put, x, *rest),
    errors=lambda: [ErrorSample((_MATRIX, _ROWS + 10, _MATRIX[0, :3]), (False,), IndexError, "out of bounds")],
)


@function(out=False)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` with `source` at the positions `index`, counted in row-major order, or added there with
    `accumulate`.

    Raises IndexError for positions out of range, RuntimeError for other dtypes or differing numbers of elements.
    """
    return put_op.apply((input, index, source), (bool(accumulate),))


@function(out=False, public=False)
def put_(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """In-place form of `put`."""
    return INPLACE[put_op].apply((input, index, source), (bool(accumulate),))
