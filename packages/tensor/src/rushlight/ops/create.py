"""Creation: tensor, from_numpy, empty, full, zeros, ones, arange."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.core import dtypes, native
from rushlight.core.devices import as_device, cpu, device
from rushlight.core.dtypes import dtype
from rushlight.core.front import function
from rushlight.core.layout import contiguous_format, memory_format, strides_for
from rushlight.core.meta import is_int, meta, of_array, strides_in_order
from rushlight.core.storage import Storage, address, whole_storage, window
from rushlight.core.tensor import Tensor, wrap
from rushlight.ops.allocation import arange_op, empty_op, full_op
from rushlight.ops.from_python import array_of

Device = device | str | int | None


def sizes(name: str, size: tuple) -> tuple[int, ...]:
    """Sizes given as separate ints or as one sequence, as a tuple of ints."""
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = size[0]
    try:
        return tuple([s if is_int(s) else s.__index__() for s in size])
    except (AttributeError, TypeError):
        raise TypeError(f"{name}: size must be ints or one sequence of ints, got {size!r}") from None


_INDEX = (None, dtypes.int64)  # the dtypes of a range of ints as it is
PYTHON_TYPES = {float: dtypes.float64, int: dtypes.int64, bool: dtypes.bool, complex: dtypes.complex128}


def as_dtype(name: str, wanted: Any, default: dtype | None = None) -> dtype:
    """The dtype that an argument means: None is the default, Python's number types have a dtype each;
    TypeError for others.
    """
    if wanted.__class__ is dtypes.dtype:
        return wanted
    if wanted is None:
        return default or dtypes.get_default_dtype()
    if wanted in PYTHON_TYPES:
        return PYTHON_TYPES[wanted]
    raise TypeError(f"{name}: dtype must be a rushlight dtype such as rushlight.float32, got {wanted!r}")


def finish(tensor: Tensor, requires_grad: bool) -> Tensor:
    """The new tensor, asked to require grad if so wanted."""
    return tensor.requires_grad_() if requires_grad else tensor


def filled(
    shape: tuple[int, ...], value: Any, dtype: dtype, device: Device = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of one number, for the other families."""
    return finish(full_op.apply((value,), (shape, dtype, as_device(device))), requires_grad)


@function(method=False, memo=True)
def full(
    size: Sequence[int],
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of shape `size` in which every element is `fill_value`.

    The dtype is that of the number: bool, int64, the default float, or its complex type.
    Raises RuntimeError for negative sizes.

    Example:
        >>> import rushlight
        >>> rushlight.full((2,), 7)
        tensor([7, 7])
    """
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    wanted = as_dtype("full", dtype, dtypes.number_dtype(type(fill_value)))
    return filled(
        sizes("full", (size,) if not isinstance(size, int) else ((size,),)), fill_value, wanted, device, requires_grad
    )


@function(method=False, memo=True)
def zeros(
    *args: Any,
    size: Sequence[int] | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of zeros of the given sizes. Raises RuntimeError for negative sizes.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(2, 2)
        tensor([[0., 0.],
                [0., 0.]])
    """
    return filled(sizes("zeros", args if size is None else (size,)), 0, as_dtype("zeros", dtype), device, requires_grad)


@function(method=False, memo=True)
def ones(
    *args: Any,
    size: Sequence[int] | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of ones of the given sizes. Raises RuntimeError for negative sizes.

    Example:
        >>> import rushlight
        >>> rushlight.ones(3)
        tensor([1., 1., 1.])
    """
    return filled(sizes("ones", args if size is None else (size,)), 1, as_dtype("ones", dtype), device, requires_grad)


@function(method=False, memo=True)
def empty(
    *args: Any,
    size: Sequence[int] | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: memory_format = contiguous_format,
) -> Tensor:
    """A tensor of the given sizes whose values are whatever the memory holds.

    Raises RuntimeError for negative sizes.
    """
    shape = sizes("empty", args if size is None else (size,))
    wanted, strides = as_dtype("empty", dtype), None
    if memory_format is not contiguous_format:
        strides = strides_for("empty", meta(wanted, shape), memory_format)
    return finish(empty_op.apply((), (shape, strides, wanted, as_device(device))), requires_grad)


@function(method=False)
def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of the given sizes and strides whose values are whatever the memory holds.

    Raises RuntimeError for negative ones.
    """
    shape, strides = sizes("empty_strided", (size,)), sizes("empty_strided", (stride,))
    if len(shape) != len(strides):
        raise RuntimeError(
            f"empty_strided: size has {len(shape)} dimensions and stride {len(strides)}; give one stride for each size"
        )
    if strides and min(strides) < 0:
        raise RuntimeError(f"empty_strided: strides must not be negative, got {list(strides)}")
    return finish(
        empty_op.apply((), (shape, strides, as_dtype("empty_strided", dtype), as_device(device))), requires_grad
    )


@function(method=False)
def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor without set values whose dimensions lie in memory in the order `physical_layout`, outermost first.

    Raises RuntimeError unless physical_layout names each dimension once.
    """
    shape, order = sizes("empty_permuted", (size,)), sizes("empty_permuted", (physical_layout,))
    if sorted(order) != list(range(len(shape))):
        raise RuntimeError(
            f"empty_permuted: physical_layout must name each of the {len(shape)} dimensions once, got {list(order)}"
        )
    strides = strides_in_order(shape, order)
    return finish(
        empty_op.apply((), (shape, strides, as_dtype("empty_permuted", dtype), as_device(device))), requires_grad
    )


@function(method=False, memo=True)
def arange(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The numbers `start, start + step, ...` before `end`; with one argument the numbers from 0 before it.

    int64 when all arguments are integers, else the default float. Raises RuntimeError for a step of zero or one that
    leads away from end.

    Example:
        >>> import rushlight
        >>> rushlight.arange(1, 7, 2)
        tensor([1, 3, 5])
    """
    if end is None:
        start, end = 0, start
    if type(start) is type(step) is int and step == 1 and is_int(end) and start <= end and dtype in _INDEX:
        return finish(arange_op.apply((start, 1), (end - start, dtypes.int64, as_device(device))), requires_grad)
    start, end, step = [x.item() if isinstance(x, (Tensor, np.generic)) else x for x in (start, end, step)]
    for name, x in (("start", start), ("end", end), ("step", step)):
        if not isinstance(x, int) and not (isinstance(x, float) and math.isfinite(x)):
            raise (RuntimeError if isinstance(x, float) else TypeError)(
                f"arange: {name} must be a finite real number, got {x!r}"
            )
    whole = isinstance(start, int) and isinstance(end, int) and isinstance(step, int)
    wanted = as_dtype("arange", dtype, dtypes.int64 if whole else None)
    if wanted is dtypes.int64 and not whole:  # other integer types truncate after the length is known, as in PyTorch
        if 0 < abs(step) < 1:
            raise ValueError(f"arange: step must be nonzero, but {step} is 0 in int64; leave dtype= away")
        start, end, step, whole = int(start), int(end), int(step), True
    if step == 0:
        raise RuntimeError("arange: step must be nonzero")
    if ((end - start) * step if whole else (end - start) / step) < 0:
        raise RuntimeError(
            f"arange: upper bound and lower bound inconsistent with step sign: start {start}, end {end}, step {step}"
        )
    length = max(0, -((start - end) // step)) if whole else math.ceil((end - start) / step)
    operands = (int(start), int(step)) if whole or wanted.category == 1 else (start, step)
    return finish(arange_op.apply(operands, (length, wanted, as_device(device))), requires_grad)


@function(method=False, out=False)
def tensor(
    data: Any,
    *,
    dtype: dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor with a copy of the data: numbers, nested sequences of numbers, numpy arrays, or a tensor.

    Raises TypeError or RuntimeError for data that is not numbers, ValueError for ragged sequences and numbers too
    large.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([[1.0, 2.0]]).shape
        rushlight.Size([1, 2])
    """
    if device is None and isinstance(data, Tensor):
        device = data.device
    array = array_of(data, None if dtype is None else as_dtype("tensor", dtype))
    made = wrap(array, of_array(array))
    where = as_device(device)
    return finish(made if where is cpu else made.to(where), requires_grad)


def _adopted(array: np.ndarray) -> Tensor:
    if type(array) is np.ndarray and array.base is None:
        found = of_array(array)
        if found.contiguous:
            return wrap(array, found, whole_storage(array))
    if not isinstance(array, np.ndarray):
        raise TypeError(
            f"from_numpy: array must be a numpy.ndarray, got {type(array).__name__}; use rushlight.tensor(...)"
        )
    if array.strides and min(array.strides) < 0:
        raise ValueError("from_numpy: some of the strides are negative, which tensors cannot have; pass array.copy()")
    if array.size and any(stride % array.itemsize for stride in array.strides):
        raise ValueError("from_numpy: the strides are not multiples of the element size; pass array.copy()")
    if array.base is not None:  # the tensor's memory begins with the array, not with what that is part of
        array = window(array, address(array), array.shape, array.strides, part=False)
    return wrap(array, of_array(array), Storage(array, exposed=True))


def _adopting() -> Callable:
    enter = _adopted

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
        return enter(array)

    from_numpy.__qualname__ = "from_numpy"
    return native.front(from_numpy, native.Plans(), "adopt")


from_numpy = function(method=False, out=False)(_adopting())
