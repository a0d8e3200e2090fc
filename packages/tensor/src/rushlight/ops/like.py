"""Tensors made like another one: zeros_like, rand_like, new_zeros and their like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.core import layout as layouts
from rushlight.core.devices import as_device
from rushlight.core.dispatch import follow
from rushlight.core.dtypes import dtype
from rushlight.core.front import function
from rushlight.core.layout import memory_format, preserve_format
from rushlight.core.tensor import Tensor
from rushlight.ops.allocation import empty_op, full_op
from rushlight.ops.copy import fill_
from rushlight.ops.create import Device, as_dtype, filled, finish, sizes, tensor
from rushlight.ops.randint import integers
from rushlight.ops.random import normal_tensor, uniform_tensor


def _empty_like(name: str, input: Tensor, wanted: Any, device: Device, order: memory_format | None) -> Tensor:
    """A tensor without set values, with the shape of another and strides that follow it."""
    m = input._meta
    order = order or preserve_format
    strides = None if m.contiguous and order is preserve_format else layouts.strides_for(name, m, order)
    where = m.device if device is None else as_device(device)
    return follow(empty_op.apply((), (m.shape, strides, as_dtype(name, wanted, m.dtype), where)), input)


def full_of(name: str, input: Tensor, value: Any, wanted: Any, device: Device, order: memory_format | None) -> Tensor:
    """A tensor of one number, with the shape of another and strides that follow it."""
    m = input._meta
    kind = as_dtype(name, wanted, m.dtype)
    if isinstance(value, complex) and not kind.is_complex:
        raise RuntimeError(f"{name}: value cannot be converted to type {kind.name} without overflow: it is complex")
    if m.contiguous and (order is None or order is preserve_format):
        where = m.device if device is None else as_device(device)
        return follow(full_op.apply((value,), (m.shape, kind, where)), input)
    return fill_(_empty_like(name, input, kind, device, order), value)


@function(method=False, memo=True)
def zeros_like(
    input: Tensor,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: memory_format = preserve_format,
) -> Tensor:
    """Zeros in the shape, dtype and on the device of `input`.

    Example:
        >>> import rushlight
        >>> rushlight.zeros_like(rushlight.tensor([1, 2]))
        tensor([0, 0])
    """
    return finish(full_of("zeros_like", input, 0, dtype, device, memory_format), requires_grad)


@function(method=False, memo=True)
def ones_like(
    input: Tensor,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: memory_format = preserve_format,
) -> Tensor:
    """Ones in the shape, dtype and on the device of `input`."""
    return finish(full_of("ones_like", input, 1, dtype, device, memory_format), requires_grad)


@function(method=False)
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: memory_format = preserve_format,
) -> Tensor:
    """`fill_value` everywhere, in the shape, dtype and on the device of `input`.

    Raises RuntimeError when the dtype cannot hold it.
    """
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return finish(full_of("full_like", input, value, dtype, device, memory_format), requires_grad)


@function(method=False, memo=True)
def empty_like(
    input: Tensor,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: memory_format = preserve_format,
) -> Tensor:
    """A tensor without set values in the shape, dtype and on the device of `input`."""
    return finish(_empty_like("empty_like", input, dtype, device, memory_format), requires_grad)


def _place(name: str, input: Tensor, wanted: Any, device: Device) -> tuple[tuple[int, ...], dtype, Any]:
    """Shape, dtype and device for a tensor like another one."""
    m = input._meta
    return m.shape, as_dtype(name, wanted, m.dtype), m.device if device is None else as_device(device)


def _laid_out(name: str, drawn: Tensor, input: Tensor, order: memory_format | None) -> Tensor:
    """Numbers in row-major order, brought into the memory format of another tensor or one that was asked for."""
    if input._meta.contiguous and (order is None or order is preserve_format):
        return drawn
    return _empty_like(name, input, drawn.dtype, drawn.device, order).copy_(drawn)


@function(method=False, memo=True)
def rand_like(
    input: Tensor,
    *,
    generator: Any = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: memory_format = preserve_format,
) -> Tensor:
    """Random numbers, uniform in [0, 1), in the shape of `input`.

    Raises RuntimeError for integer dtypes.
    """
    drawn = uniform_tensor(*_place("rand_like", input, dtype, device), generator)
    return finish(_laid_out("rand_like", drawn, input, memory_format), requires_grad)


@function(method=False, memo=True)
def randn_like(
    input: Tensor,
    *,
    generator: Any = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: memory_format = preserve_format,
) -> Tensor:
    """Standard normal numbers in the shape of `input`. Raises RuntimeError for integer dtypes."""
    drawn = normal_tensor(*_place("randn_like", input, dtype, device), generator)
    return finish(_laid_out("randn_like", drawn, input, memory_format), requires_grad)


@function(method=False)
def randint_like(
    input: Tensor,
    low: int,
    high: int | None = None,
    *,
    generator: Any = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: memory_format = preserve_format,
) -> Tensor:
    """Random integers in [low, high), or [0, low) without high, in the shape of `input`.

    Raises RuntimeError unless low < high.
    """
    low, high = (0, low) if high is None else (low, high)
    drawn = integers(int(low), int(high), *_place("randint_like", input, dtype, device), generator)
    return finish(_laid_out("randint_like", drawn, input, memory_format), requires_grad)


# Methods that make tensors of the same dtype


def _new(
    name: str, input: Tensor, args: tuple, size: Any, value: Any, wanted: Any, device: Device, requires_grad: bool
) -> Tensor:
    shape = sizes(name, args if size is None else (size,))
    where = input.device if device is None else device
    return finish(follow(filled(shape, value, as_dtype(name, wanted, input.dtype), where), input), requires_grad)


@function(out=False, public=False, memo=True)
def new_zeros(
    input: Tensor,
    *args: Any,
    size: Sequence[int] | None = None,
    dtype: dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Zeros of the given sizes, in the dtype and on the device of this tensor. Raises RuntimeError for negative sizes.

    Example:
        >>> import rushlight
        >>> rushlight.tensor(1).new_zeros(2)
        tensor([0, 0])
    """
    return _new("new_zeros", input, args, size, 0, dtype, device, requires_grad)


@function(out=False, public=False, memo=True)
def new_ones(
    input: Tensor,
    *args: Any,
    size: Sequence[int] | None = None,
    dtype: dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Ones of the given sizes, in the dtype and on the device of this tensor.

    Raises RuntimeError for negative sizes.
    """
    return _new("new_ones", input, args, size, 1, dtype, device, requires_grad)


@function(out=False, public=False)
def new_full(
    input: Tensor,
    size: Sequence[int],
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """`fill_value` in the given sizes, in the dtype and on the device of this tensor.

    Raises RuntimeError for negative sizes.
    """
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return _new("new_full", input, (), size, value, dtype, device, requires_grad)


@function(out=False, public=False, memo=True)
def new_empty(
    input: Tensor,
    *args: Any,
    size: Sequence[int] | None = None,
    dtype: dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor without set values of the given sizes, in the dtype and on the device of this one."""
    shape = sizes("new_empty", args if size is None else (size,))
    where = input.device if device is None else as_device(device)
    made = empty_op.apply((), (shape, None, as_dtype("new_empty", dtype, input.dtype), where))
    return finish(follow(made, input), requires_grad)


@function(out=False, public=False)
def new_empty_strided(
    input: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    dtype: dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor without set values of the given sizes and strides, in the dtype and on the device of this one."""
    where = input.device if device is None else as_device(device)
    params = (
        sizes("new_empty_strided", (size,)),
        sizes("new_empty_strided", (stride,)),
        as_dtype("new_empty_strided", dtype, input.dtype),
        where,
    )
    return finish(follow(empty_op.apply((), params), input), requires_grad)


@function(out=False, public=False)
def new_tensor(
    input: Tensor,
    data: Any,
    *,
    dtype: dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor with a copy of the data, in the dtype and on the device of this one.

    Errors as for `rushlight.tensor`.
    """
    where = input.device if device is None else device
    return tensor(data, dtype=as_dtype("new_tensor", dtype, input.dtype), device=where, requires_grad=requires_grad)
