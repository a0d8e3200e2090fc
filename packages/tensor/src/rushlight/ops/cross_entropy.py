"""Losses of classification with class indices: cross_entropy and nll_loss."""

from __future__ import annotations

import numpy as np

from rushlight.core import checks, dtypes
from rushlight.core.declare import structured
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.native import of_loops
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import cross_entropy as cpu
from rushlight.kernels.cpu import lines, softmax, targets
from rushlight.ops.softmax import log_softmax_backward_op, log_softmax_op

REDUCTIONS = ("none", "mean", "sum")

_X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3) ** 3
_T = np.array([0, 2, -100, 1])
_W = np.array([0.5, 1, 2], np.float32)
_IMAGE, _IMAGE_T = np.linspace(-2, 1, 24, dtype=np.float32).reshape(2, 3, 4), np.array([[0, 1, 2, 1], [2, 2, 0, -100]])


def check_reduction(name: str, reduction: str) -> None:
    """ValueError for an unknown reduction."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"{name}: {reduction!r} is not a valid value for reduction; it takes 'none', 'mean' or 'sum'")


def legacy_reduction(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    """The reduction that the old arguments size_average and reduce mean, if they are given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


# The ops see classes in dimension 1 (dimension 0 of a 1-D input); `mean` divides by the weights of the targets that
# count.


def _infer_loss(name: str, input: Meta, target: Meta, weight: Meta | None, reduction: str) -> Meta:
    checks.floating(name, "input", input)
    if target.dtype not in (dtypes.int64, dtypes.uint8):
        raise RuntimeError(
            f"{name}: expected target dtype to be int64 or uint8, got {target.dtype.name}; convert it with .long()"
        )
    if not input.ndim:
        raise ValueError(f"{name}: input must have a dimension of classes, got a 0-dim tensor")
    wanted = input.shape[:1] + input.shape[2:] if input.ndim > 1 else ()
    if input.ndim > 1 and target.ndim and target.shape[0] != input.shape[0]:
        raise ValueError(
            f"{name}: expected the batch size of input and target to match, got {shape_text(input.shape)} and "
            f"{shape_text(target.shape)}"
        )
    if target.shape != wanted and not (input.ndim == 1 and target.shape == (1,)):
        raise RuntimeError(
            f"{name}: target must have shape {shape_text(wanted)} for input of shape {shape_text(input.shape)}, got "
            f"{shape_text(target.shape)}"
        )
    classes = input.shape[min(1, input.ndim - 1)]
    if weight is not None:
        if weight.shape != (classes,):
            raise RuntimeError(
                f"{name}: weight must be defined for all {classes} classes or none, got shape "
                f"{shape_text(weight.shape)}"
            )
        checks.same_dtype(name, input=input, weight=weight)
    return meta(input.dtype, target.shape if reduction == "none" else (), None, input.device)


# nll_loss: linear in its input, so its backward is its transpose and each is the other's gradient


def _infer_nll(input: Meta, target: Meta, weight: Meta | None, *, ignore_index: int, reduction: str) -> Meta:
    return _infer_loss("nll_loss", input, target, weight, reduction)


def _reference_nll(x, target, weight, ignore_index, reduction):
    x = x.reshape(-1, x.shape[-1]) if x.ndim == 1 else np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])
    w = np.ones(x.shape[1]) if weight is None else weight
    terms = [(0, 0) if t == ignore_index else (-w[t] * row[t], w[t]) for row, t in zip(x, target.ravel())]
    loss = np.array([a for a, _ in terms]).reshape(target.shape)
    return loss if reduction == "none" else loss.sum() / (sum(b for _, b in terms) if reduction == "mean" else 1)


nll_loss_op = structured(
    "nll_loss",
    _infer_nll,
    doc="`-weight[target] * input[target]` of log-probabilities.",
    samples=lambda: [
        Sample((_X, _T, _W), (-100, "mean")),
        Sample((_X, _T, None), (-100, "none")),
        Sample((_IMAGE, _IMAGE_T, _W), (-100, "sum")),
    ],
    errors=lambda: [
        ErrorSample((_X, _T + 5, None), (-95, "mean"), IndexError, "out of bounds"),
        ErrorSample((_X, _T[:3], None), (-100, "mean"), ValueError, "batch size"),
    ],
    reference=_reference_nll,
)


@kernel(nll_loss_op, "cpu")
@of_loops
def _nll(x: np.ndarray, target: np.ndarray, weight: np.ndarray | None, ignore_index: int, reduction: str) -> np.ndarray:
    x = checks.widened(x)
    index, counts = targets.checked("nll_loss", target, x.shape[min(1, x.ndim - 1)], ignore_index)
    return targets.reduced(-targets.pick(x, index), targets.factors(index, counts, weight, x.dtype), reduction)


def _infer_nll_backward(
    grad: Meta, target: Meta, weight: Meta | None, *, shape: tuple[int, ...], ignore_index: int, reduction: str
) -> Meta:
    return meta(grad.dtype, shape, None, grad.device)


nll_loss_backward_op = structured(
    "nll_loss_backward",
    _infer_nll_backward,
    doc="Gradient of `nll_loss`: `-weight[target] * grad` at the targets, else 0.",
    samples=lambda: [
        Sample((_W[0], _T, _W), ((4, 3), -100, "mean")),
        Sample((_X[:, 0], _T, None), ((4, 3), -100, "none")),
    ],
)


@kernel(nll_loss_backward_op, "cpu")
def _nll_backward(grad, target, weight, shape: tuple, ignore_index: int, reduction: str) -> np.ndarray:
    grad = checks.widened(grad)
    index, counts = targets.checked("nll_loss", target, shape[min(1, len(shape) - 1)], ignore_index)
    factors = targets.factors(index, counts, weight, grad.dtype)
    return targets.scattered(shape, index, -targets.spread(grad, factors, index, reduction))


# cross_entropy: the fused form keeps two numbers per target instead of all log-probabilities. One, the logarithm of the
# sum, would not do: of scores near 1000 it has four digits behind the point, and the gradient no more.


def _wide(dtype: dtypes.dtype) -> dtypes.dtype:
    return dtypes.float32 if dtype in dtypes.HALF else dtype


def _infer_cross_entropy(
    input: Meta, target: Meta, weight: Meta | None, *, ignore_index: int, reduction: str
) -> tuple[Meta, Meta, Meta]:
    loss = _infer_loss("cross_entropy", input, target, weight, reduction)
    part = meta(_wide(input.dtype), target.shape, None, input.device)
    return loss, part, part


def _cross_entropy_decomposition(input, target, weight, ignore_index: int, reduction: str):
    dim = min(1, input.ndim - 1)
    log_probabilities = log_softmax_op.apply((input,), (dim,))
    loss = nll_loss_op.apply((log_probabilities, target, weight), (ignore_index, reduction))
    wide = input.to(_wide(input.dtype))
    largest = wide.amax(dim, keepdim=True)
    largest = largest.masked_fill(~largest.isfinite(), 0.0)
    return loss, largest.reshape(target.shape), (wide - largest).logsumexp(dim).reshape(target.shape)


cross_entropy_op = structured(
    "cross_entropy",
    _infer_cross_entropy,
    doc="`nll_loss(log_softmax(input))`; per target the largest score and what the log of the sum adds to it.",
    samples=lambda: [
        Sample((_X, _T, _W), (-100, "mean")),
        Sample((_X, _T, None), (-100, "none")),
        Sample((_IMAGE, _IMAGE_T, None), (-100, "sum")),
        Sample((_X[0], _T[1], None), (-100, "mean")),
    ],
    errors=lambda: [
        ErrorSample((_X, _T + 5, None), (-95, "mean"), IndexError, "out of bounds"),
        ErrorSample((_X, _T, _W[:2]), (-100, "mean"), RuntimeError, "all 3 classes"),
    ],
    decomposition=_cross_entropy_decomposition,
)


@kernel(cross_entropy_op, "cpu")
@of_loops
def _cross_entropy(x, target, weight, ignore_index: int, reduction: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    axis = min(1, x.ndim - 1)
    index, counts = targets.checked("cross_entropy", target, x.shape[axis], ignore_index)
    largest, rest = [part.reshape(target.shape) for part in softmax.log_sum_parts(x, (axis,))]
    loss = (largest - targets.pick(x, index).astype(rest.dtype, copy=False)) + rest
    return targets.reduced(loss, targets.factors(index, counts, weight, loss.dtype), reduction), largest, rest


def _by_line(x: np.ndarray, ndim: int, axis: int) -> np.ndarray:
    """One element for each line of classes: with size 1 along their dimension."""
    x = x if x.dtype != np.uint8 else x.astype(np.int64)
    return np.ascontiguousarray(x).reshape(x.shape[:axis] + (1,) + x.shape[axis:] if ndim > 1 else 1)


def _infer_cross_entropy_backward(
    grad: Meta, input: Meta, target: Meta, weight: Meta | None, largest: Meta, rest: Meta, *, ignore_index: int,
    reduction: str,
) -> Meta:  # fmt: skip
    return meta(input.dtype, input.shape, None, input.device)


def _backward_decomposition(grad, input, target, weight, largest, rest, ignore_index: int, reduction: str):
    dim = min(1, input.ndim - 1)
    inner = nll_loss_backward_op.apply((grad, target, weight), (input.shape, ignore_index, reduction))
    return log_softmax_backward_op.apply((inner, log_softmax_op.apply((input,), (dim,))), (dim,))


cross_entropy_backward_op = structured(
    "cross_entropy_backward",
    _infer_cross_entropy_backward,
    doc="Gradient of `cross_entropy`: softmax minus one-hot target, weighted.",
    samples=lambda: [
        Sample((_W[0], _X, _T, _W, _X.max(1), np.log(np.exp(_X - _X.max(1)[:, None]).sum(1))), (-100, "mean"))
    ],
    decomposition=_backward_decomposition,
)


@kernel(cross_entropy_backward_op, "cpu")
@of_loops
def _cross_entropy_backward(
    grad, x, target, weight, largest, rest, ignore_index: int, reduction: str
) -> np.ndarray:  # fmt: skip
    grad, axis = checks.widened(grad), min(1, x.ndim - 1)
    index, counts = targets.checked("cross_entropy", target, x.shape[axis], ignore_index)
    scale = targets.spread(grad, targets.factors(index, counts, weight, grad.dtype), index, reduction)
    if lines.fits(x):
        classes, top, norm, scales = [_by_line(e, x.ndim, axis) for e in (target, largest, rest, scale)]
        return cpu.cross_entropy_backward(x, classes, ignore_index, top, norm, scales, axis)
    one_each = x.shape[:axis] + (1,) + x.shape[axis + 1 :]
    result = checks.widened(x) - largest.reshape(one_each)
    result -= rest.reshape(one_each)
    np.exp(result, out=result)
    result *= scale.reshape(one_each)
    if counts is not None:  # an ignored row of infinities must not give NaN
        result = np.where(_by_line(counts, x.ndim, axis), result, 0)
    if x.ndim == 1:
        index, scale = index.reshape(()), scale.reshape(())
    targets.put(result, index, -scale)
    return result


# Functions


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of the classes `target` under log-probabilities: `-weight[target] * input[target]`.

    Shapes: `(N, C, *)` and `(N, *)` -> `()`, or `(N, *)` for reduction "none". Raises IndexError for a class out of
    range, RuntimeError for
    a wrong dtype, ValueError for sizes that do not match.
    """
    reduction = legacy_reduction(reduction, size_average, reduce)
    check_reduction("nll_loss", reduction)
    return nll_loss_op.apply((input, target, weight), (ignore_index, reduction))


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of scores and classes: `-log(softmax(input)[target])`, averaged; targets are class indices or
    probabilities.

    Shapes: `(N, C, *)` and `(N, *)` indices or `(N, C, *)` probabilities -> `()`, or `(N, *)` for reduction "none".
    Raises IndexError for
    a class out of range, RuntimeError for a wrong dtype or shape, ValueError for sizes that do not match.

    Example:
        >>> import rushlight
        >>> rushlight.nn.functional.cross_entropy(rushlight.zeros(2, 4), rushlight.tensor([1, 3]))
        tensor(1.3863)
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(reduction, size_average, reduce)
    if reduction not in REDUCTIONS:
        check_reduction("cross_entropy", reduction)
    if label_smoothing == 0.0 and target.shape != input.shape:
        return cross_entropy_op.apply((input, target, weight), (ignore_index, reduction))[0]
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"cross_entropy: label_smoothing must be between 0.0 and 1.0, got {label_smoothing}")
    if target.shape == input.shape:
        if ignore_index >= 0:
            raise RuntimeError(
                "cross_entropy: ignore_index is not supported for floating point target; leave it at -100"
            )
        return _probabilities(input, target, weight, reduction, label_smoothing)
    return _smoothed(input, target, weight, ignore_index, reduction, label_smoothing)


def _by_class(weight: Tensor, ndim: int, dim: int) -> Tensor:
    """Class weights shaped to multiply scores."""
    return weight.reshape((-1,) + (1,) * (ndim - dim - 1))


def _probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float
) -> Tensor:
    if not target.is_floating_point():
        raise RuntimeError(
            f"cross_entropy: expected floating point dtype for target with class probabilities, got {target.dtype.name}"
        )
    dim = min(1, input.ndim - 1)
    if weight is not None and weight.shape != (input.shape[dim],):
        raise RuntimeError(
            f"cross_entropy: weight must be defined for all {input.shape[dim]} classes or none, got shape "
            f"{shape_text(weight.shape)}"
        )
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / input.shape[dim]
    terms = log_softmax_op.apply((input,), (dim,)) * target
    if weight is not None:
        terms = terms * _by_class(weight, input.ndim, dim)
    if reduction == "none":
        return -terms.sum(dim)
    total = -terms.sum()
    return total if reduction == "sum" else total / (input.numel() // input.shape[dim])


def _smoothed(
    input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, label_smoothing: float
) -> Tensor:
    dim = min(1, input.ndim - 1)
    log_probabilities = log_softmax_op.apply((input,), (dim,))
    sharp = nll_loss_op.apply((log_probabilities, target, weight), (ignore_index, reduction))
    every = log_probabilities if weight is None else log_probabilities * _by_class(weight, input.ndim, dim)
    ignored = target == ignore_index
    smooth = -every.sum(dim)
    smooth = smooth.masked_fill(ignored.reshape(smooth.shape), 0.0)
    if reduction != "none":
        smooth = smooth.sum()
    if reduction == "mean":
        safe = target.masked_fill(ignored, 0)
        counted = (~ignored).to(input.dtype) if weight is None else weight[safe].masked_fill(ignored, 0.0)
        smooth = smooth / counted.sum()
    return sharp * (1 - label_smoothing) + smooth * (label_smoothing / input.shape[dim])
