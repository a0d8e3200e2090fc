"""Changing which memory a tensor has: resize_, set_."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.layout import contiguous_format, memory_format, strides_for
from rushlight.core.meta import contiguous_strides, meta
from rushlight.core.tensor import Tensor, set_memory, wrap
from rushlight.kernels.cpu import allocator
from rushlight.ops.create import sizes
from rushlight.ops.strided import as_strided_op


def _fits(self: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> bool:
    extent = 0 if 0 in shape else 1 + sum([(size - 1) * stride for size, stride in zip(shape, strides)])
    return (offset + extent) * self.dtype.itemsize <= self.storage().nbytes()


def _read_as(self: Tensor, source: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Tensor:
    """Let `self` read the memory of `source` in another geometry."""
    view = as_strided_op.execute((source.detach(),), (shape, strides, offset, 0))
    set_memory(self, view._array, view._meta.with_grad(self.requires_grad), source.storage())
    return self


@function(out=False, public=False)
def resize_(
    input: Tensor, *args: Any, size: Sequence[int] | None = None, memory_format: memory_format = contiguous_format
) -> Tensor:
    """Give this tensor another shape: over its memory where that is large enough, else over new memory that begins with
    the old elements.

    Raises RuntimeError for tensors that require grad, and to grow memory that numpy shares.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([1, 2, 3, 4]).resize_(2, 2)
        tensor([[1, 2],
                [3, 4]])
    """
    shape = sizes("resize_", args if size is None else (size,))
    if input.requires_grad:
        raise RuntimeError("resize_: cannot resize variables that require grad")
    if min(shape, default=0) < 0:
        raise RuntimeError(f"resize_: sizes must not be negative, got {shape_text(shape)}")
    strides = contiguous_strides(shape)
    if memory_format is not contiguous_format:
        strides = strides_for("resize_", meta(input.dtype, shape), memory_format)
    if shape == input._meta.shape and memory_format is contiguous_format:
        return input
    offset = input.storage_offset()
    if not _fits(input, shape, strides, offset):
        if input.storage().exposed:
            raise RuntimeError(
                f"resize_: trying to resize storage that is not resizable: numpy or another library shares it, and "
                f"{shape_text(shape)} needs more; resize a copy: tensor.clone()"
            )
        extent = 1 + sum([(n - 1) * stride for n, stride in zip(shape, strides)])
        have = input.storage().nbytes() // input.itemsize - offset
        memory = allocator.empty((extent,), input._meta.numpy)
        memory[:have] = as_strided_op.execute((input.detach(),), ((have,), (1,), offset, 0))._array
        return _read_as(input, wrap(memory, meta(input.dtype, (extent,))), shape, strides, 0)
    return _read_as(input, input, shape, strides, offset)


@function(out=False)
def resize_as_(input: Tensor, the_template: Tensor, memory_format: memory_format = contiguous_format) -> Tensor:
    """Give this tensor the shape of another one; see `resize_`."""
    return resize_(input, the_template.shape, memory_format=memory_format)


@function(out=False, public=False)
def set_(
    input: Tensor,
    source: Tensor | None = None,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Let this tensor read the memory of another one, in its geometry or in another; without source it becomes empty.

    Raises RuntimeError for another dtype, or a geometry that exceeds the memory.
    """
    if source is None:
        return _read_as(input, wrap(np.empty(0, input._meta.numpy), meta(input.dtype, (0,))), (0,), (1,), 0)
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"set_: could not set tensor of type {input.dtype.name} to a tensor of type {source.dtype.name}"
        )
    if size is None:
        return _read_as(input, source, source._meta.shape, source._meta.strides, source.storage_offset())
    shape = tuple(size)
    return _read_as(
        input, source, shape, contiguous_strides(shape) if stride is None else tuple(stride), storage_offset
    )
