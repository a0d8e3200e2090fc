"""Functions that fold axes away or run along one: sums, extremes, tests of truth, differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as rl
from rushlight.array_api._manipulation import Axes
from rushlight.core import dtypes
from rushlight.core.dtypes import dtype as Dtype
from rushlight.core.tensor import Tensor


def axes_of(x: Tensor, axis: Axes | None) -> tuple[int, ...]:
    """The axes named: all for None, none for ()."""
    if axis is None:
        return tuple(range(x.ndim))
    return axis if isinstance(axis, tuple) else (axis,)


def folded(function: Callable, x: Tensor, axis: Axes | None, keepdims: bool, **options: Any) -> Tensor:
    """A reduction over the axes. Over no axis each element is reduced alone; for PyTorch no dims are all of them."""
    if axis is None and not keepdims:
        return function(x, **options)
    axes = axes_of(x, axis)
    if not axes:
        return function(x.unsqueeze(-1), dim=-1, **options)
    return function(x, dim=axes, keepdim=keepdims, **options)


def _wide(x: Tensor, dtype: Dtype | None) -> Dtype | None:
    """The dtype of a sum: integers get the widest of their signedness, where PyTorch has int64 for all."""
    if dtype is None and x.dtype.category == 1:
        return dtypes.int64 if x.dtype.is_signed else dtypes.uint64
    return dtype


def all(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Are all elements along the axes true (not zero)?"""
    return folded(rl.all, x, axis, keepdims).to(dtypes.bool)


def any(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Is an element along the axes true (not zero)?"""
    return folded(rl.any, x, axis, keepdims).to(dtypes.bool)


def count_nonzero(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """The number of elements along the axes that are not zero."""
    return folded(rl.sum, rl.ne(x, 0), axis, keepdims)


def max(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """The largest element along the axes; NaN when there is one."""
    return folded(rl.amax, x, axis, keepdims)


def min(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """The smallest element along the axes; NaN when there is one."""
    return folded(rl.amin, x, axis, keepdims)


def mean(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean along the axes."""
    return folded(rl.mean, x, axis, keepdims)


def prod(x: Tensor, /, *, axis: Axes | None = None, dtype: Dtype | None = None, keepdims: bool = False) -> Tensor:
    """The product along the axes; integers multiply in the widest type of their signedness."""
    dtype = _wide(x, dtype)
    axes = axes_of(x, axis)
    if not axes:
        return folded(rl.prod, x, (), keepdims, dtype=dtype)
    for a in axes:  # PyTorch's takes one dim at a time
        x = rl.prod(x, a, keepdim=True, dtype=dtype)
    return x if keepdims else rl.squeeze(x, axes)


def std(x: Tensor, /, *, axis: Axes | None = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation along the axes: the root of `var`."""
    return folded(rl.std, x, axis, keepdims, correction=correction)


def sum(x: Tensor, /, *, axis: Axes | None = None, dtype: Dtype | None = None, keepdims: bool = False) -> Tensor:
    """The sum along the axes; integers add up in the widest type of their signedness.

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.sum(xp.asarray([200, 100], dtype=xp.uint8))
        tensor(300, dtype=rushlight.uint64)
    """
    return folded(rl.sum, x, axis, keepdims, dtype=_wide(x, dtype))


def var(x: Tensor, /, *, axis: Axes | None = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance along the axes: squared distances from the mean, over their number less `correction`."""
    return folded(rl.var, x, axis, keepdims, correction=correction)


def cumulative_prod(x: Tensor, /, *, axis: int | None = None, dtype: Dtype | None = None,
                    include_initial: bool = False) -> Tensor:
    """Products of the elements up to each place along an axis; see `cumulative_sum`."""
    return _cumulative(rl.cumprod, "cumulative_prod", 1, x, axis, dtype, include_initial)


def cumulative_sum(x: Tensor, /, *, axis: int | None = None, dtype: Dtype | None = None,
                   include_initial: bool = False) -> Tensor:
    """Sums of the elements up to each place along an axis, which only 1-D arrays may leave away.

    With `include_initial` the result starts with the sum of nothing and is one longer. Raises ValueError when the axis
    is missing.

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.cumulative_sum(xp.asarray([1, 2, 3]), include_initial=True)
        tensor([0, 1, 3, 6])
    """
    return _cumulative(rl.cumsum, "cumulative_sum", 0, x, axis, dtype, include_initial)


def _cumulative(function: Callable, name: str, initial: int, x: Tensor, axis: int | None, dtype: Dtype | None,
                include_initial: bool) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{name}: axis is needed for an array with {x.ndim} dimensions")
        axis = 0
    run = function(x, axis, dtype=_wide(x, dtype))
    if not include_initial:
        return run
    start = list(run.shape)
    start[axis] = 1
    return rl.cat([rl.full(start, initial, dtype=run.dtype, device=run.device), run], axis)


def diff(x: Tensor, /, n: int = 1, axis: int = -1, prepend: Tensor | None = None,
         append: Tensor | None = None) -> Tensor:
    """The n-th differences of neighbours along an axis; `prepend` and `append` are joined on first.

    By position, which the standard leaves open, the arguments come in NumPy's order.
    """
    return rl.diff(x, n, axis, prepend, append)
