"""Resizing images and signals: interpolate and upsample."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.errors import shape_text, warn_caller
from rushlight.core.front import function
from rushlight.core.layout import CHANNELS_LAST, suggested_format
from rushlight.core.tensor import Tensor
from rushlight.ops import open_places
from rushlight.ops.arithmetic import addcmul
from rushlight.ops.create import from_numpy
from rushlight.ops.matmul import matmul_op
from rushlight.ops.pool_adaptive import adaptive_avg

_RANK = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}


def _scale(size: int, out: int, factor: float | None, align_corners: bool) -> float:
    """Input steps per output step."""
    if align_corners:
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return 1 / factor if factor else size / out


def _nearest_index(size: int, out: int, factor: float | None, exact: bool) -> np.ndarray:
    scale = np.float32(1 / factor if factor else size / out)
    place = (np.arange(out, dtype=np.float32) + np.float32(0.5 if exact else 0)) * scale
    return np.minimum(np.floor(place).astype(np.int64), size - 1)


def _nearest(x: Tensor, first: int, out: list[int], factors: list, exact: bool) -> Tensor:
    """The elements nearest to each output position, of the dimensions from `first` on."""
    for d, (n, factor) in enumerate(zip(out, factors), first):
        size = x.shape[d]
        if open_places.are_open(size, n):
            index = open_places.nearest_index(size, n, 1 / factor if factor else size / n, exact, x.device)
        else:
            index = from_numpy(_nearest_index(size, n, factor, exact)).to(x.device)
        x = x.index_select(d, index)
    return x


def _cubic(t: np.ndarray, a: float) -> np.ndarray:
    """The cubic convolution kernel at distances t."""
    t = np.abs(t)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((t - 5) * t + 8) * t * a - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


def _taps(
    size: int, out: int, factor: float | None, align_corners: bool, cubic: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Where each output position reads one dimension of the input, and with what weight, tap after tap."""
    scale, rows = _scale(size, out, factor, align_corners), np.arange(out)
    place = rows * scale if align_corners else (rows + 0.5) * scale - 0.5
    if cubic:
        first = np.floor(place).astype(int)
        taps = [(first + tap, _cubic(place - first - tap, -0.75)) for tap in range(-1, 3)]
    else:
        place = np.maximum(place, 0)
        first = np.minimum(np.floor(place).astype(int), size - 1)
        taps = [(first, 1 - (place - first)), (first + 1, place - first)]
    return [(np.clip(index, 0, size - 1), weight) for index, weight in taps]


def _antialiased_matrix(size: int, out: int, factor: float | None, align_corners: bool, cubic: bool) -> np.ndarray:
    """The (out, size) matrix that resizes one dimension, smoothing where it shrinks."""
    matrix = np.zeros((out, size))
    scale = _scale(size, out, factor, align_corners)
    stretch = max(scale, 1.0)
    support = (2.0 if cubic else 1.0) * stretch
    for i in range(out):
        center = scale * (i + 0.5)
        first, last = max(int(center - support + 0.5), 0), min(int(center + support + 0.5), size)
        t = (np.arange(first, last) - center + 0.5) / stretch
        weight = _cubic(t, -0.5) if cubic else np.maximum(1 - np.abs(t), 0)
        matrix[i, first:last] = weight / weight.sum()
    return matrix


def _smooth(
    input: Tensor, first: int, out: list[int], factors: list, align_corners: bool, cubic: bool, antialias: bool
) -> Tensor:
    """Each output position a weighted sum of input positions, of the dimensions from `first` on."""
    whole = input.dtype is dtypes.uint8
    x = (input.to(dtypes.float32) if whole or input.dtype in dtypes.HALF else input).contiguous()
    for d, (n, factor) in enumerate(zip(out, factors), first):
        size, opened = x.shape[d], open_places.are_open(x.shape[d], n)
        if opened and n is size and (factor in (None, 1.0) or align_corners):
            continue
        if not opened and n == size and _scale(size, n, factor, align_corners) in (0.0, 1.0):
            continue
        if opened:
            x = _multiplied(x, d, _open_matrix(x, size, n, factor, align_corners, cubic, antialias))
        elif antialias:
            matrix = _antialiased_matrix(size, n, factor, align_corners, cubic).astype(x.dtype.numpy)
            x = _multiplied(x, d, from_numpy(matrix).to(x.device))
        else:
            x = _tapped(x, d, _taps(size, n, factor, align_corners, cubic))
    if whole:
        x = x.round().clamp(0, 255)
    x = x.to(input.dtype)
    return x.clone() if x is input else x


def _multiplied(x: Tensor, d: int, weights: Tensor) -> Tensor:
    """A matrix times dimension d."""
    if d == x.ndim - 1:
        return matmul_op.apply((x, weights.transpose(0, 1)))
    return matmul_op.apply((weights, x.flatten(d + 1))).unflatten(-1, x.shape[d + 1 :])


def _tapped(x: Tensor, d: int, taps: list[tuple[np.ndarray, np.ndarray]]) -> Tensor:
    """The weighted sums of elements along dimension d. In a product with a matrix an infinity, or NaN, would spoil
    what it has no part in."""
    total: Tensor | None = None
    for index, weight in taps:
        part = x.index_select(d, from_numpy(index).to(x.device))
        factor = from_numpy(weight.astype(x.dtype.numpy).reshape((-1,) + (1,) * (x.ndim - d - 1))).to(x.device)
        total = part * factor if total is None else addcmul(total, part, factor)
    assert total is not None
    return total


def _open_matrix(
    x: Tensor, size: Any, out: Any, factor: float | None, align_corners: bool, cubic: bool, antialias: bool
) -> Tensor:
    """The matrix for sizes that are not known before the program runs."""
    scale = _scale(size, out, factor, align_corners)
    if antialias:
        return open_places.antialiased_matrix(size, out, scale, cubic, x.device).to(x.dtype)
    return open_places.resize_matrix(size, out, scale, align_corners, cubic, x.device).to(x.dtype)


def _scaled(size: Any, factor: Any) -> Any:
    """A size times a factor, rounded down."""
    if open_places.are_open(size):
        above, below = float(factor).as_integer_ratio()
        if below <= 1 << 20:  # the product is exact
            return size * above // below
    return int(np.floor(float(size) * factor))


def _output(input: Tensor, size: Any, scale_factor: Any, recompute: bool | None) -> tuple[list[int], list]:
    """Output sizes, and the scale factors to use for positions (None: the ratio of the sizes)."""
    count = input.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ValueError(
            "interpolate: exactly one of size and scale_factor must be given, got "
            f"{'neither' if size is None else 'only one of size or scale_factor should be defined'}"
        )
    if size is not None:
        sizes = list(size) if isinstance(size, (tuple, list)) else [size] * count
        if len(sizes) != count:
            raise ValueError(
                f"interpolate: input and output must have the same number of spatial dimensions, got input "
                f"{shape_text(input.shape)} and size {sizes}; expected {count} sizes"
            )
        if recompute:
            raise ValueError("interpolate: recompute_scale_factor is not meaningful with an explicit size")
        return [open_places.as_size(s) for s in sizes], [None] * count
    factors = list(scale_factor) if isinstance(scale_factor, (tuple, list)) else [scale_factor] * count
    if len(factors) != count:
        raise ValueError(
            f"interpolate: input and scale_factor must have the same number of spatial dimensions, got {count} and "
            f"{factors}"
        )
    out = [_scaled(n, f) for n, f in zip(input.shape[2:], factors)]
    return out, [None] * count if recompute else [float(f) for f in factors]


@function(namespace="nn.functional", method=False, out=False)
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """`input` resized to `size`, or by `scale_factor`: `(N, C, *in)` -> `(N, C, *out)`.

    Modes: nearest, nearest-exact, area (1 to 3 dimensions), linear (1), bilinear and bicubic (2), trilinear (3). Raises
    ValueError or
    NotImplementedError for arguments that do not fit the input, RuntimeError for empty sizes.

    Example:
        >>> import rushlight
        >>> rushlight.nn.functional.interpolate(rushlight.tensor([[[1.0, 3.0]]]), 4, mode="linear")
        tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "interpolate: align_corners can only be set with the interpolating modes linear, bilinear, bicubic "
                "and trilinear"
            )
        if not 3 <= input.ndim <= 5:
            raise NotImplementedError(f"interpolate: got {input.ndim}D input, but mode {mode!r} needs 3D, 4D or 5D")
    elif mode not in _RANK:
        raise NotImplementedError(
            f"interpolate: unknown mode {mode!r}; it takes nearest, nearest-exact, area and {', '.join(_RANK)}"
        )
    elif input.ndim != _RANK[mode]:
        raise NotImplementedError(f"interpolate: got {input.ndim}D input, but mode {mode!r} needs {_RANK[mode]}D")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError("interpolate: the antialias option is restricted to the modes bilinear and bicubic")
    out, factors = _output(input, size, scale_factor, recompute_scale_factor)
    if any(n < 1 for n in out) or 0 in input.shape[1:]:
        raise RuntimeError(
            f"interpolate: input and output sizes should be greater than 0, got input {shape_text(input.shape)} and "
            f"output {out}"
        )
    if mode == "area":
        return adaptive_avg(input.ndim - 2, input, tuple(out))
    order = CHANNELS_LAST.get(suggested_format(input._meta))
    # What was channels last is row-major in this order.
    x, first = (input, 2) if order is None else (input.permute(order), 1)
    if mode in _RANK:
        x = _smooth(x, first, out, factors, bool(align_corners), mode == "bicubic", antialias)
    else:
        x = _nearest(x, first, out, factors, mode == "nearest-exact")
    return x if order is None else x.permute([order.index(d) for d in range(input.ndim)])


@function(namespace="nn.functional", method=False, out=False)
def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """The older name of `interpolate`. Raises as that does."""
    warn_caller("upsample is deprecated; use interpolate instead")
    return interpolate(input, size, scale_factor, mode, align_corners)


@function(namespace="nn.functional", method=False, out=False)
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode nearest. Raises as that does."""
    warn_caller("upsample_nearest is deprecated; use interpolate instead")
    return interpolate(input, size, scale_factor, mode="nearest")


@function(namespace="nn.functional", method=False, out=False)
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode bilinear and aligned corners. Raises as that does."""
    warn_caller("upsample_bilinear is deprecated; use interpolate instead")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
