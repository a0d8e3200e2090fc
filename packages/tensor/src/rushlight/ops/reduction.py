"""Reductions that fold by adding, multiplying and testing: sum, mean, prod, any, all, logsumexp and their like."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core import scalar as s
from rushlight.core.declare import reduction
from rushlight.core.dtypes import dtype
from rushlight.core.errors import check_dim, check_dims
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.native import of_loops
from rushlight.core.op import Sample
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import softmax
from rushlight.ops.selection import where_op

_MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)
_WIDE = {
    dtypes.float32: np.float64,
    dtypes.complex64: np.complex128,
    dtypes.float16: np.float32,
    dtypes.bfloat16: np.float32,
}

Dims = int | tuple[int, ...] | list[int] | None


def reduced_shape(shape: tuple[int, ...], dim: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """The shape without the dimensions `dim`, or with size 1 there."""
    if keepdim:
        return tuple([1 if d in dim else size for d, size in enumerate(shape)])
    return tuple([size for d, size in enumerate(shape) if d not in dim])


def infer_reduced(input: Meta, *, dim: tuple[int, ...], keepdim: bool) -> Meta:
    """Metadata of a reduction that keeps the dtype."""
    return meta(input.dtype, reduced_shape(input.shape, dim, keepdim), None, input.device)


def infer_typed(input: Meta, *, dim: tuple[int, ...], keepdim: bool, dtype: dtype) -> Meta:
    """Metadata of a reduction that says its dtype."""
    return meta(dtype, reduced_shape(input.shape, dim, keepdim), None, input.device)


def reduced_samples(*extra: Any) -> list[Sample]:
    """Samples over one and over all dimensions for a reduction with further params."""
    return [Sample((_MATRIX,), ((0,), False, *extra)), Sample((_MATRIX,), ((0, 1), True, *extra))]


def added(array: np.ndarray, dim: tuple[int, ...], keepdim: bool, dtype: dtype) -> np.ndarray:
    """The sum over `dim` in an accumulator that keeps the rounding error of `dtype` small; may return a wider dtype.

    numpy adds pairwise along the innermost dimension only; elsewhere the running sums are kept in double precision.
    """
    wide = _WIDE.get(dtype)
    if wide is None:
        return np.add.reduce(array, axis=dim, dtype=dtype.numpy, keepdims=keepdim)
    inner = dim == tuple(range(array.ndim - len(dim), array.ndim))
    if inner and array.flags.c_contiguous and dtype not in dtypes.HALF:
        flat = array.reshape((*array.shape[: array.ndim - len(dim)], -1)) if array.size and len(dim) > 1 else array
        if len(dim) == 1 or array.size:
            result = np.add.reduce(flat, axis=-1, dtype=dtype.numpy)
            return np.asarray(result).reshape(reduced_shape(array.shape, dim, keepdim))
    return np.add.reduce(array, axis=dim, dtype=wide, keepdims=keepdim)


# The same for all elements of a contiguous array in the dtype of the result, as numpy alone would widen short integers;
# and the ufuncs that do it: what folds, and what divides by the number of elements.
added.whole = lambda array: np.add.reduce(array, None, array.dtype)  # type: ignore[attr-defined]
added.ufuncs = (np.add, None)  # type: ignore[attr-defined]


sum_op = reduction(
    "sum",
    infer_typed,
    numpy=added,
    reduce=(0, operator.add, None),
    doc="Sum over dimensions.",
    samples=lambda: reduced_samples(dtypes.float32),
    reference=lambda x, dim, keepdim, dtype: np.sum(x, axis=dim, keepdims=keepdim),
)


def accumulator_dtype(input: Tensor, dtype: dtype | None) -> dtype:
    """The dtype of a sum or product: as asked for, else int64 for integers and bools."""
    return dtype or (input.dtype if input.dtype.is_inexact else dtypes.int64)


@function(memo=True)
def sum(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Tensor:
    """Sum of the elements over `dim` (all dimensions by default); integers and bools add up in int64.

    Shapes: `(*a)` -> `(*a)` without the dimensions `dim`, or with size 1 there for `keepdim`. Raises IndexError for a
    dimension out of range, RuntimeError for one named twice.

    Example:
        >>> import rushlight
        >>> rushlight.ones(2, 3).sum(0)
        tensor([2., 2., 2.])
    """
    return sum_op.apply((input,), (check_dims("sum", dim, input.ndim), bool(keepdim), accumulator_dtype(input, dtype)))


@function()
def nansum(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Tensor:
    """Sum of the elements over `dim`, NaN counting as 0.

    Example:
        >>> import rushlight
        >>> rushlight.nansum(rushlight.tensor([1.0, float("nan"), 2.0]))
        tensor(3.)
    """
    if input.dtype.is_complex:
        raise RuntimeError("nansum: does not support complex inputs")
    if input.dtype.is_inexact:
        input = where_op(input.isnan(), 0, input)
    return sum(input, dim, keepdim, dtype=dtype)


def count_along(shape: tuple[int, ...], dim: tuple[int, ...]) -> int:
    """How many elements a reduction over `dim` folds into one."""
    n = 1
    for d in dim:
        n *= shape[d]
    return n


def _mean(array: np.ndarray, dim: tuple[int, ...], keepdim: bool, dtype: dtype) -> np.ndarray:
    return np.true_divide(added(array, dim, keepdim, dtype), count_along(array.shape, dim))


_mean.whole = lambda array: np.add.reduce(array, axis=None) / array.size  # type: ignore[attr-defined]
_mean.ufuncs = (np.add, np.true_divide)  # type: ignore[attr-defined]


def _divided(total: Any, count: Any) -> Any:
    return total / s.cast(count, s.dtype_of(total))


mean_op = reduction(
    "mean",
    infer_typed,
    numpy=_mean,
    reduce=(0, operator.add, _divided),
    doc="Mean over dimensions.",
    samples=lambda: reduced_samples(dtypes.float32),
    reference=lambda x, dim, keepdim, dtype: np.mean(x, axis=dim, keepdims=keepdim),
    decomposition=lambda x, dim, keepdim, dtype: (
        sum_op(x, dim=dim, keepdim=keepdim, dtype=dtype) / count_along(x.shape, dim)
    ),
)


@function(memo=True)
def mean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Tensor:
    """Mean of the elements over `dim` (all dimensions by default); NaN over nothing.

    Raises RuntimeError for integer and bool tensors without `dtype`: their mean has fractions.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([[1.0, 2.0], [3.0, 4.0]]).mean(1)
        tensor([1.5000, 3.5000])
    """
    wanted = dtype or input.dtype
    if not wanted.is_inexact:
        raise RuntimeError(
            f"mean: could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {wanted.name}; pass dtype=rushlight.float32 or convert the tensor"
        )
    return mean_op.apply((input,), (check_dims("mean", dim, input.ndim), bool(keepdim), wanted))


@function()
def nanmean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Tensor:
    """Mean over `dim` of the elements that are not NaN."""
    if not input.dtype.is_inexact:
        raise RuntimeError(f"nanmean: expected input to have floating point or complex dtype, got {input.dtype.name}")
    count = sum(input.isnan().logical_not(), dim, keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / count


def _prod(array: np.ndarray, dim: tuple[int, ...], keepdim: bool, dtype: dtype) -> np.ndarray:
    wide = np.float32 if dtype in dtypes.HALF else dtype.numpy
    return np.multiply.reduce(array, axis=dim, dtype=wide, keepdims=keepdim)


prod_op = reduction(
    "prod",
    infer_typed,
    numpy=_prod,
    reduce=(1, operator.mul, None),
    doc="Product over dimensions.",
    samples=lambda: reduced_samples(dtypes.float32),
    reference=lambda x, dim, keepdim, dtype: np.prod(x, axis=dim, keepdims=keepdim),
)


@function(memo=True, autocast="wide")
def prod(input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Tensor:
    """Product of the elements, of all or along `dim`; integers and bools multiply in int64.

    Example:
        >>> import rushlight
        >>> rushlight.prod(rushlight.tensor([2, 3, 4]))
        tensor(24)
    """
    dims = (
        tuple(range(input.ndim)) if dim is None else check_dims("prod", check_dim("prod", dim, input.ndim), input.ndim)
    )
    return prod_op.apply((input,), (dims, bool(keepdim), accumulator_dtype(input, dtype)))


# Tests


def _test(ufunc: np.ufunc) -> Any:
    @of_loops
    def test(x: np.ndarray, dim: tuple[int, ...], keepdim: bool, dtype: Any) -> np.ndarray:
        return ufunc.reduce(x if x.dtype == bool else x != 0, axis=dim, keepdims=keepdim)

    return test


any_op = reduction(
    "any",
    infer_typed,
    numpy=_test(np.logical_or),
    reduce=(False, lambda a, x: a | (x != 0), None),
    doc="Is one element nonzero?",
    samples=lambda: reduced_samples(dtypes.bool),
    reference=lambda x, dim, keepdim, dtype: np.any(x, axis=dim, keepdims=keepdim),
)

all_op = reduction(
    "all",
    infer_typed,
    numpy=_test(np.logical_and),
    reduce=(True, lambda a, x: a & (x != 0), None),
    doc="Are all elements nonzero?",
    samples=lambda: reduced_samples(dtypes.bool),
    reference=lambda x, dim, keepdim, dtype: np.all(x, axis=dim, keepdims=keepdim),
)


def _truth_dtype(input: Tensor) -> dtype:
    return dtypes.uint8 if input.dtype is dtypes.uint8 else dtypes.bool  # uint8 was PyTorch's bool before there was one


def _test_dims(name: str, dim: Dims, ndim: int) -> tuple[int, ...]:
    return () if isinstance(dim, (tuple, list)) and not dim else check_dims(name, dim, ndim)


@function(memo=True)
def any(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Is one of the elements over `dim` nonzero? False over nothing; NaN counts as nonzero.

    Example:
        >>> import rushlight
        >>> rushlight.any(rushlight.tensor([[0, 1], [0, 0]]), 1)
        tensor([ True, False])
    """
    return any_op.apply((input,), (_test_dims("any", dim, input.ndim), bool(keepdim), _truth_dtype(input)))


@function(memo=True)
def all(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Are all of the elements over `dim` nonzero? True over nothing; NaN counts as nonzero.

    Example:
        >>> import rushlight
        >>> rushlight.all(rushlight.tensor([1, 0]))
        tensor(False)
    """
    return all_op.apply((input,), (_test_dims("all", dim, input.ndim), bool(keepdim), _truth_dtype(input)))


@function(out=False)
def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """How many elements over `dim` are nonzero (all dimensions by default)."""
    return sum(input != 0, dim)


# Logarithm of a sum of exponentials


@of_loops
def _logsumexp(array: np.ndarray, dim: tuple[int, ...], keepdim: bool) -> np.ndarray:
    return softmax.log_sum_exp(array, dim).reshape(reduced_shape(array.shape, dim, keepdim))


logsumexp_op = reduction(
    "logsumexp",
    infer_reduced,
    numpy=_logsumexp,
    doc="Logarithm of the sum of exponentials.",
    samples=reduced_samples,
    reference=lambda x, dim, keepdim: np.log(np.sum(np.exp(x), axis=dim, keepdims=keepdim)),
)


@function(memo=True)
def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """Logarithm of the sum of the exponentials over `dim`: `log(sum(exp(input)))`, without overflow; -inf over nothing.

    Example:
        >>> import rushlight
        >>> rushlight.logsumexp(rushlight.tensor([0.0, 0.0]), 0)
        tensor(0.6931)
    """
    if not input.dtype.is_inexact:
        input = input.to(dtypes.get_default_dtype())
    return logsumexp_op.apply((input,), (check_dims("logsumexp", dim, input.ndim), bool(keepdim)))
