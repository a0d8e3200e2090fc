"""Writing at a vector of indices along one dimension: index_fill, index_copy, index_add, index_reduce."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.declare import updating
from rushlight.core.errors import check_dim, shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta
from rushlight.core.op import INPLACE, ErrorSample, Sample
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import axes
from rushlight.kernels.cpu.scatter import add_rows, put
from rushlight.kernels.half import is_half
from rushlight.ops.allocation import number_array
from rushlight.ops.copy import check_number
from rushlight.ops.index import check_bounds, check_index

_MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)
_ROWS = np.array([2, 0, 2])
Number = bool | int | float | complex


def _reference(update: Any) -> Any:
    def changed(x: np.ndarray, *arguments: Any) -> np.ndarray:
        x = x.copy()
        update(x, *arguments)
        return x

    return changed


def _check_vector(name: str, input: Meta, index: Meta) -> None:
    check_index(name, index)
    if index.ndim > 1:
        raise IndexError(f"{name}: index is supposed to be a vector, got shape {shape_text(index.shape)}")


def check_source(name: str, input: Meta, index: Meta, source: Meta, dim: int) -> None:
    _check_vector(name, input, index)
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}: self and source must have the same dtype, got {input.dtype.name} and {source.dtype.name}"
        )
    want = (*input.shape[:dim], index.numel, *input.shape[dim + 1 :]) if input.ndim else ()
    have = source.shape
    if source.numel == index.numel == 1 and len(have) + len(want) <= 1 and input.numel == 1:
        return
    if have != want and not (not source.ndim and len(want) == 1 and index.numel == 1):
        raise RuntimeError(
            f"{name}: source of shape {shape_text(have)} does not fit: {index.numel} indices along dimension {dim} of "
            "the "
            f"tensor of shape {shape_text(input.shape)} need shape {shape_text(want)}"
        )


def _front(array: np.ndarray, dim: int) -> np.ndarray:
    """The array with the indexed dimension first; 0-dim arrays count as vectors of one element."""
    return axes.first(array, dim) if array.ndim else array.reshape(1)


# index_fill


def _check_index_fill(input: Meta, index: Meta, value: Meta, *, dim: int) -> None:
    _check_vector("index_fill", input, index)
    if value.ndim:
        raise RuntimeError(
            f"index_fill: only supports a 0-dimensional value tensor, got shape {shape_text(value.shape)}"
        )
    check_number("index_fill", value, input.dtype)


def _index_fill(array: np.ndarray, index: np.ndarray, value: Any, dim: int) -> None:
    target = _front(array, dim)
    check_bounds("index_fill", index, len(target), dim, -len(target))
    places = index.reshape(-1)
    put(target, (places,), number_array(value, array.dtype), (len(places), *target.shape[1:]))


index_fill_op = updating(
    "index_fill",
    _check_index_fill,
    _index_fill,
    doc="One value at the given places of a dimension.",
    samples=lambda: [Sample((_MATRIX, _ROWS, 7), (0,)), Sample((_MATRIX, _ROWS[:1], 0.5), (1,))],
    reference=lambda x, *rest: _reference(_index_fill)(x, *rest),
    errors=lambda: [ErrorSample((_MATRIX, _ROWS + 1, 7), (0,), IndexError, "out of bounds")],
)


@function(out=False, memo=True)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Number | Tensor) -> Tensor:
    """A copy of `input` with `value` at the places `index` of dimension `dim`. Raises IndexError for indices out of
    range.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([1, 2, 3]).index_fill(0, rushlight.tensor([0, 2]), -1)
        tensor([-1,  2, -1])
    """
    return index_fill_op.apply((input, index, value), (check_dim("index_fill", dim, input.ndim),))


@function(out=False, public=False, memo=True)
def index_fill_(input: Tensor, dim: int, index: Tensor, value: Number | Tensor) -> Tensor:
    """In-place form of `index_fill`."""
    return INPLACE[index_fill_op].apply((input, index, value), (check_dim("index_fill_", dim, input.ndim),))


# index_copy


def _check_index_copy(input: Meta, index: Meta, source: Meta, *, dim: int) -> None:
    check_source("index_copy", input, index, source, dim)


def _index_copy(array: np.ndarray, index: np.ndarray, source: np.ndarray, dim: int) -> None:
    target = _front(array, dim)
    check_bounds("index_copy", index, len(target), dim)
    put(target, (index.reshape(-1),), _front(source, dim), (index.size, *target.shape[1:]))


index_copy_op = updating(
    "index_copy",
    _check_index_copy,
    _index_copy,
    doc="The parts of a source at the given places of a dimension.",
    samples=lambda: [
        Sample((_MATRIX, _ROWS[:2], _MATRIX[:2] + 20), (0,)),
        Sample((_MATRIX, _ROWS[:2], -_MATRIX[:, :2]), (1,)),
    ],
    reference=lambda x, *rest: _reference(_index_copy)(x, *rest),
    errors=lambda: [ErrorSample((_MATRIX, _ROWS + 1, _MATRIX), (0,), IndexError, "out of bounds")],
)


@function(memo=True)
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """A copy of `input` with the parts of `source` at the places `index` of dimension `dim`.

    Raises IndexError for indices out of range, RuntimeError for a source that does not fit.
    """
    return index_copy_op.apply((input, index, source), (check_dim("index_copy", dim, input.ndim),))


@function(out=False, public=False, memo=True)
def index_copy_(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """In-place form of `index_copy`."""
    return INPLACE[index_copy_op].apply((input, index, source), (check_dim("index_copy_", dim, input.ndim),))


# index_add


def _check_index_add(input: Meta, index: Meta, source: Meta, *, dim: int) -> None:
    check_source("index_add", input, index, source, dim)


# So many elements of a vector numpy writes, and adds to, before a loop that has to be planned is quicker.
FEW, FEW_SUMS = 4096, 16384


def adds_at_once(array: np.ndarray, index: np.ndarray) -> bool:
    """Can numpy add few numbers to this array one by one? Half types are summed in float32."""
    return index.size <= FEW_SUMS and not is_half(array.dtype) and array.flags.aligned


def _index_add(array: np.ndarray, index: np.ndarray, source: np.ndarray, dim: int) -> None:
    if array.ndim == index.ndim == source.ndim == 1 and adds_at_once(array, index):
        check_bounds("index_add", index, len(array), dim)
        np.add.at(array, index, source)
        return
    target = _front(array, dim)
    check_bounds("index_add", index, len(target), dim)
    add_rows(target, index.reshape(-1), _front(source, dim))


index_add_op = updating(
    "index_add",
    _check_index_add,
    _index_add,
    doc="The parts of a source added at the given places of a dimension.",
    samples=lambda: [Sample((_MATRIX, _ROWS, _MATRIX + 20), (0,)), Sample((_MATRIX, _ROWS[:2], -_MATRIX[:, :2]), (1,))],
    reference=lambda x, *rest: _reference(_index_add)(x, *rest),
    errors=lambda: [ErrorSample((_MATRIX, _ROWS + 1, _MATRIX), (0,), IndexError, "out of bounds")],
)


def _times(name: str, source: Tensor, alpha: Number) -> Tensor:
    return source if alpha == 1 else (source * alpha).to(source.dtype)


@function(memo=True)
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    """A copy of `input` with `alpha` times the parts of `source` added at the places `index` of dimension `dim`; places
    may repeat.

    Raises IndexError for indices out of range, RuntimeError for a source that does not fit.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(2).index_add(0, rushlight.tensor([1, 1]), rushlight.tensor([2., 3.]))
        tensor([0., 5.])
    """
    return index_add_op.apply(
        (input, index, _times("index_add", source, alpha)), (check_dim("index_add", dim, input.ndim),)
    )


@function(out=False, public=False, memo=True)
def index_add_(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    """In-place form of `index_add`."""
    operands = (input, index, _times("index_add_", source, alpha))
    return INPLACE[index_add_op].apply(operands, (check_dim("index_add_", dim, input.ndim),))
