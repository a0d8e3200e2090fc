"""The CUDA device: elementwise ops, views and copies, from the same definitions as the CPU's.

It runs under numba's simulator: set `NUMBA_ENABLE_CUDASIM=1` before Python starts. The simulator executes kernels as
Python, which shows that loops, layouts and graphs are right; it says nothing about speed or about a GPU's arithmetic.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.kernels.cuda.array import CudaArray, apply_view, empty, to_device, to_host


def simulated() -> bool:
    """Whether this process was started with numba's CUDA simulator."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")


class CudaDevice:
    """The device plug-in `cuda`. Its buffers are `CudaArray`s."""

    type = "cuda"

    def available(self) -> bool:
        return simulated()

    def why_unavailable(self) -> str:
        return (
            "kernels for GPUs are not compiled yet, only numba's simulator runs them. To try it, start Python with "
            "the environment variable NUMBA_ENABLE_CUDASIM=1; else use device 'cpu'"
        )

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> CudaArray:
        """Uninitialised row-major memory."""
        return empty(shape, dtype)

    def to_device(self, array: np.ndarray) -> CudaArray:
        """A row-major copy of a numpy array."""
        return to_device(array)

    def to_host(self, buffer: CudaArray) -> np.ndarray:
        """A copy as numpy array."""
        return to_host(buffer)

    def elementwise(self, op: Any, in_dtypes: Any, out_dtype: Any, arg_dtypes: Any = None) -> Any:
        """`kernel(out, *ins)` of an elementwise op for `CudaArray`s of these dtypes."""
        from rushlight.kernels.cuda.elementwise import elementwise_kernel

        return elementwise_kernel(op.scalar, in_dtypes, out_dtype, arg_dtypes)

    def plan(self, op: Any, metas: tuple[Any, ...], params: tuple[Any, ...], out: Any) -> Callable[..., Any]:
        """The function that runs `op` on operands with these metas."""
        from rushlight.kernels.cuda.plans import make_plan

        return make_plan(self, op, metas, params, out)


device = CudaDevice()
__all__ = ["CudaArray", "CudaDevice", "apply_view", "device", "simulated"]
