"""Margin losses of classification: multi_margin, multilabel_margin, multilabel_soft_margin."""

from __future__ import annotations

import numpy as np

from rushlight.core import checks, dtypes
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops.activation import logsigmoid
from rushlight.ops.create import from_numpy
from rushlight.ops.cross_entropy import check_reduction, legacy_reduction
from rushlight.ops.loss import reduced


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`sum over classes c != y of max(0, margin - input[y] + input[c]) ** p / C` for the class y of each sample,
    averaged.

    Shapes: `(N, C)`, `(N,)` -> `()`, or `(N,)` for reduction "none". Raises ValueError unless p is 1 or 2, RuntimeError
    for shapes and
    classes that do not fit.
    """
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: only p == 1 and p == 2 supported, got {p}")
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction("multi_margin_loss", reduction)
    single = input.ndim < 2
    if (
        input.ndim > 2
        or not input.shape[-1:].numel()
        or target.shape not in (((), (1,)) if single else (input.shape[:1],))
    ):
        raise RuntimeError(
            "multi_margin_loss: expected non-empty vector or matrix input and one target per row, got "
            f"{shape_text(input.shape)} "
            f"and target {shape_text(target.shape)}"
        )
    classes = input.shape[-1] if input.ndim else 1
    if weight is not None and weight.shape != (classes,):
        error = RuntimeError if weight.ndim == 1 else ValueError
        raise error(
            f"multi_margin_loss: inconsistent weight size, expected {classes} but got {shape_text(weight.shape)}"
        )
    rows, labels = input.reshape(-1, classes), target.reshape(-1)
    if checks.found((labels < 0) | (labels >= classes)):
        raise RuntimeError(f"multi_margin_loss: target out of range; classes are 0 to {classes - 1}")
    loss = (rows - rows.gather(1, labels.unsqueeze(1)) + margin).clamp(min=0)
    if p == 2:
        loss = loss * loss
    if weight is not None:
        loss = loss * weight[labels].unsqueeze(1)
    own = from_numpy(np.arange(classes)).to(input.device) == labels.unsqueeze(1)
    loss = loss.masked_fill(own, 0).sum(1) / classes
    return reduced("multi_margin_loss", loss.reshape(target.shape), reduction)


def _labels(target: Tensor, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Which classes each row of a multi-label target names (up to its first -1), and which positions of it count."""
    array = target._host_array("multilabel_margin_loss")
    if array.size and (array.min() < -1 or array.max() >= classes):
        raise RuntimeError(
            f"multilabel_margin_loss: target is out of range; classes are 0 to {classes - 1}, -1 ends a row"
        )
    counts = np.logical_and.accumulate(array >= 0, axis=1)
    named = np.zeros((array.shape[0], classes), bool)
    row, place = np.nonzero(counts)
    named[row, array[row, place]] = True
    return named, counts


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """`sum of max(0, 1 - input[y] + input[c]) / C` over the labels y and the other classes c of each sample, averaged.

    Each row of `target` lists labels, ended by -1. Shapes: `(N, C)`, `(N, C)` -> `()`, or `(N,)` for reduction "none".
    Raises RuntimeError for
    shapes and classes that do not fit.
    """
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction("multilabel_margin_loss", reduction)
    if input.shape != target.shape or input.ndim > 2 or not input.shape[-1:].numel():
        raise RuntimeError(
            "multilabel_margin_loss: expected non-empty 1D or 2D input and target of one shape, got "
            f"{shape_text(input.shape)} and "
            f"inconsistent target size {shape_text(target.shape)}"
        )
    classes = input.shape[-1] if input.ndim else 1
    rows, labels = input.reshape(-1, classes), target.reshape(-1, classes)
    named, counts = (from_numpy(x).to(input.device) for x in _labels(labels, classes))
    own = rows.gather(1, labels.masked_fill(~counts, 0).to(dtypes.int64))
    gaps = (1 - own.unsqueeze(2) + rows.unsqueeze(1)).clamp(min=0)
    loss = gaps.masked_fill(~counts.unsqueeze(2) | named.unsqueeze(1), 0).sum((1, 2)) / classes
    return reduced("multilabel_margin_loss", loss.reshape(input.shape[:-1]), reduction)


@function(namespace="nn.functional", method=False, out=False)
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean over classes of `-(target log(sigmoid(input)) + (1 - target) log(sigmoid(-input)))`, averaged.

    Shapes: `(N, C)`, `(N, C)` -> `()`, or `(N,)` for reduction "none". Raises RuntimeError when they do not broadcast.
    """
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced("multilabel_soft_margin_loss", loss.mean(-1), legacy_reduction(reduction, size_average, reduce))
