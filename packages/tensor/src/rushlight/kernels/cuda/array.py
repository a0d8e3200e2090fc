"""Memory on a CUDA device, seen as an array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.kernels.half import storage_dtype


@dataclass(frozen=True, slots=True, eq=False)
class CudaArray:
    """A strided view of a flat device buffer: what a CUDA tensor holds where a CPU tensor holds a numpy array.

    `memory` is numba's 1-D device array of the stored bits (half types as uint16); `strides` and `offset` count
    elements.
    """

    memory: Any
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def base(self) -> None:
        """Nothing below it: `Storage` stops here."""
        return None

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * max(size, 1))
    return tuple(reversed(strides)) if shape else ()


def empty(shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...] | None = None) -> CudaArray:
    """Uninitialised device memory, row-major or with strides that fill it without gaps."""
    from numba import cuda

    shape = tuple(shape)
    dtype = np.dtype(dtype)
    memory = cuda.device_array(max(1, int(np.prod(shape, dtype=np.int64))), storage_dtype(dtype))
    return CudaArray(memory, dtype, shape, contiguous_strides(shape) if strides is None else tuple(strides))


def to_device(array: np.ndarray) -> CudaArray:
    """A row-major copy on the device."""
    from numba import cuda

    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.size == 0:
        return empty(array.shape, array.dtype)
    return CudaArray(
        cuda.to_device(flat.view(storage_dtype(array.dtype))),
        array.dtype,
        array.shape,
        contiguous_strides(array.shape),
    )


def to_host(array: CudaArray) -> np.ndarray:
    """A copy in main memory with the same strides."""
    flat = array.memory.copy_to_host().view(array.dtype)[array.offset :]
    itemsize = array.dtype.itemsize
    strides = tuple(stride * itemsize for stride in array.strides)
    return np.lib.stride_tricks.as_strided(flat, array.shape, strides).copy(order="K")


def apply_view(function: Any, array: CudaArray, *params: Any) -> CudaArray:
    """The view that `function(ndarray, *params)` would make, found on an array that has the same strides but no
    data."""
    itemsize = array.dtype.itemsize
    strides = tuple(stride * itemsize for stride in array.strides)
    placeholder = np.lib.stride_tricks.as_strided(np.empty(1, array.dtype), array.shape, strides, writeable=False)
    view = function(placeholder, *params)
    moved = view.__array_interface__["data"][0] - placeholder.__array_interface__["data"][0]
    return CudaArray(
        array.memory,
        view.dtype,
        view.shape,
        tuple(st // itemsize for st in view.strides),
        array.offset + moved // itemsize,
    )
