"""Functions of `rushlight.masked`: reductions, scans and softmax over the elements that a mask selects.

What the mask leaves out is replaced by the value that changes nothing; over nothing the result is that value, or NaN
where there is none.
"""

from __future__ import annotations

import math

from rushlight.core import dtypes
from rushlight.core.dtypes import dtype
from rushlight.core.errors import check_dims
from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops import exponential, extremum, reduction, scan, sorting
from rushlight.ops import softmax as normalized
from rushlight.ops.arithmetic import Number
from rushlight.ops.linalg_norm import vector_norm
from rushlight.ops.reduction import Dims
from rushlight.ops.selection import where_op

_M = "masked"


def _filled(input: Tensor, mask: Tensor | None, value: Number) -> Tensor:
    """The input with `value` where the mask is False; the mask broadcasts."""
    if mask is None:
        return input
    if mask.dtype is not dtypes.bool:
        raise ValueError(f"masked: mask must be a bool tensor, got {mask.dtype.name}; compare it: mask != 0")
    return where_op(mask, input, value)


def _lowest(input: Tensor) -> Number:
    """The value that maximum ignores."""
    if input.dtype.is_floating_point:
        return -math.inf
    return False if input.dtype is dtypes.bool else dtypes.iinfo(input.dtype).min


def _highest(input: Tensor) -> Number:
    """The value that minimum ignores."""
    if input.dtype.is_floating_point:
        return math.inf
    return True if input.dtype is dtypes.bool else dtypes.iinfo(input.dtype).max


def _as(input: Tensor, dtype: dtype | None) -> Tensor:
    return input if dtype is None else input.to(dtype)


def _inexact(input: Tensor, dtype: dtype | None) -> Tensor:
    """The input in `dtype`, or in the default floating-point type if it has no fractions."""
    if dtype is None and not input.dtype.is_inexact:
        dtype = dtypes.get_default_dtype()
    return _as(input, dtype)


@function(namespace=_M, method=False, out=False)
def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Sum of the elements that the mask selects, over `dim` (all dimensions by default); 0 over nothing.

    Raises ValueError for a mask that is not bool.

    Example:
        >>> import rushlight
        >>> rushlight.masked.sum(rushlight.tensor([1, 2, 3]), mask=rushlight.tensor([True, False, True]))
        tensor(4)
    """
    return reduction.sum(_filled(input, mask, 0), dim, keepdim, dtype=dtype)


@function(namespace=_M, method=False, out=False)
def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Product of the elements that the mask selects, over `dim`; 1 over nothing."""
    input = _filled(input if dtype is None else input.to(dtype), mask, 1)
    for d in sorted(check_dims("prod", dim, input.ndim), reverse=True):
        input = reduction.prod(input, d, keepdim)
    return input if input.dtype.is_inexact else input.to(dtypes.int64)


@function(namespace=_M, method=False, out=False)
def amax(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Largest of the elements that the mask selects, over `dim`; -inf or the lowest number over nothing."""
    input = _as(input, dtype)
    return extremum.amax(_filled(input, mask, _lowest(input)), () if dim is None else dim, keepdim)


@function(namespace=_M, method=False, out=False)
def amin(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Smallest of the elements that the mask selects, over `dim`; inf or the highest number over nothing."""
    input = _as(input, dtype)
    return extremum.amin(_filled(input, mask, _highest(input)), () if dim is None else dim, keepdim)


@function(namespace=_M, method=False, out=False)
def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Mean of the elements that the mask selects, over `dim`; NaN over nothing.

    Raises ValueError for integer tensors without `dtype`.
    """
    wanted = dtype or input.dtype
    if not wanted.is_inexact:
        raise ValueError(
            f"mean: Could not infer output dtype. Input dtype must be either a floating point or complex "
            f"dtype. Got: {wanted.name}; pass dtype=rushlight.float32 or convert the tensor"
        )
    input = _as(input, dtype)
    return reduction.sum(_filled(input, mask, 0), dim, keepdim) / _count(input, mask, dim, keepdim)


@function(namespace=_M, method=False, out=False)
def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Logarithm of the sum of the exponentials of the elements that the mask selects; -inf over nothing."""
    input = _inexact(input, dtype)
    return reduction.logsumexp(_filled(input, mask, -math.inf), dim, keepdim)


@function(namespace=_M, method=False, out=False)
def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Position of the largest of the elements that the mask selects, in the dtype of the input."""
    found = extremum.argmax(_filled(input, mask, _lowest(input)), dim, keepdim)
    return found.to(dtype or input.dtype)


@function(namespace=_M, method=False, out=False)
def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Position of the smallest of the elements that the mask selects, in the dtype of the input."""
    found = extremum.argmin(_filled(input, mask, _highest(input)), dim, keepdim)
    return found.to(dtype or input.dtype)


@function(namespace=_M, method=False, out=False)
def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Median along `dim` of the elements that the mask selects; NaN over nothing."""
    if not input.dtype.is_floating_point:
        raise ValueError(f"median: input must be floating point, got {input.dtype.name}; convert the tensor")
    input = _as(input, dtype)
    if mask is None:
        return sorting.median(input, dim, keepdim).values
    return sorting.nanmedian(_filled(input, mask, math.nan), dim, keepdim).values


@function(namespace=_M, method=False, out=False)
def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: int | float | None = None,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Variance of the elements that the mask selects, over `dim`, as `rushlight.var`; NaN over nothing."""
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    elif unbiased is not None:
        raise ValueError("var: give unbiased or correction, not both")
    input = _inexact(input, dtype)
    count = _count(input, mask, dim, True)
    center = reduction.sum(_filled(input, mask, 0), dim, True) / count
    distance = _filled(input - center, mask, 0)
    total = reduction.sum((distance * distance.conj()).real, dim, keepdim)
    return (total / (count.reshape(total.shape) - correction).clamp(min=0)).to(input.dtype)


@function(namespace=_M, method=False, out=False)
def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: int | float | None = None,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Standard deviation of the elements that the mask selects, over `dim`: the square root of `var`."""
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


@function(namespace=_M, method=False, out=False)
def norm(
    input: Tensor,
    ord: float = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Norm of the vectors along `dim` of the elements that the mask selects, as `rushlight.linalg.vector_norm`."""
    return vector_norm(_filled(_as(input, dtype), mask, math.inf if ord == -math.inf else 0), ord, dim, keepdim)


@function(namespace=_M, method=False, out=False)
def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The elements that the mask selects, divided by their norm along `dim` or by `eps` if that is larger; else 0."""
    input = _as(input, dtype)
    return _filled(input, mask, 0) / norm(input, ord, dim, keepdim=True, mask=mask).clamp(min=eps)


@function(namespace=_M, method=False, out=False)
def softmax(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax along `dim` over the elements that the mask selects, 0 elsewhere; NaN over nothing."""
    input = _inexact(input, dtype)
    return normalized.softmax(_filled(input, mask, -math.inf), dim)


@function(namespace=_M, method=False, out=False)
def log_softmax(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Logarithm of `softmax` over the elements that the mask selects, -inf elsewhere."""
    input = _inexact(input, dtype)
    return normalized.log_softmax(_filled(input, mask, -math.inf), dim)


@function(namespace=_M, method=False, out=False)
def softmin(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax of the negated elements that the mask selects, 0 elsewhere; NaN over nothing."""
    return softmax(-_inexact(input, dtype), dim, mask=mask)


@function(namespace=_M, method=False, out=False)
def cumsum(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running sum along `dim` of the elements that the mask selects."""
    return scan.cumsum(_filled(input, mask, 0), dim, dtype=dtype or input.dtype)


@function(namespace=_M, method=False, out=False)
def cumprod(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running product along `dim` of the elements that the mask selects."""
    return scan.cumprod(_filled(input, mask, 1), dim, dtype=dtype or input.dtype)


@function(namespace=_M, method=False, out=False)
def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: dtype | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """Logarithm of the sum of exponentials of two tensors; what a mask leaves out counts as -inf."""
    return exponential.logaddexp(
        _filled(_as(input, dtype), input_mask, -math.inf), _filled(_as(other, dtype), other_mask, -math.inf)
    )


def _count(input: Tensor, mask: Tensor | None, dim: Dims, keepdim: bool) -> Tensor:
    """How many elements the mask leaves to each result."""
    return reduction.sum(_filled(input.new_ones(input.shape, dtype=dtypes.int64), mask, 0), dim, keepdim)
