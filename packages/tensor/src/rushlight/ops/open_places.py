"""Where elements come from when signals are resized, padded or sampled, computed by operations: for sizes that are not
known before a program runs. For known sizes numpy computes the same in `interpolate`, `padding` and `grid_sample`.
"""

from __future__ import annotations

from typing import Any

from rushlight.core import dtypes
from rushlight.core.meta import Symbolic
from rushlight.core.tensor import Tensor
from rushlight.ops.create import arange, full
from rushlight.ops.selection import where


def are_open(*sizes: Any) -> bool:
    """Is one of the sizes not known before the program runs?"""
    return any(isinstance(size, Symbolic) for size in sizes)


def as_size(x: Any) -> Any:
    """A size as an int, an open one as it is."""
    return x if isinstance(x, Symbolic) else int(x)


def nearest_index(size: Any, out: Any, scale: Any, exact: bool, device: Any) -> Tensor:
    """The element nearest to each of `out` positions, in float32 as for known sizes."""
    place = arange(out, dtype=dtypes.float32, device=device)
    return ((place + 0.5 if exact else place) * scale).floor().to(dtypes.int64).clamp(max=size - 1)


def padded_index(size: Any, before: int, after: int, mode: str, device: Any) -> Tensor:
    """Where the elements of a padded dimension come from."""
    if mode == "circular":  # what is cut off is not part of the circle
        i = arange(size + (before + after), device=device) - max(before, 0)
        return i % (size + (min(before, 0) + min(after, 0))) + max(-before, 0)
    i = arange(size + (before + after), device=device) - before
    if mode == "replicate":
        return i.clamp(0, size - 1)
    i = i.abs()
    return where(i >= size, 2 * (size - 1) - i, i)


def resize_matrix(size: Any, out: Any, scale: Any, align_corners: bool, cubic: bool, device: Any) -> Tensor:
    """The (out, size) matrix in float64 that resizes one dimension."""
    rows = arange(out, dtype=dtypes.float64, device=device)
    columns = arange(size, dtype=dtypes.float64, device=device)
    place = rows * scale if align_corners else (rows + 0.5) * scale - 0.5
    if not cubic:
        place = place.clamp(0, size - 1)
        return (1 - (place.unsqueeze(1) - columns).abs()).clamp(min=0)
    first = place.floor()
    total: Any = 0.0
    for tap in range(-1, 3):
        taken = (first + tap).clamp(0, size - 1).unsqueeze(1) == columns
        total = total + taken * _cubic(place - first - tap).unsqueeze(1)
    return total


def antialiased_matrix(size: Any, out: Any, scale: Any, cubic: bool, device: Any) -> Tensor:
    """The (out, size) matrix in float64 that resizes one dimension, with windows as wide as what they stand for."""
    stretch: Any = full((), scale, dtype=dtypes.float64, device=device).clamp(min=1.0)
    support = stretch * (2.0 if cubic else 1.0)
    center = ((arange(out, dtype=dtypes.float64, device=device) + 0.5) * scale).unsqueeze(1)
    first, last = (center - support + 0.5).floor(), (center + support + 0.5).floor()
    columns = arange(size, dtype=dtypes.float64, device=device)
    t = (columns - center + 0.5) / stretch
    weight = _cubic(t, -0.5) if cubic else (1 - t.abs()).clamp(min=0)
    weight = where((columns >= first) & (columns < last), weight, 0.0)
    return weight / weight.sum(1, keepdim=True)


def _cubic(t: Tensor, a: float = -0.75) -> Tensor:
    t = t.abs()
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((t - 5) * t + 8) * t * a - 4 * a
    return where(t <= 1, near, where(t < 2, far, 0.0))


def steps(size: Any, align_corners: bool, device: Any) -> Tensor:
    """Positions from -1 to 1 in float64, of the corners or the centres of `size` pixels."""
    place = arange(size, dtype=dtypes.float64, device=device)
    return place * (2 / (size - 1)) - 1 if align_corners else (place * 2 + 1) / size - 1
