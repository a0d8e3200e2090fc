"""Writing along a dimension by an index of the result's places: scatter, scatter_add, scatter_reduce, index_reduce."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rushlight.core.declare import updating
from rushlight.core.errors import check_dim
from rushlight.core.front import function
from rushlight.core.meta import Meta
from rushlight.core.op import INPLACE, ErrorSample, Sample
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import axes
from rushlight.kernels.cpu.scatter import add_rows, divide, worth
from rushlight.kernels.cpu.scatter import scatter as scatter_into
from rushlight.ops.allocation import number_array
from rushlight.ops.copy import check_number
from rushlight.ops.create import filled
from rushlight.ops.gather import check_gather
from rushlight.ops.index import check_bounds
from rushlight.ops.index_along import FEW, adds_at_once, check_source
from rushlight.ops.shape import unsqueeze
from rushlight.ops.view import expand

_MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)
_INDEX = np.array([[0, 1, 0, 2], [2, 2, 1, 0]])
Number = bool | int | float | complex


def _prepared(array: np.ndarray, index: np.ndarray, src: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    """Array, index and the part of src that the index covers, with 0-dim ones as vectors."""
    if not array.ndim:
        array = array.reshape(1)
    if not index.ndim:
        index = index.reshape(1)
    if isinstance(src, np.ndarray):
        src = src.reshape(1) if not src.ndim else src
        src = src[tuple([slice(size) for size in index.shape])]
    return array, index, src


def _check(name: str, array: np.ndarray, index: np.ndarray, dim: int) -> None:
    check_bounds(name, index, array.shape[dim], dim, error=RuntimeError)


def _scatter_fresh(name: str, array: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int, combine: str) -> None:
    """Into an array that nobody has seen, so large ones are written while the index is looked at."""
    if not array.size or not worth(index.shape, src, array, index):
        _check(name, array, index, dim)
        scatter_into(array, index, src, dim, combine)
    elif not scatter_into(array, index, src, dim, combine, check=True):
        _check(name, array, index, dim)


def _reference(update: Any) -> Any:
    def changed(x: np.ndarray, *arguments: Any) -> np.ndarray:
        x = x.copy()
        update(x, *arguments)
        return x

    return changed


# scatter


def _check_scatter(input: Meta, index: Meta, src: Meta, *, dim: int) -> None:
    check_gather("scatter", input, index, dim, src)
    if not src.weak and src.dtype is not input.dtype:
        raise RuntimeError(
            f"scatter: expected input.dtype to be equal to src.dtype, got {input.dtype.name} and {src.dtype.name}"
        )
    check_number("scatter", src, input.dtype)


def _scatter(array: np.ndarray, index: np.ndarray, src: Any, dim: int, fresh: bool = False) -> None:
    if not index.size:
        return
    if array.ndim == index.ndim == 1 and index.size <= FEW:
        _check("scatter", array, index, 0)
        array[index] = src[: index.size] if isinstance(src, np.ndarray) else number_array(src, array.dtype)
        return
    array, index, src = _prepared(array, index, src)
    if not isinstance(src, np.ndarray):
        src = number_array(src, array.dtype)
    if fresh:
        _scatter_fresh("scatter", array, index, src, dim, "set")
    else:
        _check("scatter_", array, index, dim)
        scatter_into(array, index, src, dim)


scatter_op = updating(
    "scatter",
    _check_scatter,
    _scatter,
    fresh=partial(_scatter, fresh=True),
    doc="`result[index[i, j], j] = src[i, j]` along dimension 0, likewise along others.",
    samples=lambda: [
        Sample((_MATRIX, np.array([[2, 1, 0, 1]]), _MATRIX + 20), (0,)),
        Sample((_MATRIX, _INDEX[:, :2], 7.5), (1,)),
    ],
    reference=lambda x, *rest: _reference(_scatter)(x, *rest),
    errors=lambda: [
        ErrorSample((_MATRIX, _INDEX + 1, 1), (0,), RuntimeError, "out of bounds"),
        ErrorSample((_MATRIX, _INDEX - 1, 1), (0,), RuntimeError, "out of bounds"),
    ],
)


def _add(array: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int, fresh: bool = False) -> None:
    if not index.size:
        return
    if array.ndim == index.ndim == 1 and adds_at_once(array, index):
        _check("scatter_add", array, index, 0)
        np.add.at(array, index, src[: index.size])
        return
    array, index, src = _prepared(array, index, src)
    vector = _is_vector(array, index, dim)
    if fresh and not vector:
        _scatter_fresh("scatter_add", array, index, src, dim, "add")
        return
    _check("scatter_add", array, index, dim)
    if vector:
        rows = axes.last(index, dim)[(0,) * (index.ndim - 1)]
        add_rows(axes.first(array, dim), rows, axes.first(src, dim))
    else:
        scatter_into(array, index, src, dim, "add")


def _is_vector(array: np.ndarray, index: np.ndarray, dim: int) -> bool:
    """Is the index one vector, expanded over all of the other dimensions?"""
    if index.ndim == 1:
        return True
    others = [d for d in range(index.ndim) if d != dim]
    return all(index.shape[d] == array.shape[d] and (index.strides[d] == 0 or index.shape[d] == 1) for d in others)


def _check_scatter_add(input: Meta, index: Meta, src: Meta, *, dim: int) -> None:
    _check_scatter(input, index, src, dim=dim)


scatter_add_op = updating(
    "scatter_add",
    _check_scatter_add,
    _add,
    fresh=partial(_add, fresh=True),
    doc="`result[index[i, j], j] += src[i, j]` along dimension 0, likewise along others.",
    samples=lambda: [Sample((_MATRIX, _INDEX, _MATRIX + 20), (0,)), Sample((_MATRIX, _INDEX[:, :2], _MATRIX), (1,))],
    reference=lambda x, *rest: _reference(_add)(x, *rest),
    errors=lambda: [ErrorSample((_MATRIX, _INDEX + 1, _MATRIX), (0,), RuntimeError, "out of bounds")],
)


# scatter_reduce

_COMBINE = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "maximum", "amin": "minimum"}


def _neutral(reduce: str, dtype: np.dtype) -> Any:
    """What a reduction starts from."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.min if reduce == "amax" else info.max
    if dtype.kind == "b":
        return reduce == "amin"
    return -np.inf if reduce == "amax" else np.inf


def _fold(array: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int, reduce: str, include_self: bool) -> None:
    """Combine src into the places of an array by a reduction; without `include_self` what was there does not count."""
    if not include_self:
        start = np.array(_neutral(reduce, array.dtype)).astype(array.dtype)
        scatter_into(array, index, start, dim)
    scatter_into(array, index, src, dim, _COMBINE[reduce])
    if reduce == "mean":
        count = np.full(array.shape, int(include_self), np.int64)
        scatter_into(count, index, np.ones((), np.int64), dim, "add")
        divide(array, count)


def _check_reduce(name: str, reduce: str, input: Meta) -> None:
    if input.dtype.is_complex and reduce in ("amax", "amin"):
        raise NotImplementedError(f"{name}: {reduce} is not implemented for {input.dtype.name}: it has no order")
    if reduce not in _COMBINE:
        raise RuntimeError(f"{name}: reduce argument must be one of {', '.join(_COMBINE)}, got {reduce}")


def _check_scatter_reduce(input: Meta, index: Meta, src: Meta, *, dim: int, reduce: str, include_self: bool) -> None:
    _check_reduce("scatter_reduce", reduce, input)
    check_gather("scatter_reduce", input, index, dim, src)
    if src.dtype is not input.dtype:
        raise RuntimeError(
            f"scatter_reduce: expected input.dtype to be equal to src.dtype, got {input.dtype.name} and "
            f"{src.dtype.name}"
        )


def _scatter_reduce(
    array: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int, reduce: str, include_self: bool
) -> None:
    if not index.size:
        return
    array, index, src = _prepared(array, index, src)
    _check("scatter_reduce", array, index, dim)
    _fold(array, index, src, dim, reduce, include_self)


scatter_reduce_op = updating(
    "scatter_reduce",
    _check_scatter_reduce,
    _scatter_reduce,
    doc="Values combined into the places that an index addresses.",
    samples=lambda: [
        Sample((_MATRIX, _INDEX, _MATRIX + 2), (0, reduce, include)) for reduce in _COMBINE for include in (True, False)
    ],
    reference=lambda x, *rest: _reference(_scatter_reduce)(x, *rest),
    errors=lambda: [
        ErrorSample((_MATRIX, _INDEX + 1, _MATRIX), (0, "sum", True), RuntimeError, "out of bounds"),
        ErrorSample((_MATRIX, _INDEX, _MATRIX), (0, "max", True), RuntimeError, "must be one of"),
    ],
)


# Functions


def _written(
    twin: bool, name: str, input: Tensor, dim: int, index: Tensor, src: Any, value: Any, reduce: str | None
) -> Tensor:
    at = check_dim(name, dim, input.ndim)
    src = value if src is None else src
    if reduce is None:
        op, params = scatter_op, (at,)
    else:
        if reduce not in ("add", "multiply"):
            raise RuntimeError(f"{name}: reduce argument must be either add or multiply, got {reduce}")
        op, params = scatter_reduce_op, (at, "sum" if reduce == "add" else "prod", True)
        if not hasattr(src, "_meta"):
            src = expand(fill_like(src, input), index.shape)
    return (INPLACE[op] if twin else op).apply((input, index, src), params)


def fill_like(value: Number, like: Tensor) -> Tensor:
    """A 0-dim tensor of a number, in the dtype and on the device of another tensor."""
    return filled((), value, like.dtype, like.device)


@function(memo=True)
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | Number | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
) -> Tensor:
    """A copy of `input` with `src` (a tensor or number) at the places `index` along `dim`; `reduce` may be "add" or
    "multiply".

    Shapes: `index` is no larger than `src`, nor than `input` apart from `dim`. Raises RuntimeError for shapes and
    dtypes that do not fit and for indices outside the dimension.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(2, 2).scatter(1, rushlight.tensor([[1], [0]]), 5)
        tensor([[0., 5.],
                [5., 0.]])
    """
    return _written(False, "scatter", input, dim, index, src, value, reduce)


@function(out=False, public=False, memo=True)
def scatter_(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | Number | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
) -> Tensor:
    """In-place form of `scatter`."""
    return _written(True, "scatter_", input, dim, index, src, value, reduce)


@function(memo=True)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """A copy of `input` with `src` added at the places `index` along `dim`; shapes and errors as for `scatter`.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(2).scatter_add(0, rushlight.tensor([1, 1]), rushlight.tensor([2., 3.]))
        tensor([0., 5.])
    """
    return scatter_add_op.apply((input, index, src), (check_dim("scatter_add", dim, input.ndim),))


@function(out=False, public=False, memo=True)
def scatter_add_(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """In-place form of `scatter_add`."""
    return INPLACE[scatter_add_op].apply((input, index, src), (check_dim("scatter_add_", dim, input.ndim),))


@function(memo=True)
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A copy of `input` with `src` combined into the places `index` along `dim` by sum, prod, mean, amax or amin.

    Without `include_self` the values that were there do not count. Shapes and errors as for `scatter`.

    Example:
        >>> import rushlight
        >>> rushlight.ones(2).scatter_reduce(0, rushlight.tensor([1, 1]), rushlight.tensor([2., 3.]), "amax")
        tensor([1., 3.])
    """
    return scatter_reduce_op.apply(
        (input, index, src), (check_dim("scatter_reduce", dim, input.ndim), reduce, bool(include_self))
    )


@function(out=False, public=False, memo=True)
def scatter_reduce_(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """In-place form of `scatter_reduce`."""
    params = (check_dim("scatter_reduce_", dim, input.ndim), reduce, bool(include_self))
    return INPLACE[scatter_reduce_op].apply((input, index, src), params)


def _wide(input: Tensor, index: Tensor, source: Tensor, at: int) -> Tensor:
    """A vector of indices along a dimension in the shape of the source."""
    if not source.ndim:
        return index if not index.ndim else index.reshape(())
    index = index.reshape(-1)
    for d in range(source.ndim):
        if d != at:
            index = unsqueeze(index, d)
    return expand(index, source.shape)


def _index_reduce(
    twin: bool, name: str, input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    at = check_dim(name, dim, input.ndim)
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"{name}: reduce argument must be prod, mean, amax or amin, got {reduce}")
    check_source(name, input._meta, index._meta, source._meta, at)
    op = INPLACE[scatter_reduce_op] if twin else scatter_reduce_op
    return op.apply((input, _wide(input, index, source, at), source), (at, reduce, bool(include_self)))


@function(memo=True)
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A copy of `input` with the parts of `source` combined into the places `index` (a vector) of dimension `dim`.

    `reduce` is prod, mean, amax or amin; without `include_self` the values that were there do not count. Raises
    RuntimeError for indices out of range and for shapes and dtypes that do not fit.
    """
    return _index_reduce(False, "index_reduce", input, dim, index, source, reduce, include_self)


@function(out=False, public=False, memo=True)
def index_reduce_(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """In-place form of `index_reduce`."""
    return _index_reduce(True, "index_reduce_", input, dim, index, source, reduce, include_self)
