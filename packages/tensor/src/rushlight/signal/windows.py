"""Window functions of `M` elements: `rushlight.signal.windows`.

All are symmetric, or with `sym=False` periodic: one element shorter than the symmetric window that they are taken from.
Each raises ValueError for a negative M, or a dtype other than float32 and float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.core import dtypes, layout
from rushlight.core.devices import as_device
from rushlight.core.dtypes import dtype
from rushlight.core.front import EXPORTS
from rushlight.core.tensor import Tensor
from rushlight.ops.create import Device, arange, as_dtype, filled, finish

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _made(name: str, M: int, options: dict[str, Any], values: Callable[[Tensor, int], Tensor]) -> Tensor:
    """`values(n, N)` for n = 0 ... M - 1; N is the last n of a symmetric window."""
    kind = as_dtype(name, options["dtype"])
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if options["layout"] is not layout.strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {options['layout']}")
    if kind not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind}")
    if M <= 1:
        return filled((M,), 1, kind, options["device"], options["requires_grad"])
    place = arange(M, dtype=dtypes.float64, device=as_device(options["device"]))
    return finish(values(place, M - 1 if options["sym"] else M).to(kind), options["requires_grad"])


def _cosines(weights: Iterable[float]) -> Callable[[Tensor, int], Tensor]:
    def values(place: Tensor, last: int) -> Tensor:
        total: Tensor = place * 0
        for i, weight in enumerate(weights):
            total = total + (place * (2 * math.pi * i / last)).cos() * (weight * (-1) ** i)
        return total

    return values


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = layout.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """`sum over i of (-1)^i a[i] cos(2 pi i n / N)`. Raises ValueError for an empty `a`."""
    weights = list(a) if isinstance(a, Iterable) else None
    if weights is None:
        raise TypeError("general_cosine: Coefficients must be a list/tuple")
    if not weights:
        raise ValueError("general_cosine: Coefficients cannot be empty")
    return _made("general_cosine", M, _options(sym, dtype, layout, device, requires_grad), _cosines(weights))


def _options(sym: bool, dtype: Any, layout: Any, device: Any, requires_grad: bool) -> dict[str, Any]:
    return {"sym": sym, "dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = layout.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """`alpha - (1 - alpha) cos(2 pi n / N)`."""
    return _made(
        "general_hamming", M, _options(sym, dtype, layout, device, requires_grad), _cosines((alpha, 1 - alpha))
    )


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = layout.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """`0.54 - 0.46 cos(2 pi n / N)`."""
    return _made("hamming", M, _options(sym, dtype, layout, device, requires_grad), _cosines((0.54, 0.46)))


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = layout.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """`0.5 - 0.5 cos(2 pi n / N)`.

    Example:
        >>> import rushlight
        >>> rushlight.signal.windows.hann(5)
        tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _made("hann", M, _options(sym, dtype, layout, device, requires_grad), _cosines((0.5, 0.5)))


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = layout.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """`0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)`."""
    return _made("blackman", M, _options(sym, dtype, layout, device, requires_grad), _cosines((0.42, 0.5, 0.08)))


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = layout.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """The minimum 4-term Blackman-Harris window. Source: A.

    Nuttall, "Some windows with very good sidelobe behavior", 1981.
    """
    return _made(
        "nuttall",
        M,
        _options(sym, dtype, layout, device, requires_grad),
        _cosines((0.3635819, 0.4891775, 0.1365995, 0.0106411)),
    )


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = layout.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle: `1 - |2 n / N - 1|`."""
    return _made(
        "bartlett",
        M,
        _options(sym, dtype, layout, device, requires_grad),
        lambda place, last: 1 - (place * (2 / last) - 1).abs(),
    )


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = layout.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """`sin(pi (n + 1/2) / (N + 1))`."""
    return _made(
        "cosine",
        M,
        _options(sym, dtype, layout, device, requires_grad),
        lambda place, last: ((place + 0.5) * (math.pi / (last + 1))).sin(),
    )


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = layout.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """`exp(-|n - center| / tau)`, around the middle unless a center is given. Raises ValueError unless tau > 0."""
    if tau <= 0:
        raise ValueError(f"exponential: Tau must be positive, got: {tau} instead")
    if center is not None and sym:
        raise ValueError("exponential: Center must be None for symmetric windows")
    return _made(
        "exponential",
        M,
        _options(sym, dtype, layout, device, requires_grad),
        lambda place, last: ((place - (last / 2 if center is None else center)).abs() * (-1 / tau)).exp(),
    )


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = layout.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """`exp(-((n - N / 2) / std)^2 / 2)`. Raises ValueError unless std > 0."""
    if std <= 0:
        raise ValueError(f"gaussian: Standard deviation must be positive, got: {std} instead")
    return _made(
        "gaussian",
        M,
        _options(sym, dtype, layout, device, requires_grad),
        lambda place, last: (((place - last / 2) / std) ** 2 * -0.5).exp(),
    )


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: Any = layout.strided,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """`I0(beta sqrt(1 - (2 n / N - 1)^2)) / I0(beta)`. Raises ValueError for a negative beta."""
    if beta < 0:
        raise ValueError(f"kaiser: beta must be non-negative, got: {beta} instead")

    def values(place: Tensor, last: int) -> Tensor:
        bessel = EXPORTS["i0"]
        return bessel((1 - (place * (2 / last) - 1) ** 2).clamp(min=0).sqrt() * beta) / bessel(place * 0 + beta)

    return _made("kaiser", M, _options(sym, dtype, layout, device, requires_grad), values)
