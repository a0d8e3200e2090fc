"""Sampling images at computed positions: grid_sample, affine_grid."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core import checks, dtypes
from rushlight.core.errors import shape_text, warn_caller
from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops.create import from_numpy
from rushlight.ops.join import stack
from rushlight.ops.like import ones_like
from rushlight.ops.matmul import matmul_op
from rushlight.ops.open_places import are_open, as_size, steps

_MODES, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def _reflected(x: Tensor, low: float, high: float) -> Tensor:
    """Positions mirrored at low and high until they lie between."""
    span = high - low
    if span == 0:
        return x * 0
    x = (x - low).abs()
    rest = x.fmod(span)
    odd = (x / span).floor().fmod(2.0) == 1
    return (span - rest).where(odd, rest) + low


def _inside(x: Tensor, size: int, padding: str, align_corners: bool) -> Tensor:
    """Positions brought into the image as the padding mode says."""
    if padding == "reflection":
        x = _reflected(x, 0.0, size - 1.0) if align_corners else _reflected(x, -0.5, size - 0.5)
    if padding == "zeros":
        return x
    within = (x > 0) & (x < size - 1)
    edge = x.detach().clamp(0, size - 1).nan_to_num(0.0)  # what is no position lies at the edge, as in PyTorch
    return x.where(within, edge)  # at the edge and beyond, moving changes nothing


def _values(flat: Tensor, sizes: Sequence[int], corner: Sequence[Tensor], padding: str) -> Tensor:
    """The image `(N, C, prod(sizes))` at whole positions (one tensor `(N, L)` per dimension); outside of it zeros."""
    index, known = None, None
    for at, size in zip(corner, sizes):
        place = at.clamp(0, size - 1).nan_to_num(0.0).to(dtypes.int64)
        index = place if index is None else index * size + place
        if padding == "zeros":
            within = (at >= 0) & (at <= size - 1)
            known = within if known is None else known & within
    n, channels = flat.shape[:2]
    found = flat.gather(2, index.unsqueeze(1).expand(n, channels, index.shape[1]))
    return found if known is None else found.masked_fill(~known.unsqueeze(1), 0)


def _linear(flat: Tensor, sizes: Sequence[int], places: list[Tensor], padding: str) -> Tensor:
    lows = [x.detach().floor() for x in places]
    total: Any = 0
    for corner in itertools.product((0, 1), repeat=len(places)):
        weight: Any = 1
        for bit, low, x in zip(corner, lows, places):
            weight = weight * (x - low if bit else 1 - (x - low))
        values = _values(flat, sizes, [low + bit for bit, low in zip(corner, lows)], padding)
        total = total + values * weight.unsqueeze(1)
    return total


def _cubic_weights(t: Tensor) -> list[Tensor]:
    """Weights of the four neighbours for the fraction t."""
    a = -0.75

    def near(d: Tensor) -> Tensor:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Tensor) -> Tensor:
        return ((d - 5) * d + 8) * d * a - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _cubic(flat: Tensor, sizes: Sequence[int], places: list[Tensor], padding: str, align_corners: bool) -> Tensor:
    lows = [x.detach().floor() for x in places]
    weights = [_cubic_weights(x - low) for x, low in zip(places, lows)]
    total: Any = 0
    for i, j in itertools.product(range(4), repeat=2):
        corner = [_inside(low + (tap - 1), size, padding, align_corners) for low, tap, size in zip(lows, (i, j), sizes)]
        total = total + _values(flat, sizes, corner, padding) * (weights[0][i] * weights[1][j]).unsqueeze(1)
    return total


def _check(input: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    if mode not in _MODES:
        raise ValueError(f"grid_sample: expected mode to be 'bilinear', 'nearest' or 'bicubic', but got {mode!r}")
    if padding_mode not in _PADDINGS:
        raise ValueError(
            f"grid_sample: expected padding_mode to be 'zeros', 'border' or 'reflection', but got {padding_mode!r}"
        )
    checks.same_dtype("grid_sample", input=input._meta, grid=grid._meta)
    if (
        input.ndim not in (4, 5)
        or grid.ndim != input.ndim
        or grid.shape[0] != input.shape[0]
        or grid.shape[-1] != input.ndim - 2
    ):
        raise RuntimeError(
            f"grid_sample: expected 4D or 5D input and a grid with the same batch size and rank whose last size is "
            f"{input.ndim - 2}, got {shape_text(input.shape)} and {shape_text(grid.shape)}"
        )
    if 0 in input.shape[2:]:
        raise RuntimeError(
            f"grid_sample: expected input to have non-empty spatial dimensions, got {shape_text(input.shape)}"
        )
    if mode == "bicubic" and input.ndim == 5:
        raise RuntimeError("grid_sample: bicubic interpolation only supports 4D input")


def _sample(input: Tensor, grid: Tensor, mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    _check(input, grid, mode, padding_mode)
    if input.dtype in dtypes.HALF:
        wide = _sample(input.to(dtypes.float32), grid.to(dtypes.float32), mode, padding_mode, align_corners)
        return wide.to(input.dtype)
    sizes = input._meta.shape[2:]
    n, channels = input.shape[:2]
    places = []
    for d, size in enumerate(sizes):  # the grid names the last dimension first
        x = grid.select(-1, len(sizes) - 1 - d).reshape(n, -1)
        places.append((x + 1) * ((size - 1) / 2) if align_corners else ((x + 1) * size - 1) / 2)
    flat = input.reshape(n, channels, -1)
    if mode == "bicubic":
        found = _cubic(flat, sizes, places, padding_mode, align_corners)
    else:
        places = [_inside(x, size, padding_mode, align_corners) for x, size in zip(places, sizes)]
        if mode == "nearest":
            found = _values(flat, sizes, [x.detach().round() for x in places], padding_mode)
            found = found + grid[..., :0].sum()  # of nothing: the grid gets a gradient of zeros
        else:
            found = _linear(flat, sizes, places, padding_mode)
    return found.reshape(n, channels, *grid.shape[1:-1])


@function(namespace="nn.functional", method=False, out=False, autocast="wide")
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """`input` at the positions that `grid` holds, in [-1, 1] from edge to edge, (x, y) or (x, y, z).

    Shapes: `(N, C, H, W)`, `(N, H', W', 2)` -> `(N, C, H', W')`, and so in three dimensions. With `align_corners` -1
    and 1 are the centres of the
    corner pixels, else the edges of the image. Raises ValueError for an unknown mode, RuntimeError when shapes or
    dtypes do not fit.
    """
    if align_corners is None:
        warn_caller("grid_sample: align_corners is False by default; pass it to silence this")
    return _sample(input, grid, mode, padding_mode, bool(align_corners))


@function(name="grid_sampler", method=False, out=False)
def _grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sample` with numbers as modes: 0 bilinear, 1 nearest, 2 bicubic; 0 zeros, 1 border, 2 reflection. Raises as
    that does."""
    return _sample(input, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)


for _name in ("grid_sampler_2d", "grid_sampler_3d"):
    function(name=_name, method=False, out=False)(_grid_sampler)


def _steps(size: int, align_corners: bool) -> np.ndarray:
    if size <= 1:
        return np.zeros(size)
    steps = np.linspace(-1, 1, size)
    return steps if align_corners else steps * (size - 1) / size


def _affine(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    if not theta.dtype.is_floating_point:
        raise ValueError(f"affine_grid: expected theta to have floating point type, but got {theta.dtype.name}")
    sizes = [as_size(s) for s in size]
    count = len(sizes) - 2
    if count not in (2, 3):
        raise NotImplementedError(
            f"affine_grid: only supports 4D and 5D sizes, for 2D and 3D affine transforms, got {sizes}"
        )
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (count, count + 1) or theta.shape[0] != sizes[0]:
        raise ValueError(
            f"affine_grid: expected a batch of {count} x {count + 1} matrices of shape {sizes[0]} x {count} x "
            f"{count + 1} for size "
            f"{sizes}, got {shape_text(theta.shape)}"
        )
    if any(s <= 0 for s in sizes):
        raise ValueError(f"affine_grid: expected non-zero, positive output size, got {sizes}")
    if are_open(*sizes[2:]):
        flat = [steps(s, align_corners, theta.device) for s in sizes[2:]]
        axes = [x.view([-1 if i == d else 1 for i in range(count)]).expand(sizes[2:]) for d, x in enumerate(flat)]
        points = stack([*reversed(axes), ones_like(axes[0])], -1).reshape(-1, count + 1).to(theta.dtype)
    else:
        axes = np.meshgrid(*[_steps(s, align_corners) for s in sizes[2:]], indexing="ij")
        points = np.stack([*reversed(axes), np.ones_like(axes[0])], -1).reshape(-1, count + 1)
        points = from_numpy(points.astype(theta.dtype.numpy)).to(theta.device)
    grid = matmul_op.apply((points, theta.transpose(1, 2)))
    return grid.reshape(sizes[0], *sizes[2:], count)


@function(namespace="nn.functional", method=False, out=False)
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid with which `grid_sample` applies affine maps: `(N, 2, 3)`, sizes `(N, C, H, W)` -> `(N, H, W, 2)`, and
    so in 3-D.

    Raises ValueError when shapes do not fit, NotImplementedError for other numbers of dimensions.
    """
    if align_corners is None:
        warn_caller("affine_grid: align_corners is False by default; pass it to silence this")
    return _affine(theta, size, bool(align_corners))


@function(name="affine_grid_generator", method=False, out=False)
def _affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """`nn.functional.affine_grid`. Raises as that does."""
    return _affine(theta, size, align_corners)
