"""Fourier transforms: the operator DFT, of one dimension after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.onnx.builder import Builder, Ref, is_open
from rushlight.onnx.complex_numbers import Pair, pair
from rushlight.onnx.table import pair_row


def _along(o: Builder, parts: Sequence[Ref], shape: Sequence[Any], dim: int) -> Ref:
    """A tensor (batch, size, parts) of what lies along a dimension."""
    order = [*[d for d in range(len(shape)) if d != dim], dim]
    columns = [o.unsqueeze(o.Reshape(o.transpose(x, order), o.sizes((-1, shape[dim]))), 2) for x in parts]
    return o.Concat(*columns, axis=2) if len(columns) > 1 else columns[0]


def _back(o: Builder, x: Ref, shape: Sequence[Any], dim: int) -> list[Ref]:
    """The parts of such a tensor, in a shape whose size along the dimension is a new one."""
    rest = [d for d in range(len(shape)) if d != dim]
    order = sorted(range(len(shape)), key=[*rest, dim].__getitem__)
    extents = o.sizes([*[shape[d] for d in rest], shape[dim]])
    return [o.transpose(o.Reshape(o.Gather(x, o.number(i, dtypes.int64), axis=2), extents), order) for i in range(2)]


def _transformed(o: Builder, x: Ref, inverse: bool) -> Ref:
    """DFT over dimension 1 of 3: versions of the operator say in different ways where that is, but all take it unless
    told otherwise.
    """
    made: Ref = o.DFT(x, inverse=int(inverse) or None)
    return made


def _each(o: Builder, parts: list[Ref], shape: Sequence[Any], dims: Sequence[int], inverse: bool) -> list[Ref]:
    for d in dims:
        parts = _back(o, _transformed(o, _along(o, parts, shape, d), inverse), shape, d)
    return parts


def _scaled(o: Builder, x: Ref, sizes: Sequence[Any], power: float) -> Ref:
    """The value times a power of a product of sizes."""
    if not power:
        return x
    if any(map(is_open, sizes)):
        total = o.cast(o.ReduceProd(o.sizes(sizes), keepdims=0), x.dtype)
        return o.Mul(x, o.Pow(total, power))
    return o.Mul(x, float(math.prod(sizes)) ** power)


@pair_row("fft_c2c")
def c2c(o: Builder, z: Pair, *, dims: tuple, scaling: float, forward: bool) -> Pair:
    parts = _each(o, [z.real, z.imag], z.shape, dims, not forward)
    power = -scaling if forward else 1 - scaling  # an inverse DFT divides by the size
    real, imag = [_scaled(o, x, [z.shape[d] for d in dims], power) for x in parts]
    return pair(real, imag)


@pair_row("fft_r2c")
def r2c(o: Builder, x: Ref, *, dims: tuple, scaling: float) -> Pair:
    *rest, last = dims
    shape = [n // 2 + 1 if d == last else n for d, n in enumerate(x.shape)]
    # whole and cut: openvino gives other numbers for onesided transforms of open sizes
    whole = _transformed(o, _along(o, [x], x.shape, last), False)
    half = _back(o, o.slice(whole, 1, 0, shape[last]), shape, last)
    parts = _each(o, half, shape, rest, False)
    real, imag = [_scaled(o, part, [x.shape[d] for d in dims], -scaling) for part in parts]
    return pair(real, imag)


@pair_row("fft_c2r")
def c2r(o: Builder, z: Pair, *, dims: tuple, scaling: float, size: Any) -> Ref:
    *rest, last = dims
    parts = _each(o, [z.real, z.imag], z.shape, rest, True)
    half = _cut(o, _along(o, parts, z.shape, last), z.shape[last], size // 2 + 1)
    # the other half is the mirror image of what lies between the first frequency and the middle one, conjugated
    mirror = o.Slice(half, o.sizes(((size + 1) // 2 - 1,)), (0,), (1,), (-1,))
    conjugated = o.Mul(mirror, o.constant(np.array([1, -1], half.dtype.numpy)))
    whole = _transformed(o, o.Concat(half, conjugated, axis=1), True)
    shape = [size if d == last else n for d, n in enumerate(z.shape)]
    return _scaled(o, _back(o, whole, shape, last)[0], [shape[d] for d in dims], 1 - scaling)


def _cut(o: Builder, x: Ref, size: Any, wanted: Any) -> Ref:
    """As many frequencies as wanted: the first ones, or zeros behind them."""
    if not is_open(size) and not is_open(wanted) and size == wanted:
        return x
    missing = o.Max(o.Sub(o.sizes((wanted,)), o.sizes((size,))), o.sizes((0,)))
    amounts = o.Concat(o.sizes((0, 0, 0, 0)), missing, o.sizes((0,)), axis=0)
    return o.Pad(o.slice(x, 1, 0, wanted), amounts, o.number(0, x.dtype))
