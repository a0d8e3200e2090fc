"""Questions about tensors and types: is_tensor, numel, result_type and their like."""

from __future__ import annotations

from typing import Any

from rushlight.core import dtypes
from rushlight.core.front import function
from rushlight.core.op import meta_of
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor

Number = bool | int | float | complex


@function(method=False, out=False)
def is_tensor(obj: Any) -> bool:
    """Is it a tensor?"""
    return isinstance(obj, Tensor)


@function(method=False, out=False)
def is_storage(obj: Any) -> bool:
    """Is it the storage of a tensor?"""
    return isinstance(obj, Storage)


@function(method=False, out=False)
def is_floating_point(input: Tensor) -> bool:
    """Is the dtype a floating-point type?"""
    return input.dtype.is_floating_point


@function(method=False, out=False)
def is_complex(input: Tensor) -> bool:
    """Is the dtype a complex type?"""
    return input.dtype.is_complex


@function(method=False, out=False)
def is_signed(input: Tensor) -> bool:
    """Can the dtype hold negative numbers?"""
    return input.dtype.is_signed


@function(out=False)
def is_nonzero(input: Tensor) -> bool:
    """Is the only element not zero? Raises RuntimeError when there are more or none."""
    return bool(input)


@function(method=False, out=False)
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Have the two the same shape?"""
    return input.shape == other.shape


@function(method=False, out=False)
def numel(input: Tensor) -> int:
    """The number of elements.

    Example:
        >>> import rushlight
        >>> rushlight.numel(rushlight.zeros(2, 3))
        6
    """
    return input.numel()


@function(method=False, out=False)
def get_device(input: Tensor) -> int:
    """The index of the CUDA device; -1 on the CPU."""
    return input.get_device()


@function(method=False, out=False)
def typename(obj: Any) -> str:
    """The full name of an object's type; for tensors the old-style name, such as `rushlight.FloatTensor`."""
    if isinstance(obj, Tensor):
        return obj.type()
    kind = type(obj)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


@function(method=False, out=False)
def result_type(tensor: Tensor | Number, other: Tensor | Number) -> dtypes.dtype:
    """The dtype that an operation on the two gives: tensors with dimensions decide before 0-dim ones, and those before
    numbers.

    Example:
        >>> import rushlight
        >>> rushlight.result_type(rushlight.tensor([1, 2]), 1.0)
        rushlight.float32
    """
    return dtypes.result_dtype([meta_of(tensor), meta_of(other)])


@function(method=False, out=False)
def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by a type name such as `"rushlight.DoubleTensor"`; prefer `set_default_dtype`.

    TypeError for others.
    """
    names = {
        "HalfTensor": dtypes.float16,
        "BFloat16Tensor": dtypes.bfloat16,
        "FloatTensor": dtypes.float32,
        "DoubleTensor": dtypes.float64,
    }
    name = (t if isinstance(t, str) else getattr(t, "__name__", "")).rpartition(".")[2]
    if name not in names:
        raise TypeError(
            f"set_default_tensor_type: only floating-point types are supported as the default type, got {t!r}"
        )
    dtypes.set_default_dtype(names[name])
