"""The Fourier transform extension of the standard: `rushlight.array_api.fft`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import rushlight as rl
from rushlight.core.devices import device as Device
from rushlight.core.dtypes import dtype as Dtype
from rushlight.core.tensor import Tensor

__all__ = ["fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn",
           "rfft", "rfftfreq", "rfftn"]


def _along_one(function: Callable) -> Callable:
    def call(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
        return function(x, n, axis, norm)

    return _like(call, function)


def _along_several(function: Callable) -> Callable:
    def call(x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
             norm: str = "backward") -> Tensor:
        return function(x, s, axes, norm)

    return _like(call, function)


def _frequencies(function: Callable) -> Callable:
    def call(n: int, /, *, d: float = 1.0, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
        return function(n, d, dtype=dtype, device=device)

    return _like(call, function)


def _shifting(function: Callable) -> Callable:
    def call(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
        return function(x, axes)

    return _like(call, function)


def _like(call: Callable, function: Callable) -> Callable:
    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = f"`rushlight.fft.{function.__name__}` with the argument names of the standard."
    return call


fft = _along_one(rl.fft.fft)
ifft = _along_one(rl.fft.ifft)
rfft = _along_one(rl.fft.rfft)
irfft = _along_one(rl.fft.irfft)
hfft = _along_one(rl.fft.hfft)
ihfft = _along_one(rl.fft.ihfft)
fftn = _along_several(rl.fft.fftn)
ifftn = _along_several(rl.fft.ifftn)
rfftn = _along_several(rl.fft.rfftn)
irfftn = _along_several(rl.fft.irfftn)
fftfreq = _frequencies(rl.fft.fftfreq)
rfftfreq = _frequencies(rl.fft.rfftfreq)
fftshift = _shifting(rl.fft.fftshift)
ifftshift = _shifting(rl.fft.ifftshift)
