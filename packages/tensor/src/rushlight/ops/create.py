"""Creation: tensor, from_numpy, empty, full, zeros, ones, arange and their `_like` forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import structured
from rushlight.core.devices import as_device, cpu, device
from rushlight.core.dtypes import dtype
from rushlight.core.front import extend_tensor, function
from rushlight.core.meta import Meta, meta, of_array, strides_in_order
from rushlight.core.op import Sample, kernel
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor, wrap

Device = device | str | int | None


# Ops


def _infer_full(fill_value: Meta, *, shape, dtype, device) -> Meta:
    if any(size < 0 for size in shape):
        raise RuntimeError(f"full: sizes must not be negative, got {list(shape)}")
    return meta(dtype, shape, None, device)


full_op = structured("full", _infer_full, doc="A tensor filled with one number.",
                     samples=lambda: [Sample((2.5,), ((2, 3), dtypes.float32, cpu)), Sample((0,), ((0, 2), dtypes.int64, cpu))],
                     reference=lambda value, shape, dtype, device: np.full(shape, value, dtype.numpy))


@kernel(full_op, "cpu")
def _full(value: Any, shape: tuple, dtype: dtype, device: device) -> np.ndarray:
    if value == 0:
        return np.zeros(shape, dtype.numpy)
    return np.full(shape, np.array(value).astype(dtype.numpy))


def _infer_empty(*, shape, strides, dtype, device) -> Meta:
    if any(size < 0 for size in shape):
        raise RuntimeError(f"empty: sizes must not be negative, got {list(shape)}")
    return meta(dtype, shape, strides, device)


empty_op = structured("empty", _infer_empty, doc="A tensor without set values.", random=True,
                      samples=lambda: [Sample((), ((2, 3), None, dtypes.float32, cpu))])


@kernel(empty_op, "cpu")
def _empty(shape: tuple, strides: tuple | None, dtype: dtype, device: device) -> np.ndarray:
    if strides is None:
        return np.empty(shape, dtype.numpy)
    extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides)) if 0 not in shape else 0
    size = dtype.itemsize
    return np.ndarray(shape, dtype.numpy, np.empty(extent, dtype.numpy), 0, [s * size for s in strides])


def _infer_arange(start: Meta, step: Meta, *, length, dtype, device) -> Meta:
    return meta(dtype, (length,), None, device)


arange_op = structured("arange", _infer_arange, doc="`start + step * i` for `i < length`.",
                       samples=lambda: [Sample((1, 2), (4, dtypes.int64, cpu)), Sample((0.5, 0.25), (5, dtypes.float32, cpu))],
                       reference=lambda start, step, length, dtype, device: (start + step * np.arange(length)).astype(dtype.numpy))


@kernel(arange_op, "cpu")
def _arange(start: Any, step: Any, length: int, dtype: dtype, device: device) -> np.ndarray:
    if dtype.category <= 1:
        return np.arange(start, start + step * length, step, dtype.numpy)[:length]
    return (start + step * np.arange(length, dtype=np.float64)).astype(dtype.numpy)


# Arguments


def sizes(name: str, size: tuple) -> tuple[int, ...]:
    """Sizes given as separate ints or as one sequence, as a tuple of ints."""
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = size[0]
    try:
        return tuple([s if type(s) is int else s.__index__() for s in size])
    except (AttributeError, TypeError):
        raise TypeError(f"{name}: size must be ints or one sequence of ints, got {size!r}") from None


def _finish(tensor: Tensor, requires_grad: bool) -> Tensor:
    return tensor.requires_grad_() if requires_grad else tensor


def filled(shape: tuple[int, ...], value: Any, dtype: dtype, device: Device = None, requires_grad: bool = False) -> Tensor:
    """A tensor of one number, for the other families."""
    return _finish(full_op.apply((value,), (shape, dtype, as_device(device))), requires_grad)


# Functions


@function(method=False)
def full(size: Sequence[int], fill_value: Any, *, dtype: dtype | None = None, layout: Any = None, device: Device = None,
         requires_grad: bool = False) -> Tensor:
    """A tensor of shape `size` in which every element is `fill_value`.

    The dtype is that of the number: bool, int64, the default float, or its complex type. Raises RuntimeError for negative sizes.

    Example:
        >>> import rushlight
        >>> rushlight.full((2,), 7)
        tensor([7, 7])
    """
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    return filled(sizes("full", (size,)), fill_value, dtype or dtypes.number_dtype(type(fill_value)), device, requires_grad)


@function(method=False)
def zeros(*size: Any, dtype: dtype | None = None, layout: Any = None, device: Device = None, requires_grad: bool = False,
          pin_memory: bool = False) -> Tensor:
    """A tensor of zeros of the given sizes.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(2, 2)
        tensor([[0., 0.],
                [0., 0.]])
    """
    return filled(sizes("zeros", size), 0, dtype or dtypes.get_default_dtype(), device, requires_grad)


@function(method=False)
def ones(*size: Any, dtype: dtype | None = None, layout: Any = None, device: Device = None, requires_grad: bool = False,
         pin_memory: bool = False) -> Tensor:
    """A tensor of ones of the given sizes.

    Example:
        >>> import rushlight
        >>> rushlight.ones(3)
        tensor([1., 1., 1.])
    """
    return filled(sizes("ones", size), 1, dtype or dtypes.get_default_dtype(), device, requires_grad)


@function(method=False)
def tensor(data: Any, *, dtype: dtype | None = None, device: Device = None, requires_grad: bool = False,
           pin_memory: bool = False) -> Tensor:
    """A tensor with a copy of the data: numbers, nested sequences of numbers, numpy arrays, or a tensor.

    Raises TypeError for data that is not numbers, ValueError for ragged sequences.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([[1.0, 2.0]]).shape
        rushlight.Size([1, 2])
    """
    array = _array_of(data, dtype)
    made = wrap(array, of_array(array))
    where = as_device(device)
    return _finish(made if where is cpu else made.to(where), requires_grad)


def _array_of(data: Any, dtype: dtype | None) -> np.ndarray:
    """A fresh contiguous array of what `tensor` accepts."""
    if isinstance(data, Tensor):
        data = data.detach().cpu()._array
    if isinstance(data, (np.ndarray, np.generic)):
        array = np.array(data, order="C")
    else:
        array = np.array(_plain(data))
        if array.dtype == object or array.dtype.kind in "US":
            raise TypeError(f"tensor: data must be numbers, got {type(data).__name__} holding "
                            f"{type(array.flat[0]).__name__ if array.size else 'nothing'}")
        if dtype is None:
            kind = {"f": dtypes.get_default_dtype(), "c": dtypes.get_default_dtype().to_complex()}.get(array.dtype.kind)
            dtype = dtypes.get_default_dtype() if not array.size and array.dtype == np.float64 else kind
    return array if dtype is None else array.astype(dtype.numpy, copy=False)


def _plain(data: Any) -> Any:
    """Nested sequences with the tensors inside turned into numpy arrays."""
    if isinstance(data, Tensor):
        return data.detach().numpy()
    if isinstance(data, (list, tuple)) and any(isinstance(x, (Tensor, list, tuple)) for x in data):
        return [_plain(x) for x in data]
    return data


@function(method=False, out=False)
def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor over the memory of a numpy array: changes show on both sides.

    Raises TypeError for other objects and for dtypes that rushlight has not, ValueError for negative strides.

    Example:
        >>> import numpy, rushlight
        >>> a = numpy.zeros(2)
        >>> rushlight.from_numpy(a)[0] = 5
        >>> a
        array([5., 0.])
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: array must be a numpy.ndarray, got {type(array).__name__}; use rushlight.tensor(...)")
    if array.strides and min(array.strides) < 0:
        raise ValueError("from_numpy: some of the strides are negative, which tensors cannot have; pass array.copy()")
    if array.size and any(stride % array.itemsize for stride in array.strides):
        raise ValueError("from_numpy: the strides are not multiples of the element size; pass array.copy()")
    return wrap(array, of_array(array), Storage(array, exposed=True))


def legacy_tensor(*args: Any, device: Device = None) -> Tensor:
    """What `rushlight.Tensor(...)` makes: an empty tensor of the given sizes, or a default-dtype copy of data."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        return args[0].detach()
    if len(args) == 1 and isinstance(args[0], (list, tuple, np.ndarray)) and not type(args[0]).__name__ == "Size":
        return tensor(args[0], dtype=dtypes.get_default_dtype(), device=device)
    return empty_op.apply((), (sizes("Tensor", args), None, dtypes.get_default_dtype(), as_device(device)))
