"""Connectionist temporal classification loss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rushlight.core import dtypes
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops.create import from_numpy
from rushlight.ops.join import stack
from rushlight.ops.loss import CODES, reduced
from rushlight.ops.padding import pad_constant

# log(0): far below any sum of log-probabilities, yet finite, so that differences of impossible paths are not NaN.
_NEVER = -1e30
_IMPOSSIBLE = 1e29


def _lengths(name: str, value: Tensor | Sequence[int], count: int, most: int) -> np.ndarray:
    array = np.atleast_1d(value.numpy(force=True) if isinstance(value, Tensor) else np.array(value))
    if array.dtype.kind not in "iu":
        raise RuntimeError(f"ctc_loss: {name} must be integral, got {array.dtype}")
    if array.shape != (count,):
        raise RuntimeError(f"ctc_loss: {name} must be of size batch_size {count}, got {array.shape}")
    if count and (array.min() < 0 or array.max() > most):
        raise RuntimeError(
            f"ctc_loss: expected {name} to have values between 0 and {most}, got {array.min()} to {array.max()}"
        )
    return array.astype(np.int64)


def _labels(targets: Tensor, lengths: np.ndarray, blank: int, classes: int) -> np.ndarray:
    """Targets `(N, 2 S + 1)` with blanks between and around the labels."""
    array = targets.numpy(force=True)
    if array.dtype.kind not in "iu":
        raise RuntimeError(f"ctc_loss: targets must be integral, got {array.dtype}")
    longest = int(lengths.max(initial=0))
    result = np.full((len(lengths), 2 * longest + 1), blank, np.int64)
    at = 0
    for i, n in enumerate(lengths):
        row = array[i, :n] if array.ndim == 2 else array[at : at + n]
        at += n
        result[i, 1 : 2 * n : 2] = row
    if result.size and (result.min() < 0 or result.max() >= classes):
        raise RuntimeError(
            f"ctc_loss: targets must lie between 0 and {classes - 1}, got {result.min()} to {result.max()}"
        )
    return result


def _likelihoods(
    log_probs: Tensor, labels: np.ndarray, input_lengths: np.ndarray, target_lengths: np.ndarray, blank: int
) -> Tensor:
    """Log-likelihood of each target: sums over all paths, step by step."""
    steps, n, _ = log_probs.shape
    width = labels.shape[1]
    index = from_numpy(labels).to(log_probs.device)
    scores = log_probs.gather(2, index.unsqueeze(0).expand(steps, n, width))
    skip = np.zeros(labels.shape, bool)  # two labels in a row that differ need no blank between
    skip[:, 2:] = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    no_skip = from_numpy(~skip).to(log_probs.device)
    late = from_numpy(np.broadcast_to(np.arange(width) > 1, labels.shape).copy()).to(log_probs.device)
    alpha = scores[0].masked_fill(late, _NEVER)
    for t in range(1, int(input_lengths.max(initial=0))):
        one = pad_constant(alpha, (1, -1), _NEVER)
        two = pad_constant(alpha, (2, -2), _NEVER).masked_fill(no_skip, _NEVER) if width > 1 else one
        moved = stack((alpha, one, two) if width > 1 else (alpha, one)).logsumexp(0) + scores[t]
        done = from_numpy((t >= input_lengths)[:, None])
        alpha = alpha.where(done.to(log_probs.device), moved)
    ends = from_numpy(np.stack([2 * target_lengths, np.maximum(2 * target_lengths - 1, 0)], 1)).to(log_probs.device)
    last = alpha.gather(1, ends)
    no_label = from_numpy(np.stack([np.zeros(n, bool), target_lengths == 0], 1)).to(log_probs.device)
    return last.masked_fill(no_label, _NEVER).logsumexp(1)


def _ctc(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int,
    reduction: str,
    zero_infinity: bool,
) -> Tensor:
    if log_probs.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(f"ctc_loss: log_probs must be float32 or float64, got {log_probs.dtype.name}")
    if log_probs.ndim not in (2, 3):
        raise RuntimeError(
            f"ctc_loss: log_probs must have shape (T, N, C) or (T, C), got {shape_text(log_probs.shape)}"
        )
    batched = log_probs.ndim == 3
    x = log_probs if batched else log_probs.unsqueeze(1)
    if not batched and targets.ndim == 1:
        targets = targets.unsqueeze(0)
    steps, n, classes = x.shape
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss: blank must be in label range 0 to {classes - 1}, got {blank}")
    inputs = _lengths("input_lengths", input_lengths, n, steps)
    most = targets.shape[-1]
    lengths = _lengths("target_lengths", target_lengths, n, most)
    if targets.ndim == 1 and lengths.sum() > most:
        raise RuntimeError(
            f"ctc_loss: targets has {most} elements, fewer than target_lengths add up to ({lengths.sum()})"
        )
    loss = -_likelihoods(x, _labels(targets, lengths, blank, classes), inputs, lengths, blank)
    if x.requires_grad:
        # Every step counts as a distribution that sums to 1. That changes no value, but gives the gradient that PyTorch
        # defines for
        # log_probs; through log_softmax both gradients are the same.
        used = from_numpy(np.arange(steps)[:, None, None] < inputs[:, None]).to(x.device)
        total = (x.exp() * used).sum((0, 2))
        loss = loss + (total - total.detach())
    impossible = loss.detach() > _IMPOSSIBLE
    loss = loss.masked_fill(impossible, 0.0 if zero_infinity else float("inf"))
    if reduction == "mean":
        loss = loss / from_numpy(np.maximum(lengths, 1).astype(loss.dtype.numpy)).to(loss.device)
    loss = reduced("ctc_loss", loss, reduction)
    return loss.squeeze(0) if not batched and reduction == "none" else loss


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Negative log-likelihood of label sequences under all their alignments with `log_probs`.

    Shapes: `(T, N, C)`, targets `(N, S)` or all in one row, lengths `(N,)` -> `()`, or `(N,)` for reduction "none";
    "mean" divides each loss by the
    length of its target. Raises RuntimeError for shapes, labels or lengths that do not fit.

    Source: Graves et al., Connectionist temporal classification, 2006.
    """
    return _ctc(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)


@function(name="ctc_loss", method=False, out=False)
def _ctc_root(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """`nn.functional.ctc_loss` with the reduction as a number: 0 none, 1 mean, 2 sum. Raises as that does."""
    return _ctc(log_probs, targets, input_lengths, target_lengths, blank, CODES[reduction], zero_infinity)
