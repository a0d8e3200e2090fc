"""Losses of regression and of pairs, written in ops. Those with class indices are in cross_entropy.py and
margin_loss.py."""

from __future__ import annotations

import math

from rushlight.core import checks, dtypes
from rushlight.core import scalar as s
from rushlight.core.declare import broadcast_shapes_of, elementwise
from rushlight.core.errors import shape_text, warn_caller
from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops.activation import logsigmoid
from rushlight.ops.cross_entropy import check_reduction, legacy_reduction

CODES = ("none", "mean", "sum")  # the functions at the root take the reduction as a number


def reduced(name: str, loss: Tensor, reduction: str) -> Tensor:
    """The loss terms averaged, summed, or as they are."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    check_reduction(name, reduction)
    return loss


def _check_sizes(name: str, input: Tensor, target: Tensor) -> None:
    """Warn when target only fits by broadcasting; RuntimeError when it does not even do that."""
    if input._meta.shape != target._meta.shape:
        broadcast_shapes_of(name, [input._meta, target._meta])
        warn_caller(
            f"{name}: Using a target size ({shape_text(target.shape)}) that is different to the input size "
            f"({shape_text(input.shape)}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size."
        )


def _error(input: Tensor, target: Tensor) -> Tensor:
    """`input - target`; a mask counts as zeros and ones beside numbers."""
    if dtypes.bool in (input.dtype, target.dtype):
        common = dtypes.result_dtype([input._meta, target._meta])
        input, target = input.to(common), target.to(common)
    return input - target


def _weighted(name: str, loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """Loss terms times weights; `mean` divides by the sum of the weights."""
    if weight is None:
        return reduced(name, loss, reduction)
    if weight.shape != loss.shape:
        raise ValueError(
            f"{name}: weight of shape {shape_text(weight.shape)} must have the shape {shape_text(loss.shape)} of the "
            "loss"
        )
    loss = loss * weight
    return loss.sum() / weight.sum() if reduction == "mean" else reduced(name, loss, reduction)


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Squared error `(input - target) ** 2`, averaged.

    Shapes: `(*)`, `(*)` -> `()`, or `(*)` for reduction "none". Raises RuntimeError when they do not broadcast.

    Example:
        >>> import rushlight
        >>> rushlight.nn.functional.mse_loss(rushlight.tensor([1.0, 2.0]), rushlight.tensor([1.0, 4.0]))
        tensor(2.)
    """
    _check_sizes("mse_loss", input, target)
    error = _error(input, target)
    return _weighted("mse_loss", error * error, weight, legacy_reduction(reduction, size_average, reduce))


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Absolute error `|input - target|`, averaged. Raises RuntimeError when the shapes do not broadcast."""
    _check_sizes("l1_loss", input, target)
    return _weighted("l1_loss", (input - target).abs(), weight, legacy_reduction(reduction, size_average, reduce))


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """`error ** 2 / 2` where `|error| <= delta`, else `delta * (|error| - delta / 2)`, averaged. Raises ValueError
    unless delta > 0."""
    if not isinstance(delta, (int, float)):
        raise TypeError(f"huber_loss: delta must be a float or int, got {type(delta).__name__}")
    if delta <= 0:
        raise RuntimeError(f"huber_loss: does not support non-positive values for delta, got {delta}")
    _check_sizes("huber_loss", input, target)
    error = _error(input, target)
    size = error.abs()
    loss = (error * error * 0.5).where(size < delta, (size - 0.5 * delta) * delta)
    return _weighted("huber_loss", loss, weight, reduction)


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """`error ** 2 / (2 beta)` where `|error| < beta`, else `|error| - beta / 2`, averaged. Raises RuntimeError for
    negative beta."""
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss: does not support negative values for beta, got {beta}")
    if beta == 0:
        return l1_loss(input, target, size_average, reduce, reduction)
    _check_sizes("smooth_l1_loss", input, target)
    error = _error(input, target)
    size = error.abs()
    loss = (error * error * (0.5 / beta)).where(size < beta, size - 0.5 * beta)
    return reduced("smooth_l1_loss", loss, legacy_reduction(reduction, size_average, reduce))


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """`log(1 + exp(-target * input))` for targets 1 and -1, averaged. Raises RuntimeError when the shapes do not
    broadcast."""
    return reduced("soft_margin_loss", -logsigmoid(target * input), legacy_reduction(reduction, size_average, reduce))


@elementwise(method=False, public=False, supports="float", name="binary_cross_entropy", domain=(0.0, 1.0))
def binary_cross_entropy_op(input, target):
    """`-(target log(input) + (1 - target) log(1 - input))` with logarithms of at least -100."""
    return -(s.maximum(s.log(input), -100) * target + s.maximum(s.log1p(-input), -100) * (1 - target))


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`-weight * (target log(input) + (1 - target) log(1 - input))` of probabilities, averaged; logarithms are at least
    -100.

    Shapes: `(*)`, `(*)` -> `()`, or `(*)` for reduction "none". Raises ValueError unless input and target have one
    shape, RuntimeError for
    values outside [0, 1].
    """
    reduction = legacy_reduction(reduction, size_average, reduce)
    if input.shape != target.shape:
        raise ValueError(
            f"binary_cross_entropy: target size {shape_text(target.shape)} must equal input size "
            f"{shape_text(input.shape)}; "
            "please ensure they have the same size"
        )
    if weight is not None:
        weight = weight.expand(broadcast_shapes_of("binary_cross_entropy", [weight._meta, target._meta]))
    if checks.found((input < 0) | (input > 1)):
        raise RuntimeError(
            "binary_cross_entropy: all elements of input should be between 0 and 1; use "
            "binary_cross_entropy_with_logits"
        )
    loss = binary_cross_entropy_op(input, target)
    return reduced("binary_cross_entropy", loss if weight is None else loss * weight, reduction)


def _with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: str
) -> Tensor:
    if input.shape != target.shape:
        raise ValueError(
            f"binary_cross_entropy_with_logits: target size {shape_text(target.shape)} must be the same as input size "
            f"{shape_text(input.shape)}"
        )
    log_sigmoid = logsigmoid(input)
    if pos_weight is None:
        loss = (1 - target) * input - log_sigmoid
    else:
        loss = (1 - target) * input - ((pos_weight - 1) * target + 1) * log_sigmoid
    return reduced("binary_cross_entropy_with_logits", loss if weight is None else loss * weight, reduction)


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`binary_cross_entropy(sigmoid(input), target)` without overflow; `pos_weight` scales the term of positive
    targets.

    Shapes: `(*)`, `(*)` -> `()`, or `(*)` for reduction "none". Raises ValueError unless input and target have one
    shape.
    """
    return _with_logits(input, target, weight, pos_weight, legacy_reduction(reduction, size_average, reduce))


@function(name="binary_cross_entropy_with_logits", method=False, out=False)
def _with_logits_root(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits` with the reduction as a number: 0 none, 1 mean, 2 sum. Raises as
    that does."""
    return _with_logits(input, target, weight, pos_weight, CODES[reduction])


def _kl(input: Tensor, target: Tensor, log_target: bool) -> Tensor:
    if log_target:
        return target.exp() * (target - input)
    return target.xlogy(target) - target * input


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """`target * (log(target) - input)` for log-probabilities `input`, averaged over elements, or over samples for
    "batchmean".

    Raises ValueError for an unknown reduction, RuntimeError when the shapes do not broadcast.
    """
    reduction = legacy_reduction(reduction, size_average, reduce)
    loss = _kl(input, target, log_target)
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.ndim else loss.sum()
    if reduction == "mean":
        warn_caller(
            "kl_div: reduction 'mean' divides the total loss by both the batch size and the support size; "
            "'batchmean' divides only by the batch size, as the definition does."
        )
    return reduced("kl_div", loss, reduction)


@function(name="kl_div", method=False, out=False)
def _kl_root(input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """`nn.functional.kl_div` with the reduction as a number: 0 none, 1 mean, 2 sum. Raises as that does."""
    return reduced("kl_div", _kl(input, target, log_target), CODES[reduction])


def _poisson(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: str) -> Tensor:
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduced("poisson_nll_loss", loss, reduction)


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of counts under a Poisson distribution: `exp(input) - target * input`, averaged.

    `input` is the rate itself without `log_input`; `full` adds Stirling's term. Raises ValueError for an unknown
    reduction.
    """
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction("poisson_nll_loss", reduction)
    return _poisson(input, target, log_input, full, eps, reduction)


@function(name="poisson_nll_loss", method=False, out=False)
def _poisson_root(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """`nn.functional.poisson_nll_loss` with the reduction as a number: 0 none, 1 mean, 2 sum."""
    return _poisson(input, target, log_input, full, eps, CODES[reduction])


@function(namespace="nn.functional", method=False, out=False)
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Negative log-likelihood under normal distributions: `(log(var) + (input - target) ** 2 / var) / 2`, averaged; var
    is at least eps.

    Raises ValueError for negative variances or a `var` of the wrong shape.
    """
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError(f"gaussian_nll_loss: var has negative entries: {var}")
        var = input.new_full(input.shape, var)
    elif checks.found(var < 0):
        raise ValueError("gaussian_nll_loss: var has negative entries; it holds variances, not their logarithms")
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif not (input.shape[:-1] == var.shape[:-1] and var.shape[-1:] == (1,)) and not _one_broadcast(input, var):
            raise ValueError(
                f"gaussian_nll_loss: var is of incorrect size {shape_text(var.shape)} for input "
                f"{shape_text(input.shape)}"
            )
    check_reduction("gaussian_nll_loss", reduction)
    var = var + (var.detach().clamp(min=eps) - var.detach())  # the gradient does not see the floor
    error = _error(input, target)
    loss = 0.5 * (var.log() + error * error / var)
    return reduced("gaussian_nll_loss", loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def _one_broadcast(input: Tensor, var: Tensor) -> bool:
    """Does var differ from input by a single dimension of size 1?"""
    if input.ndim != var.ndim:
        return False
    return (
        all(a == b or b == 1 for a, b in zip(input.shape, var.shape))
        and sum(a != b for a, b in zip(input.shape, var.shape)) == 1
    )
