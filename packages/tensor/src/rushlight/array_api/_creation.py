"""Making arrays: by shape, like another, from data, from ranges."""

from __future__ import annotations

from typing import Any

import rushlight as rl
from rushlight.core.devices import device as Device
from rushlight.core.dtypes import dtype as Dtype
from rushlight.core.tensor import Tensor

Shape = int | tuple[int, ...]


def _sizes(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Dtype | None = None,
           device: Device | None = None) -> Tensor:
    """Numbers from `start` up to, not including, `stop`; none when the step leads away from it.

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.arange(3), xp.arange(2, 0).shape
        (tensor([0, 1, 2]), rushlight.Size([0]))
    """
    if stop is None:
        start, stop = 0, start
    if dtype is None and float in (type(start), type(stop), type(step)):
        dtype = rl.get_default_dtype()
    if step and (stop - start) / step < 0:
        stop = start
    return rl.arange(start, stop, step, dtype=dtype, device=device)


def asarray(obj: Any, /, *, dtype: Dtype | None = None, device: Device | None = None,
            copy: bool | None = None) -> Tensor:
    """Data as an array: arrays, numbers, nested sequences, objects with the buffer protocol or DLPack.

    Raises ValueError when `copy=False` and a copy is needed.

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.asarray([1, 2], dtype=xp.float32)
        tensor([1., 2.])
    """
    return rl.asarray(obj, dtype=dtype, device=device, copy=copy)


def empty(shape: Shape, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """An array of a shape; its elements are whatever the memory holds."""
    return rl.empty(_sizes(shape), dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """An uninitialised array of the shape, and else the dtype and device, of another."""
    return rl.empty_like(x, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Dtype | None = None,
        device: Device | None = None) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere.

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.eye(2, 3, k=1)
        tensor([[0., 1., 0.],
                [0., 0., 1.]])
    """
    made = rl.zeros((n_rows, n_rows if n_cols is None else n_cols), dtype=dtype, device=device)
    if -made.shape[0] < k < made.shape[1]:
        made.diagonal(k).fill_(1)
    return made


def from_dlpack(x: Any, /, *, device: Device | None = None, copy: bool | None = None) -> Tensor:
    """An array over the memory of another library's, through the DLPack protocol.

    Raises BufferError when `copy=False` and a copy is needed, and what the other library raises.
    """
    return rl.from_dlpack(x, device=device, copy=copy)


def full(shape: Shape, fill_value: Any, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """An array of a shape with one value everywhere; the dtype is the value's own when none is given."""
    return rl.full(_sizes(shape), fill_value, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """One value everywhere, in the shape, and else the dtype and device, of another array."""
    return rl.full_like(x, fill_value, dtype=dtype, device=device)


def linspace(start: Any, stop: Any, /, num: int, *, dtype: Dtype | None = None, device: Device | None = None,
             endpoint: bool = True) -> Tensor:
    """`num` numbers at equal distances from `start` to `stop`, the last of which may be left out.

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.linspace(0, 1, 4, endpoint=False)
        tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """
    steps = num if endpoint else num + 1
    return rl.linspace(start, stop, steps, dtype=dtype, device=device)[:num]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinate arrays of the grid that one-dimensional arrays span: `"xy"` counts columns first, `"ij"` rows."""
    return tuple(rl.meshgrid(*arrays, indexing=indexing)) if arrays else ()


def ones(shape: Shape, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """An array of ones."""
    return rl.ones(_sizes(shape), dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """Ones in the shape, and else the dtype and device, of another array."""
    return rl.ones_like(x, dtype=dtype, device=device)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices with zeros above the k-th diagonal."""
    return rl.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices with zeros below the k-th diagonal."""
    return rl.triu(x, k)


def zeros(shape: Shape, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """An array of zeros."""
    return rl.zeros(_sizes(shape), dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Device | None = None) -> Tensor:
    """Zeros in the shape, and else the dtype and device, of another array."""
    return rl.zeros_like(x, dtype=dtype, device=device)
