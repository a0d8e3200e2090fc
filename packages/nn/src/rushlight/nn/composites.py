"""Functions of `nn.functional` that are made of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """`softmax((logits + gumbel noise) / tau)`: a random choice that has a gradient (Jang et al. 2016).

    `hard` gives one-hot vectors whose gradient is that of the soft ones. `eps` is ignored.

    Example:
        >>> import rushlight
        >>> rushlight.nn.functional.gumbel_softmax(rushlight.zeros(2, 3), hard=True).sum(1)
        tensor([1., 1.])
    """
    noise = -rushlight.empty_like(logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    one_hot = rushlight.zeros_like(logits).scatter_(dim, soft.argmax(dim, keepdim=True), 1.0)
    return one_hot - soft.detach() + soft


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """`x` where positive, else `a * x` with `a` drawn uniformly from `[lower, upper]` in training and their mean
    otherwise.

    Raises RuntimeError when `lower` is greater than `upper`.
    """
    if not lower <= upper:
        raise RuntimeError(
            f"rrelu: lower bound should be less than or equal to the upper bound, got {lower} and {upper}"
        )
    slope = rushlight.empty_like(input).uniform_(lower, upper) if training else (lower + upper) / 2
    result = rushlight.where(input >= 0, input, input * slope)
    return input.copy_(result) if inplace else result


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """`rrelu` in place."""
    return rrelu(input, lower, upper, training, inplace=True)


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """How PyTorch splits `linear_cross_entropy` into chunks; rushlight computes it in one piece, whatever they say."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None


def check_classes(classes: int, weight: Tensor | None, label_smoothing: float) -> None:
    """Raise RuntimeError for class weights or a smoothing that do not fit."""
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(f"linear_cross_entropy: expected weight shape to be {(classes,)}, got {tuple(weight.shape)}")
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(
            f"linear_cross_entropy: expected label_smoothing to be in range [0, 1], got {label_smoothing}"
        )


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """`cross_entropy(linear(input, linear_weight, linear_bias), target)`.

    Shapes: input `(n, in)` or `(in)`, linear_weight `(classes, *, in)`, linear_bias `(classes, *)`, target `(n, *)`
    indices or
    `(n, classes, *)` probabilities -> `()`, or `(n, *)` for reduction "none". Raises RuntimeError or ValueError for
    sizes or options that do not fit.
    """
    if input.ndim not in (1, 2):
        raise RuntimeError(f"linear_cross_entropy: expected input (n, in) or (in), got shape {tuple(input.shape)}")
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            f"linear_cross_entropy: expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    classes, *outward, _ = linear_weight.shape
    check_classes(classes, weight, label_smoothing)
    if outward and input.ndim == 1:
        raise RuntimeError("linear_cross_entropy: a linear_weight with further dimensions needs batched input (n, in)")
    if input.ndim > 1 and target.ndim and input.shape[0] != target.shape[0]:
        raise ValueError(
            f"linear_cross_entropy: expected input batch_size ({input.shape[0]}) to match target batch_size "
            f"({target.shape[0]})"
        )
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    scores = F.linear(input, linear_weight.reshape(-1, linear_weight.shape[-1]), bias)
    scores = scores.reshape(*input.shape[:-1], classes, *outward)
    if scores.shape == target.shape and ignore_index is not None:
        raise RuntimeError("linear_cross_entropy: ignore_index cannot be specified when target contains probabilities")
    return F.cross_entropy(
        scores,
        target,
        weight=weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:
    """Matrix products of groups: 3-D operands pair by pair, or a 2-D operand cut at the ends `offs` into the groups.

    Shapes: `(g, m, k) @ (g, k, n)`; `(m, k) @ (g, k, n)` with rows cut; `(g, m, k) @ (k, n)` with columns cut; `(m, k)
    @ (k, n)` with `k` cut -> `(g, m, n)`. Raises RuntimeError when a 2-D operand comes without `offs`, or with a bias.
    """
    if bias is not None:
        raise RuntimeError("grouped_mm: bias is not supported; add it to the result")
    if mat_a.ndim == 3 and mat_b.ndim == 3:
        result = mat_a @ mat_b
    elif offs is None:
        raise RuntimeError("grouped_mm: a 2-D operand needs offs, the end of each group")
    else:
        ends = offs.tolist()
        spans = list(zip([0, *ends[:-1]], ends))
        if mat_a.ndim == 2 and mat_b.ndim == 2:
            result = rushlight.stack([mat_a[:, a:b] @ mat_b[a:b] for a, b in spans])
        elif mat_a.ndim == 2:
            result = rushlight.cat([mat_a[a:b] @ group for (a, b), group in zip(spans, mat_b)])
        else:
            result = rushlight.cat([group @ mat_b[:, a:b] for (a, b), group in zip(spans, mat_a)], 1)
    return result if out_dtype is None else result.to(out_dtype)
