"""Matrix products, convolutions, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.onnx.builder import Builder, Ref, is_open
from rushlight.onnx.table import refuse, row


@row("matmul")
def matmul(o: Builder, a: Ref, b: Ref) -> Ref:
    kind = a.dtype
    wide = _multiplied_in(kind)
    return o.cast(o.MatMul(o.cast(a, wide), o.cast(b, wide)), kind)


def _multiplied_in(kind: dtypes.dtype) -> dtypes.dtype:
    """MatMul is for floats, and for integers of at least 32 bits, which hold the products of smaller ones."""
    return kind if kind.is_floating_point or kind.itemsize >= 4 else dtypes.int32


@row("linear")
def linear(o: Builder, x: Ref, weight: Ref, bias: Ref | None) -> Ref:
    kind, wide = x.dtype, _multiplied_in(x.dtype)
    if x.ndim == weight.ndim == 2 and kind.is_floating_point and (bias is None or bias.ndim <= 1):
        return o.Gemm(x, weight, bias, transB=1)
    x, weight = o.cast(x, wide), o.cast(weight, wide)
    product = o.MatMul(x, o.Transpose(weight, perm=[1, 0]) if weight.dtype and _rank(weight) == 2 else weight)
    return o.cast(product if bias is None else o.Add(product, o.cast(bias, wide)), kind)


def _rank(x: Ref) -> int:
    return x.ndim if x.meta is not None else 2


@row("conv")
def conv(o: Builder, x: Ref, weight: Ref, bias: Ref | None, *, stride: tuple, padding: tuple, dilation: tuple,
         groups: int) -> Ref:
    return o.Conv(x, weight, bias, kernel_shape=list(weight.shape[2:]), strides=list(stride), dilations=list(dilation),
                  pads=[*padding, *padding], group=groups)


@row("conv_transpose")
def conv_transpose(o: Builder, x: Ref, weight: Ref, bias: Ref | None, *, stride: tuple, padding: tuple,
                   output_padding: tuple, dilation: tuple, groups: int) -> Ref:
    return o.ConvTranspose(x, weight, bias, kernel_shape=list(weight.shape[2:]), strides=list(stride),
                           dilations=list(dilation), pads=[*padding, *padding], output_padding=list(output_padding),
                           group=groups)


@row("attention")
def attention(o: Builder, query: Ref, key: Ref, value: Ref, mask: Ref | None, scale: Any, *, causal: bool
              ) -> tuple[Ref, Ref]:
    ndim, kind = query.ndim, query.dtype
    wide = dtypes.float32 if kind in dtypes.HALF else kind
    q, k, v = (o.cast(x, wide) for x in (query, key, value))
    scores = o.MatMul(o.Mul(q, o.cast(scale, wide) if isinstance(scale, Ref) else scale), o.swap(k, ndim, -1, -2))
    if causal:
        scores = o.Where(_triangle(o, query.shape[-2], key.shape[-2]), scores, -math.inf)
    elif mask is not None:
        scores = o.Where(mask, scores, -math.inf) if mask.dtype is dtypes.bool else o.Add(scores, o.cast(mask, wide))
    probabilities = o.Softmax(scores, axis=-1)
    log_sum = o.ReduceLogSumExp(scores, (-1,), keepdims=1)
    if mask is not None and not causal:  # rows without any key give zeros
        hidden = o.cast(o.Equal(scores, -math.inf), dtypes.int32)
        nothing = o.cast(o.ReduceMin(hidden, (-1,), keepdims=1), dtypes.bool)
        probabilities = o.Where(nothing, o.number(0, wide), probabilities)
        log_sum = o.Where(nothing, o.number(math.inf, wide), log_sum)
    return o.cast(o.MatMul(probabilities, v), kind), log_sum


def _triangle(o: Builder, rows: Any, columns: Any) -> Ref:
    """A mask that is True up to the diagonal."""
    if not is_open(rows) and not is_open(columns):
        return o.constant(np.tri(rows, columns, dtype=bool))
    places = [o.Range(o.number(0, dtypes.int64), o.squeeze(o.sizes((n,)), 0), o.number(1, dtypes.int64))
              for n in (rows, columns)]
    return o.GreaterOrEqual(o.unsqueeze(places[0], 1), places[1])


@row("det")
def det(o: Builder, x: Ref) -> Ref:
    return o.Det(x)


@row("tril")
def tril(o: Builder, x: Ref, *, diagonal: int) -> Ref:
    return _trilu(o, x, diagonal, 0)


@row("triu")
def triu(o: Builder, x: Ref, *, diagonal: int) -> Ref:
    return _trilu(o, x, diagonal, 1)


def _trilu(o: Builder, x: Ref, diagonal: int, upper: int) -> Ref:
    return o.Trilu(x, o.number(diagonal, dtypes.int64), upper=upper)


refuse(
    "ONNX has no operators for decompositions of matrices",
    "eig", "eigh", "geqrf", "ldl_factor", "ldl_solve", "lstsq", "lu_factor", "lu_permutation", "matrix_exp", "pinv",
    "qr", "svd",
)  # fmt: skip
