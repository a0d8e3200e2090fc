"""The CUDA device: elementwise ops, views and copies, from the same definitions as the CPU's.

It runs under numba's simulator: set `NUMBA_ENABLE_CUDASIM=1` before Python starts. The simulator executes kernels as
Python, which shows that loops, layouts and graphs are right; it says nothing about speed or about a GPU's arithmetic.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def simulated() -> bool:
    """Whether this process was started with numba's CUDA simulator."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")


class CudaDevice:
    """The device plug-in `cuda`. Its tensors have a `CudaArray` where those of the CPU have a numpy array."""

    def available(self) -> bool:
        return simulated()

    def why_unavailable(self) -> str:
        return (
            "kernels for GPUs are not compiled yet, only numba's simulator runs them. To try it, start Python with "
            "the environment variable NUMBA_ENABLE_CUDASIM=1; else use device 'cpu'"
        )

    def plan(self, op: Any, metas: tuple[Any, ...], params: tuple[Any, ...], out: Any) -> Callable[..., Any]:
        """The function that runs `op` on operands with these metas."""
        from rushlight.kernels.cuda.plans import make_plan

        return make_plan(op, metas, params, out)


device = CudaDevice()
