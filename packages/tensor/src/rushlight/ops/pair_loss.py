"""Losses that compare tensors in pairs and triplets; they exist in nn.functional and, with a number as reduction, at
the root."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops.cross_entropy import legacy_reduction
from rushlight.ops.distance import pairwise_distance
from rushlight.ops.loss import CODES, reduced


def _hinge(input: Tensor, target: Tensor, margin: float) -> Tensor:
    apart = (margin - input).clamp(min=0)
    return apart.where(target != 1, 0) + input.where(target != -1, 0)


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Distances `input` of similar pairs (target 1) and `max(0, margin - input)` of dissimilar ones (-1), averaged."""
    return reduced(
        "hinge_embedding_loss", _hinge(input, target, margin), legacy_reduction(reduction, size_average, reduce)
    )


@function(name="hinge_embedding_loss", method=False, out=False)
def _hinge_root(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    """`nn.functional.hinge_embedding_loss` with the reduction as a number: 0 none, 1 mean, 2 sum."""
    return reduced("hinge_embedding_loss", _hinge(input, target, margin), CODES[reduction])


def _ranking(input1: Tensor, input2: Tensor, target: Tensor, margin: float) -> Tensor:
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            "margin_ranking_loss: all input tensors should have same dimension but got sizes "
            f"{shape_text(input1.shape)}, "
            f"{shape_text(input2.shape)} and {shape_text(target.shape)}"
        )
    return (-target * (input1 - input2) + float(margin)).clamp(min=0)


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`max(0, -target * (input1 - input2) + margin)` for targets 1 and -1, averaged. Raises RuntimeError for different
    ranks."""
    terms = _ranking(input1, input2, target, margin)
    return reduced("margin_ranking_loss", terms, legacy_reduction(reduction, size_average, reduce))


@function(name="margin_ranking_loss", method=False, out=False)
def _ranking_root(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1) -> Tensor:
    """`nn.functional.margin_ranking_loss` with the reduction as a number: 0 none, 1 mean, 2 sum."""
    return reduced("margin_ranking_loss", _ranking(input1, input2, target, margin), CODES[reduction])


def _cosine(input1: Tensor, input2: Tensor, target: Tensor, margin: float) -> Tensor:
    if target.ndim > 1 or input1.ndim != target.ndim + 1 or input1.shape != input2.shape:
        raise RuntimeError(
            f"cosine_embedding_loss: {target.ndim}D target tensor expects {target.ndim + 1}D input tensors (at most "
            "2D), but "
            f"found inputs with sizes {shape_text(input1.shape)} and {shape_text(input2.shape)}"
        )
    eps = 1e-12
    product = (input1 * input2).sum(-1)
    cosine = product / ((input1 * input1).sum(-1) + eps).mul((input2 * input2).sum(-1) + eps).sqrt()
    return (1 - cosine).where(target == 1, 0) + (cosine - margin).clamp(min=0).where(target == -1, 0)


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`1 - cos` of similar pairs (target 1) and `max(0, cos - margin)` of dissimilar ones (-1), averaged.

    Shapes: `(N, D)`, `(N, D)`, `(N,)` -> `()`, or `(N,)` for reduction "none". Raises RuntimeError for other shapes.
    """
    terms = _cosine(input1, input2, target, margin)
    return reduced("cosine_embedding_loss", terms, legacy_reduction(reduction, size_average, reduce))


@function(name="cosine_embedding_loss", method=False, out=False)
def _cosine_root(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1) -> Tensor:
    """`nn.functional.cosine_embedding_loss` with the reduction as a number: 0 none, 1 mean, 2 sum."""
    return reduced("cosine_embedding_loss", _cosine(input1, input2, target, margin), CODES[reduction])


def _triplet(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float, distance: Callable, swap: bool
) -> Tensor:
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "triplet_margin_loss: anchor, positive and negative should have the same number of dimensions, got "
            f"{anchor.ndim}, "
            f"{positive.ndim} and {negative.ndim}"
        )
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss: margin must be greater than 0, got {margin}")
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return (near - far + margin).clamp(min=0)


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`max(0, d(anchor, positive) - d(anchor, negative) + margin)` with distances of order p, averaged.

    `swap` takes the smaller of the distances from anchor and from positive to negative. Shapes: `(N, D)` each -> `()`,
    or `(N,)` for reduction
    "none". Raises ValueError unless margin > 0, RuntimeError for different ranks.
    """
    terms = _triplet(anchor, positive, negative, margin, lambda a, b: pairwise_distance(a, b, p, eps), swap)
    return reduced("triplet_margin_loss", terms, legacy_reduction(reduction, size_average, reduce))


@function(name="triplet_margin_loss", method=False, out=False)
def _triplet_root(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Tensor:
    """`nn.functional.triplet_margin_loss` with the reduction as a number: 0 none, 1 mean, 2 sum."""
    terms = _triplet(anchor, positive, negative, margin, lambda a, b: pairwise_distance(a, b, p, eps), swap)
    return reduced("triplet_margin_loss", terms, CODES[reduction])


@function(namespace="nn.functional", method=False, out=False)
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with any distance, `pairwise_distance` by default. Raises as that does."""
    terms = _triplet(anchor, positive, negative, margin, distance_function or pairwise_distance, swap)
    return reduced("triplet_margin_with_distance_loss", terms, reduction)
