"""Reductions: sum and its like."""

from __future__ import annotations

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import reduction
from rushlight.core.dtypes import dtype
from rushlight.core.errors import check_dims
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.op import Sample
from rushlight.core.tensor import Tensor

_MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def reduced_shape(shape: tuple[int, ...], dim: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """The shape without the dimensions `dim`, or with size 1 there."""
    if keepdim:
        return tuple([1 if d in dim else size for d, size in enumerate(shape)])
    return tuple([size for d, size in enumerate(shape) if d not in dim])


def _infer_sum(input: Meta, *, dim: tuple[int, ...], keepdim: bool, dtype: dtype) -> Meta:
    return meta(dtype, reduced_shape(input.shape, dim, keepdim), None, input.device)


def _sum(array: np.ndarray, dim: tuple[int, ...], keepdim: bool, dtype: dtype) -> np.ndarray:
    wide = np.float32 if dtype in dtypes.HALF else dtype.numpy
    return np.add.reduce(array, axis=dim, dtype=wide, keepdims=keepdim)


sum_op = reduction("sum", _infer_sum, numpy=_sum, reduce=(0, lambda a, x: a + x, None), doc="Sum over dimensions.",
                   samples=lambda: [Sample((_MATRIX,), ((0,), False, dtypes.float32)), Sample((_MATRIX,), ((0, 1), True, dtypes.float32))],
                   reference=lambda x, dim, keepdim, dtype: np.sum(x, axis=dim, keepdims=keepdim))


@function()
def sum(input: Tensor, dim: int | tuple[int, ...] | None = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Tensor:
    """Sum of the elements over `dim` (all dimensions by default); integers and bools add up in int64.

    Shapes: `(*a)` -> `(*a)` without the dimensions `dim`, or with size 1 there for `keepdim`. Raises IndexError for a dimension out of
    range, RuntimeError for one named twice.

    Example:
        >>> import rushlight
        >>> rushlight.ones(2, 3).sum(0)
        tensor([2., 2., 2.])
    """
    wanted = dtype or (input.dtype if input.dtype.is_inexact else dtypes.int64)
    return sum_op.apply((input,), (check_dims("sum", dim, input.ndim), bool(keepdim), wanted))
