"""Tensors from and to other libraries' memory: as_tensor, asarray, frombuffer (see `dlpack` for the protocol)."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.devices import as_device
from rushlight.core.dtypes import dtype
from rushlight.core.errors import shape_text
from rushlight.core.front import extend_tensor, function
from rushlight.core.tensor import Tensor
from rushlight.ops.convert import converted
from rushlight.ops.create import Device, as_dtype, filled, finish, from_numpy, tensor
from rushlight.ops.dlpack import from_dlpack


@function(method=False, out=False)
def as_tensor(data: Any, dtype: dtype | None = None, device: Device = None) -> Tensor:
    """Data as a tensor, without a copy where that is possible: tensors stay, numpy arrays and tensors of other
    libraries share their memory.

    Raises TypeError or RuntimeError for data that is not numbers, ValueError for ragged sequences.

    Example:
        >>> import numpy, rushlight
        >>> a = numpy.zeros(2)
        >>> rushlight.as_tensor(a)[0] = 5
        >>> a
        array([5., 0.])
    """
    if isinstance(data, np.ndarray) and not (data.strides and min(data.strides) < 0):
        data = from_numpy(data)
    elif not isinstance(data, Tensor) and hasattr(data, "__dlpack__") and not isinstance(data, np.ndarray):
        data = from_dlpack(data)
    if not isinstance(data, Tensor):
        return tensor(data, dtype=dtype, device=device)
    where = data.device if device is None else as_device(device)
    return converted(data, as_dtype("as_tensor", dtype, data.dtype), where)


@function(method=False, out=False)
def asarray(
    obj: Any,
    *,
    dtype: dtype | None = None,
    device: Device = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Any data as a tensor: tensors, arrays, DLPack exporters and buffers share memory unless `copy`, sequences are
    copied.

    Raises ValueError when `copy=False` and a copy is needed.

    Example:
        >>> import rushlight
        >>> rushlight.asarray([1, 2])
        tensor([1, 2])
    """
    if isinstance(obj, Tensor):
        made = obj
    elif isinstance(obj, np.ndarray):
        made = as_tensor(obj)
    elif hasattr(obj, "__dlpack__"):
        made = from_dlpack(obj)
    elif isinstance(obj, (bytes, bytearray, memoryview)) or type(obj).__module__ == "array":
        kind = np.asarray(obj).dtype if not isinstance(obj, (bytes, bytearray)) else None
        made = frombuffer(
            obj, dtype=dtype or (dtypes.from_numpy_dtype(kind) if kind is not None else dtypes.get_default_dtype())
        )
    else:
        if copy is False:
            raise ValueError(f"asarray: a copy is needed to make a tensor of {type(obj).__name__}, but copy=False")
        return finish(tensor(obj, dtype=dtype, device=device), requires_grad)
    where = made.device if device is None else as_device(device)
    result = converted(made, as_dtype("asarray", dtype, made.dtype), where)
    if copy is False and result is not made:
        raise ValueError("asarray: another dtype or device needs a copy, but copy=False")
    if copy and result is made:
        result = made.clone()
    if not requires_grad:
        return result.detach() if result.requires_grad else result
    return finish(result.detach() if result is made else result, True)


@function(method=False, out=False)
def frombuffer(buffer: Any, *, dtype: dtype, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A tensor over the memory of an object with the buffer protocol: `count` elements from byte `offset` on.

    Raises ValueError when the buffer has too few bytes, or a number of them that is no multiple of the element size.

    Example:
        >>> import rushlight
        >>> rushlight.frombuffer(bytearray([1, 2, 3]), dtype=rushlight.uint8)
        tensor([1, 2, 3], dtype=rushlight.uint8)
    """
    kind = as_dtype("frombuffer", dtype)
    size, total = kind.itemsize, memoryview(buffer).nbytes
    if total == 0 or count == 0:
        raise ValueError(f"frombuffer: both buffer length ({total}) and count ({count}) must not be 0")
    if not 0 <= offset < total:
        raise ValueError(
            f"frombuffer: offset ({offset} bytes) must be non-negative and no greater than buffer length ({total} "
            "bytes) - 1"
        )
    if count < 0 and (total - offset) % size:
        raise ValueError(
            f"frombuffer: buffer length ({total - offset} bytes) after offset ({offset} bytes) must be a multiple of "
            "element "
            f"size ({size})"
        )
    n = (total - offset) // size if count < 0 else count
    if offset + n * size > total:
        raise ValueError(
            f"frombuffer: requested buffer length ({n} * {size} bytes) after offset ({offset} bytes) must not be "
            "greater than "
            f"actual buffer length ({total} bytes)"
        )
    return finish(from_numpy(np.frombuffer(buffer, kind.numpy, n, offset)), requires_grad)


@function(method=False, out=False)
def from_file(
    filename: str,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor over the bytes of a file; with `shared` changes go to the file, which is made or grown to fit.

    Raises FileNotFoundError when there is no file, RuntimeError when it is too small and not shared.
    """
    kind = as_dtype("from_file", dtype)
    need = size * kind.itemsize
    if shared:
        with open(filename, "ab") as file:
            if file.tell() < need:
                file.truncate(need)
    elif os.path.getsize(filename) < need:
        raise RuntimeError(f"from_file: {filename} has fewer than {need} bytes")
    return from_numpy(np.memmap(filename, kind.numpy, "r+" if shared else "c", shape=(size,)))


@function(method=False, out=False)
def scalar_tensor(
    s: Any,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A 0-dim tensor of a number, in the default floating-point dtype.

    Example:
        >>> import rushlight
        >>> rushlight.scalar_tensor(3)
        tensor(3.)
    """
    return filled((), s, as_dtype("scalar_tensor", dtype), device, requires_grad)


# Versions of the array API standard; code for an older one runs on the newest.
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


def _array_namespace(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """The module with the functions of the Python array API standard: `rushlight.array_api`.

    Raises ValueError for a version of the standard that is not there.
    """
    if api_version not in (None, *_VERSIONS):
        raise ValueError(f"__array_namespace__: api_version must be one of {', '.join(_VERSIONS)}, got {api_version!r}")
    from rushlight import array_api  # written in functions of this package; loaded when somebody asks

    return array_api


def _to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor on another device, itself where it is there already; the array API standard's `to`."""
    return self.to(as_device(device))


extend_tensor("__array_namespace__", _array_namespace)
extend_tensor("to_device", _to_device)


@function(method=False, out=False)
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Positions in row-major order as one index tensor per dimension of `shape`.

    Raises ValueError for negative sizes, TypeError for indices that are not integers.

    Example:
        >>> import rushlight
        >>> rushlight.unravel_index(rushlight.tensor([1, 5]), (2, 3))
        (tensor([0, 1]), tensor([1, 2]))
    """
    if indices.dtype.category != 1:
        raise ValueError(f"unravel_index: expected 'indices' to be integer dtype, but got {indices.dtype!r}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(not isinstance(size, int) for size in sizes):
        raise TypeError(f"unravel_index: expected 'shape' to be int or sequence of ints, got {shape!r}")
    if any(size < 0 for size in sizes):
        raise ValueError(f"unravel_index: 'shape' cannot have negative values, got {shape_text(sizes)}")
    found, left = [], indices.long()
    for size in reversed(sizes):
        found.append(left % max(size, 1))
        left = left // max(size, 1)
    return tuple(reversed(found))
