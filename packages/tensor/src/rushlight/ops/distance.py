"""Distances between vectors: pairwise_distance, cosine_similarity, cdist, pdist."""

from __future__ import annotations

import math

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import broadcast_shapes_of
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops.create import from_numpy
from rushlight.ops.linalg_norm import vector_norm_of


@function(method=False, out=False, memo=True)
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """Norm of order p of `x1 - x2 + eps` over the last dimension: `(*, D)`, `(*, D)` -> `(*)`.

    Raises RuntimeError when the shapes do not broadcast.
    """
    return (x1 - x2 + eps).norm(p, -1, keepdim)


@function(method=False, out=False, memo=True)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """`x1 . x2 / (max(|x1|, eps) max(|x2|, eps))` along `dim`: `(*a, D, *b)` twice -> `(*a, *b)`.

    Raises RuntimeError for integers or shapes that do not broadcast, IndexError for a dimension out of range.

    Example:
        >>> import rushlight
        >>> rushlight.cosine_similarity(rushlight.tensor([1.0, 0.0]), rushlight.tensor([2.0, 0.0]), dim=0)
        tensor(1.)
    """
    common = dtypes.result_dtype([x1._meta, x2._meta])
    if not common.is_inexact:
        raise RuntimeError(
            f"cosine_similarity: expected a floating-point tensor, got {x1.dtype.name} and {x2.dtype.name}"
        )
    shape = broadcast_shapes_of("cosine_similarity", [x1._meta, x2._meta])
    x1, x2 = x1.to(common).expand(shape), x2.to(common).expand(shape)
    norm1, norm2 = x1.norm(2, dim, keepdim=True), x2.norm(2, dim, keepdim=True)
    return ((x1 / norm1.clamp(min=eps)) * (x2 / norm2.clamp(min=eps))).sum(dim)


def _check_rows(name: str, p: float, **tensors: Tensor) -> None:
    for argument, x in tensors.items():
        if not x.dtype.is_floating_point:
            raise RuntimeError(f"{name}: {argument} must be a floating-point tensor, got {x.dtype.name}")
    if p < 0:
        raise RuntimeError(f"{name}: only supports non-negative p values, got {p}")


@function(method=False, out=False, autocast="wide")
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """Distances of order p between all rows of two sets: `(*, P, D)`, `(*, R, D)` -> `(*, P, R)`.

    Raises RuntimeError when the shapes do not fit or for negative p. From 25 rows on, p = 2 is computed with matrix
    products.
    """
    _check_rows("cdist", p, x1=x1, x2=x2)
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"cdist: expected x1 and x2 of shapes (*, P, D) and (*, R, D), got {shape_text(x1.shape)} and "
            f"{shape_text(x2.shape)}"
        )
    large = max(x1.shape[-2], x2.shape[-2]) > 25
    if p == 2 and (
        compute_mode == "use_mm_for_euclid_dist" or large and compute_mode == "use_mm_for_euclid_dist_if_necessary"
    ):
        return _euclidean(x1, x2)
    return _safe_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


def _euclidean(x1: Tensor, x2: Tensor) -> Tensor:
    # Moving both sets by one point changes no distance and keeps the squares from cancelling.
    middle = x1.detach().mean(tuple(range(x1.ndim - 1)), keepdim=True)
    a, b = x1 - middle.reshape(-1), x2 - middle.reshape(-1)
    squares = (a * a).sum(-1, keepdim=True) + (b * b).sum(-1).unsqueeze(-2) - 2 * (a @ b.transpose(-2, -1))
    return _root(squares.clamp(min=0))


def _root(squares: Tensor) -> Tensor:
    """Square root whose gradient is 0, not infinite, at 0."""
    zero = squares == 0
    return squares.masked_fill(zero, 1).sqrt().masked_fill(zero, 0)


def _safe_norm(difference: Tensor, p: float) -> Tensor:
    """Norm over the last dimension with gradient 0 at 0."""
    if p == 0:
        return vector_norm_of("distance", difference, 0, -1, False)
    size = difference.abs()
    if p == 1:
        return size.sum(-1)
    if p == math.inf:
        return size.amax(-1) if size.shape[-1] else size.sum(-1)
    if p == 2:
        return _root((difference * difference).sum(-1))
    zero = size == 0
    total = (size.masked_fill(zero, 1) ** p).masked_fill(zero, 0).sum(-1)
    none = total == 0
    return (total.masked_fill(none, 1) ** (1 / p)).masked_fill(none, 0)


@function(method=False, out=False)
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Distances of order p between every two rows i < j: `(N, D)` -> `(N (N - 1) / 2,)`. Raises RuntimeError for other
    shapes or p < 0."""
    _check_rows("pdist", p, input=input)
    if input.ndim != 2:
        raise RuntimeError(f"pdist: only supports 2D tensors, got {input.ndim}D of shape {shape_text(input.shape)}")
    first, second = np.triu_indices(input.shape[0], 1)
    rows = [input.index_select(0, from_numpy(i).to(input.device)) for i in (first, second)]
    return _safe_norm(rows[0] - rows[1], p)
