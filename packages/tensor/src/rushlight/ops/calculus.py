"""Differences and integrals along a dimension: diff, trapezoid, cumulative_trapezoid, gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.core import dtypes
from rushlight.core.errors import check_dim, shape_text
from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops.arithmetic import Number
from rushlight.ops.create import full
from rushlight.ops.join import cat
from rushlight.ops.reduction import sum
from rushlight.ops.scan import cumsum


def _ends(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """All elements but the first, and all but the last, along a dimension."""
    n = x.shape[dim] - 1
    return x.narrow(dim, 1, n), x.narrow(dim, 0, n)


@function()
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The `n`-th difference along `dim`: `out[i] = input[i + 1] - input[i]`, repeated; for bools exclusive or.

    `prepend` and `append` are joined on first. Raises RuntimeError for a 0-dim tensor or a negative `n`.

    Example:
        >>> import rushlight
        >>> rushlight.diff(rushlight.tensor([1, 3, 6]))
        tensor([2, 3])
    """
    if input.ndim == 0:
        raise RuntimeError("diff: expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"diff: order must be non-negative but got {n}")
    d = check_dim("diff", dim, input.ndim)
    for x in (prepend, append):
        if x is not None and (
            x.ndim != input.ndim or any(a != b for i, (a, b) in enumerate(zip(x.shape, input.shape)) if i != d)
        ):
            raise RuntimeError(
                f"diff: prepend and append must have the shape {shape_text(input.shape)} but along dim {d}, got "
                f"{shape_text(x.shape)}"
            )
    parts = [x for x in (prepend, input, append) if x is not None]
    result = cat(parts, d) if len(parts) > 1 else input
    for _ in range(min(n, result.shape[d])):
        after, before = _ends(result, d)
        result = after ^ before if result.dtype is dtypes.bool else after - before
    return result.clone() if n == 0 else result


def _areas(name: str, y: Tensor, x: Tensor | None, dx: Number | Tensor | None, dim: int) -> tuple[Tensor, int]:
    """Twice the areas of the trapezoids between neighbours, and the dimension."""
    if x is not None and dx is not None:
        raise TypeError(f"{name}: give x or dx, not both")
    d = check_dim(name, dim, y.ndim)
    if y.ndim and y.shape[d] == 0:
        return y, d
    after, before = _ends(y, d)
    if x is None:
        return (after + before) * (1 if dx is None else dx), d
    if x.ndim == 1 and x.shape[0] != y.shape[d]:
        raise RuntimeError(
            f"{name}: There must be one `x` value for each sample point, got {x.shape[0]} for {y.shape[d]}"
        )
    if x.ndim < y.ndim:
        if x.ndim == 1:
            x = x.reshape([-1 if i == d else 1 for i in range(y.ndim)])
        else:
            x = x.reshape((*(1,) * (y.ndim - x.ndim), *x.shape))
    axis = d - y.ndim
    widths = diff(x, dim=axis)
    return (after + before) * widths, d


@function(out=False, aliases=("trapz",), method=False)
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Number | Tensor | None = None, dim: int = -1) -> Tensor:
    """Integral along `dim` by the trapezoidal rule, over sample points `x` or ones at distance `dx` (1 by default).

    Example:
        >>> import rushlight
        >>> rushlight.trapezoid(rushlight.tensor([1.0, 2.0, 3.0]))
        tensor(4.)
    """
    areas, d = _areas("trapezoid", y, x, dx, dim)
    return sum(areas, d) / 2


@function(out=False, method=False)
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Number | Tensor | None = None, dim: int = -1
) -> Tensor:
    """Running integral along `dim` by the trapezoidal rule; one element fewer than there are sample points."""
    areas, d = _areas("cumulative_trapezoid", y, x, dx, dim)
    return cumsum(areas, d) / 2


def _slope(x: Tensor, dim: int, spacing: Any, edge_order: int) -> Tensor:
    """The derivative along one dimension, of second order inside, by a parabola (or line) at the edges."""
    n = x.shape[dim]
    if hasattr(spacing, "_meta"):
        widths = diff(spacing).reshape([-1 if i == dim else 1 for i in range(x.ndim)])
    else:
        widths = full([n - 1 if i == dim else 1 for i in range(x.ndim)], spacing, dtype=x.dtype, device=x.device)
    steps = diff(x, dim=dim) / widths
    before, after = widths.narrow(dim, 0, n - 2), widths.narrow(dim, 1, n - 2)
    left, right = steps.narrow(dim, 0, n - 2), steps.narrow(dim, 1, n - 2)
    inside = (left * after + right * before) / (before + after)
    first, last = steps.narrow(dim, 0, 1), steps.narrow(dim, n - 2, 1)
    if edge_order == 2:

        def beyond(step: Tensor, other: Tensor, width: Tensor, next_width: Tensor) -> Tensor:
            return step + (step - other) * width / (width + next_width)

        def at(values: Tensor, i: int) -> Tensor:
            return values.narrow(dim, i, 1)

        first = beyond(first, at(steps, 1), at(widths, 0), at(widths, 1))
        last = beyond(last, at(steps, n - 3), at(widths, n - 2), at(widths, n - 3))
    return cat((first, inside, last), dim)


@function(out=False, method=False)
def gradient(
    input: Tensor, *, spacing: Any = None, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """The derivative of sampled values along each dimension of `dim` (all by default), by central differences.

    `spacing` is the distance between samples (1 by default), or per dimension a distance or a tensor of coordinates.
    `edge_order` 1 or 2 is the order at the edges. Raises RuntimeError for dimensions with fewer than `edge_order + 1`
    samples.

    Example:
        >>> import rushlight
        >>> rushlight.gradient(rushlight.tensor([1.0, 4.0, 9.0]))[0]
        tensor([3., 4., 5.])
    """
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient: only supports edge_order=1 and edge_order=2, got {edge_order}")
    dims = list(range(input.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = [check_dim("gradient", d, input.ndim) for d in dims]
    if len(set(dims)) != len(dims):
        raise RuntimeError("gradient: dim names a dimension twice")
    spacing = 1 if spacing is None else spacing
    spacings = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    if len(spacings) != len(dims):
        raise RuntimeError(
            f"gradient: expected spacing to have {len(dims)} elements, one per dimension, got {len(spacings)}"
        )
    for d, space in zip(dims, spacings):
        if input.shape[d] <= edge_order:
            raise RuntimeError(
                f"gradient: expected each dimension size to be at least edge_order+1, got {input.shape[d]} at {d}"
            )
        if hasattr(space, "_meta") and space.ndim and space.shape[0] != input.shape[d]:
            raise RuntimeError(
                f"gradient: expected one coordinate per sample, got {space.shape[0]} for {input.shape[d]} at {d}"
            )
    values = input if input.dtype.is_inexact else input.to(dtypes.get_default_dtype())
    return tuple(
        [
            _slope(values, d, space.item() if hasattr(space, "_meta") and not space.ndim else space, edge_order)
            for d, space in zip(dims, spacings)
        ]
    )
