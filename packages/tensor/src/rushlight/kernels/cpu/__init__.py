"""The CPU device: kernels over numpy memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.kernels.cpu import allocator


class CpuDevice:
    """The device plug-in `cpu`. Its buffers are numpy arrays."""

    type = "cpu"

    def available(self) -> bool:
        return True

    def why_unavailable(self) -> str:
        return ""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Uninitialised C-ordered memory, from the caching allocator when it is large."""
        return allocator.empty(shape, dtype)

    def to_device(self, array: np.ndarray) -> np.ndarray:
        return array

    def to_host(self, buffer: np.ndarray) -> np.ndarray:
        return buffer

    def elementwise(self, op: Any, in_dtypes: Any, out_dtype: Any, arg_dtypes: Any = None) -> Any:
        """`kernel(out, *ins)` of an elementwise op for arrays of these dtypes."""
        from rushlight.kernels.cpu.elementwise import elementwise_kernel

        return elementwise_kernel(op.scalar, in_dtypes, out_dtype, arg_dtypes)


device = CpuDevice()
