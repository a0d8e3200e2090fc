"""Window functions for spectra: hann, hamming, blackman, bartlett, kaiser."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rushlight.core import dtypes
from rushlight.core.devices import as_device
from rushlight.core.dtypes import dtype
from rushlight.core.front import EXPORTS, function
from rushlight.core.tensor import Tensor
from rushlight.ops.create import Device, arange, as_dtype, filled, finish


def _window(
    name: str,
    length: int,
    periodic: bool,
    wanted: dtype | None,
    device: Device,
    requires_grad: bool,
    values: Callable[[Tensor, int], Tensor],
) -> Tensor:
    """`values(n, last)` for n = 0 ...

    length - 1; a periodic window is one element shorter than the symmetric one it is taken from.
    """
    kind = as_dtype(name, wanted)
    if not kind.is_floating_point:
        raise RuntimeError(f"{name}: expects floating point dtypes, got {kind.name}")
    if length < 0:
        raise RuntimeError(f"{name}: requires non-negative window_length, got window_length={length}")
    if length <= 1:
        return filled((length,), 1, kind, device, requires_grad)
    place = arange(length, dtype=dtypes.float64, device=as_device(device))
    return finish(values(place, length if periodic else length - 1).to(kind), requires_grad)


def _cosines(*weights: float) -> Callable[[Tensor, int], Tensor]:
    """The sum of cosines with the given weights, signs alternating."""

    def values(place: Tensor, last: int) -> Tensor:
        total = place * 0 + weights[0]
        for i, weight in enumerate(weights[1:], 1):
            total = total + (place * (2 * math.pi * i / last)).cos() * (weight * (-1) ** i)
        return total

    return values


@function(method=False, out=False)
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """`0.5 - 0.5 cos(2 pi n / N)`; N is the length, or one less when not periodic. Raises RuntimeError for a negative
    length.

    Example:
        >>> import rushlight
        >>> rushlight.hann_window(4)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("hann_window", window_length, periodic, dtype, device, requires_grad, _cosines(0.5, 0.5))


@function(method=False, out=False)
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """`alpha - beta cos(2 pi n / N)`; N is the length, or one less when not periodic.

    Raises RuntimeError for a negative length.
    """
    return _window("hamming_window", window_length, periodic, dtype, device, requires_grad, _cosines(alpha, beta))


@function(method=False, out=False)
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """`0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)`; N is the length, or one less when not periodic.

    Raises RuntimeError for a negative length.
    """
    return _window("blackman_window", window_length, periodic, dtype, device, requires_grad, _cosines(0.42, 0.5, 0.08))


@function(method=False, out=False)
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A triangle, `1 - |2 n / N - 1|`; N is the length, or one less when not periodic.

    Raises RuntimeError for a negative length.
    """
    return _window(
        "bartlett_window",
        window_length,
        periodic,
        dtype,
        device,
        requires_grad,
        lambda place, last: 1 - (place * (2 / last) - 1).abs(),
    )


@function(method=False, out=False)
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """`I0(beta sqrt(1 - (2 n / N - 1)^2)) / I0(beta)`; N is the length, or one less when not periodic.

    Raises RuntimeError for a negative length. Source: J. F. Kaiser, "Nonrecursive digital filter design using the
    I0-sinh window function", 1974.
    """

    def values(place: Tensor, last: int) -> Tensor:
        bessel = EXPORTS["i0"]
        inside = (1 - (place * (2 / last) - 1) ** 2).clamp(min=0).sqrt() * beta
        return bessel(inside) / bessel(place * 0 + beta)

    return _window("kaiser_window", window_length, periodic, dtype, device, requires_grad, values)
