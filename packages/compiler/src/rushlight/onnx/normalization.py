"""Normalizations and losses over classes."""

from __future__ import annotations

from typing import Any

from rushlight.core import dtypes
from rushlight.onnx.builder import Builder, Ref
from rushlight.onnx.reduction import reduced
from rushlight.onnx.table import row


def _wide(kind: dtypes.dtype) -> dtypes.dtype:
    return dtypes.float32 if kind in dtypes.HALF else kind


@row("layer_norm")
def layer_norm(o: Builder, x: Ref, weight: Ref | None, bias: Ref | None, eps: Any, *, dims: int
               ) -> tuple[Ref, Ref, Ref]:
    kind, axis = x.dtype, x.ndim - dims
    scale = weight if weight is not None else o.Expand(o.number(1, kind), o.sizes(x.shape[axis:]))
    result = o.LayerNormalization(x, scale, bias, axis=axis, epsilon=float(eps))
    over = tuple(range(axis, x.ndim))
    wide = o.cast(x, _wide(kind))
    mean = reduced(o, "ReduceMean", wide, over, True)
    centred = o.Sub(wide, mean)
    variance = reduced(o, "ReduceMean", o.Mul(centred, centred), over, True)
    return result, mean, o.Reciprocal(o.Sqrt(o.Add(variance, float(eps))))


def along_channels(o: Builder, x: Ref, ndim: int) -> Ref:
    """A vector of channels, shaped to broadcast with (N, C, *)."""
    return x if ndim < 3 else o.Reshape(x, o.sizes((-1, *(1,) * (ndim - 2))))


@row("batch_norm")
def batch_norm(o: Builder, x: Ref, weight: Ref | None, bias: Ref | None, eps: Any) -> tuple[Ref, Ref, Ref]:
    kind, over = x.dtype, (0, *range(2, x.ndim))
    wide = o.cast(x, _wide(kind))
    mean = o.ReduceMean(wide, over, keepdims=0)
    centred = o.Sub(wide, along_channels(o, mean, x.ndim))
    variance = o.ReduceMean(o.Mul(centred, centred), over, keepdims=0)
    rstd = o.Reciprocal(o.Sqrt(o.Add(variance, eps if isinstance(eps, Ref) else float(eps))))
    result = o.Mul(centred, along_channels(o, rstd, x.ndim))
    if weight is not None:
        result = o.Mul(result, along_channels(o, o.cast(weight, _wide(kind)), x.ndim))
    if bias is not None:
        result = o.Add(result, along_channels(o, o.cast(bias, _wide(kind)), x.ndim))
    return o.cast(result, kind), mean, variance


@row("nll_loss")
def nll_loss(o: Builder, x: Ref, target: Ref, weight: Ref | None, *, ignore_index: int, reduction: str) -> Ref:
    single = x.ndim == 1
    scores = o.unsqueeze(x, 0) if single else x
    classes = o.reshape(o.cast(target, dtypes.int64), (1,)) if single else o.cast(target, dtypes.int64)
    loss = o.NegativeLogLikelihoodLoss(scores, classes, weight, ignore_index=ignore_index, reduction=reduction)
    return o.reshape(loss, target.shape if reduction == "none" else ()) if single and reduction == "none" else loss


@row("cross_entropy")
def cross_entropy(o: Builder, x: Ref, target: Ref, weight: Ref | None, *, ignore_index: int, reduction: str
                  ) -> tuple[Ref, Ref, Ref]:
    axis = min(1, x.ndim - 1)
    log_probabilities = Ref(o.LogSoftmax(x, axis=axis).name, x.dtype, x.meta)
    loss = nll_loss(o, log_probabilities, target, weight, ignore_index=ignore_index, reduction=reduction)
    wide = o.cast(x, _wide(x.dtype))
    largest = o.ReduceMax(wide, (axis,), keepdims=1)
    rest = o.ReduceLogSumExp(o.Sub(wide, largest), (axis,), keepdims=0)
    return loss, o.reshape(largest, target.shape), o.reshape(rest, target.shape)

