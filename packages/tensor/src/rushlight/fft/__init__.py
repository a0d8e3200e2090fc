"""Discrete Fourier transforms: `rushlight.fft`. The functions are declared beside their ops, in
`rushlight/ops/fft.py`."""

from __future__ import annotations

from rushlight.core.front import EXPORTS
from rushlight.core.namespace import exports_of

__getattr__ = exports_of("fft")


def __dir__() -> list[str]:
    return sorted(name.removeprefix("fft.") for name in EXPORTS if name.startswith("fft."))
