"""Methods about memory and elements in host memory: pin_memory, share_memory_, apply_,
fill_diagonal_ and their like.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import layout as layouts
from rushlight.core.dispatch import settle
from rushlight.core.errors import shape_text
from rushlight.core.front import extend_tensor, function
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor, set_memory
from rushlight.ops.copy import fill_
from rushlight.ops.duplicate import over_storage
from rushlight.ops.strided import as_strided
from rushlight.ops.view import reshaped


def _layout(self: Tensor) -> layouts.layout:
    """How the elements are stored: always `rushlight.strided`."""
    return layouts.strided


def _name(self: Tensor) -> str | None:
    """The name of the tensor: None."""
    return None


extend_tensor("layout", property(_layout))
extend_tensor("name", property(_name))


@function(out=False, public=False)
def pin_memory(input: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: memory that devices can copy from directly matters only where there are any."""
    return input


@function(out=False, public=False)
def is_pinned(input: Tensor, device: Any = None) -> bool:
    """Is the memory one that devices can copy from directly? It never is."""
    return False


@function(out=False, public=False)
def share_memory_(input: Tensor) -> Tensor:
    """Move the memory of this tensor to where processes that get it from this one see it, too, with the changes that
    each makes: they are forked, or get it from `multiprocessing`, as an argument or through a queue.

    Views made before keep the old memory. Raises RuntimeError for tensors that are not in main memory.
    """
    if input.device.type != "cpu":
        raise RuntimeError(f"share_memory_: only tensors in main memory can be shared, this one is on {input.device}")
    if is_shared(input):
        return input
    from rushlight.core.shared import SharedMemory  # few programs need it, and multiprocessing takes time to load

    m, size = input._meta, input.storage().nbytes()
    shared = Storage(np.frombuffer(SharedMemory.made(size), np.uint8), exposed=True)
    shared.base[:size] = input.storage().bytes
    moved = over_storage(shared, input.storage_offset(), m.shape, m.strides, m.dtype)
    set_memory(input, moved._array, m, shared)
    return input


@function(out=False, public=False)
def is_shared(input: Tensor) -> bool:
    """Do other processes share the memory?"""
    base = input.storage().base.base
    return isinstance(getattr(base, "obj", base), mmap.mmap)


@function(out=False, public=False)
def is_set_to(input: Tensor, tensor: Tensor) -> bool:
    """Do the two read the same memory in the same geometry?"""
    same = input.data_ptr() == tensor.data_ptr() and input._meta.strides == tensor._meta.strides
    return same and input._meta.shape == tensor._meta.shape


@function(out=False, public=False)
def to_dense(input: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor itself, or in another dtype: all tensors are dense."""
    return input if dtype is None else input.to(dtype)


@function(out=False, public=False)
def dim_order(input: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions in the order in which they lie in memory, outermost first."""
    return tuple(sorted(range(input.ndim), key=lambda d: -input._meta.strides[d]))


@function(out=False, public=False)
def const_data_ptr(input: Tensor) -> int:
    """The address of the first element."""
    return input.data_ptr()


@function(out=False, public=False)
def apply_(input: Tensor, callable: Callable) -> Tensor:
    """Replace each element by what a Python function gives for it: slow, for tensors in main memory.

    Raises TypeError for tensors elsewhere.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([1, 2]).apply_(lambda x: x * 10)
        tensor([10, 20])
    """
    return map_values("apply_", input, callable)


@function(out=False, public=False)
def map_(input: Tensor, tensor: Tensor, callable: Callable) -> Tensor:
    """Replace each element by what a Python function gives for it and the element of another tensor of that shape."""
    if input.shape != tensor.shape:
        raise RuntimeError(
            f"map_: expected tensors of one shape, got {shape_text(input.shape)} and {shape_text(tensor.shape)}"
        )
    return map_values("map_", input, callable, tensor)


def map_values(name: str, target: Tensor, callable: Callable, *others: Tensor) -> Tensor:
    """Store the results of a Python function over the elements of tensors of one shape."""
    if target.device.type != "cpu":
        raise TypeError(f"{name}: is only implemented on CPU tensors, this one is on {target.device}")
    if target.requires_grad:
        raise RuntimeError(f"{name}: can't call {name}() on a tensor that requires grad; use tensor.detach()")
    lists = [x.detach().reshape(-1).tolist() for x in (target, *others)]
    values = np.array([callable(*items) for items in zip(*lists)]).astype(target._meta.numpy)
    settle()
    target._array[...] = values.reshape(target._meta.shape)
    target.storage().version += 1
    return target


@function(out=False, public=False)
def fill_diagonal_(input: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Overwrite the main diagonal with a number; with `wrap` it starts again after it has left a tall matrix.

    Raises RuntimeError for fewer than 2 dimensions, or more than 2 of different sizes.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(2, 2).fill_diagonal_(5)
        tensor([[5., 0.],
                [0., 5.]])
    """
    shape, strides = input._meta.shape, input._meta.strides
    if len(shape) < 2:
        raise RuntimeError(f"fill_diagonal_: dimensions must larger than 1, got shape {shape_text(shape)}")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError(f"fill_diagonal_: all dimensions of input must be of equal length, got {shape_text(shape)}")
    step, own = sum(strides), input.storage_offset()
    fill_(as_strided(input, (min(shape),), (step,), own), fill_value)
    if wrap and len(shape) == 2 and shape[0] > shape[1] + 1:
        first = shape[1] + 1
        rest = input[first:]
        fill_diagonal_(rest, fill_value, wrap=True)
    return input


@function(out=False, public=False)
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """The tensor summed down to a shape that broadcasts to its own. Raises RuntimeError when that does not broadcast.

    Example:
        >>> import rushlight
        >>> rushlight.ones(2, 3).sum_to_size(1, 3)
        tensor([[2., 2., 2.]])
    """
    wanted = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    shape = input._meta.shape
    lead = len(shape) - len(wanted)
    if lead < 0 or any(a not in (1, b) for a, b in zip(wanted, shape[lead:])):
        raise RuntimeError(
            f"sum_to_size: size {{{shape_text(wanted)}}} is not expandable to size {{{shape_text(shape)}}}."
        )
    dims = [d for d, n in enumerate(shape) if d < lead or (wanted[d - lead] == 1 and n != 1)]
    if not dims and shape:
        return input
    return reshaped(input.sum(dims or None, keepdim=True), wanted)
