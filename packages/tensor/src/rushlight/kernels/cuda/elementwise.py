"""Elementwise kernels for CUDA, from the same scalar definitions as the CPU's.

    kernel = elementwise_kernel(gelu, [np.float32], np.float32)
    kernel(out, x)                     # CudaArrays of any strides; x broadcasts to out

The arguments are those of `rushlight.kernels.cpu.elementwise.elementwise_kernel`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.kernels.build import build_program
from rushlight.kernels.cuda.array import CudaArray, to_device
from rushlight.kernels.cuda.source import kernel_source
from rushlight.kernels.layout import broadcasts, plan_layout
from rushlight.kernels.trace import Program

# The simulator runs each thread as a Python thread (0.4 ms), so few of them; grid-stride loops give the same results
# for any number.
SIMULATED_THREADS = 4


class ElementwiseKernel:
    """A scalar definition for fixed dtypes; one native kernel per rank."""

    def __init__(self, program: Program, in_dtypes: Sequence[np.dtype], out_dtypes: Sequence[np.dtype]):
        self.program = program
        self.in_dtypes = tuple(in_dtypes)
        self.out_dtypes = tuple(out_dtypes)
        self._kernels: dict[int, Any] = {}

    def source(self, rank: int = 1) -> str:
        """The generated Python source for operands that walk through `rank` dimensions."""
        return kernel_source(self.program, rank)

    def __call__(self, out: CudaArray | tuple[CudaArray, ...], *ins: Any) -> Any:
        """Compute into `out` and return it. An operand that is a number or a numpy array is copied to the device."""
        outs = out if isinstance(out, tuple) else (out,)
        operands = [
            x if isinstance(x, CudaArray) else to_device(np.array(x).astype(dtype))
            for x, dtype in zip(ins, self.in_dtypes, strict=True)
        ]
        arrays = [*outs, *operands]
        for array, dtype in zip(arrays, self.out_dtypes + self.in_dtypes, strict=True):
            if array.dtype != dtype or not broadcasts(array.shape, outs[0].shape):
                raise TypeError(
                    f"elementwise kernel for {dtype} and shape {outs[0].shape} got {array.dtype} of shape {array.shape}"
                )
        if outs[0].size:
            self._launch(arrays, outs[0].shape)
        return out

    def _launch(self, arrays: list[CudaArray], shape: tuple[int, ...]) -> None:
        strides = [_broadcast_strides(array, shape) for array in arrays]
        layout = plan_layout(shape, strides)
        packed = list(layout.sizes)
        for array, steps in zip(arrays, layout.strides, strict=True):
            packed += [array.offset, *steps]
        from numba import cuda

        from rushlight.kernels.cuda.simulator import compile_source

        kernel = self._kernels.get(layout.rank)
        if kernel is None:
            kernel = self._kernels[layout.rank] = compile_source(self.source(layout.rank))
        n = int(np.prod(shape, dtype=np.int64))
        kernel[1, min(n, SIMULATED_THREADS)](
            n, cuda.to_device(np.array(packed, np.int64)), *[array.memory for array in arrays]
        )


def _broadcast_strides(array: CudaArray, shape: tuple[int, ...]) -> tuple[int, ...]:
    own = tuple(0 if size == 1 else stride for size, stride in zip(array.shape, array.strides, strict=True))
    return (0,) * (len(shape) - len(own)) + own


def elementwise_kernel(
    fn: Callable[..., Any],
    in_dtypes: Sequence[Any],
    out_dtype: Any,
    arg_dtypes: Sequence[Any] | None = None,
    params: Mapping[str, Any] | None = None,
) -> ElementwiseKernel:
    """The CUDA kernel of a scalar definition."""
    ins = [np.dtype(d) for d in in_dtypes]
    outs = [np.dtype(d) for d in (out_dtype if isinstance(out_dtype, tuple | list) else (out_dtype,))]
    return ElementwiseKernel(build_program(fn, ins, outs, arg_dtypes, params), ins, outs)
