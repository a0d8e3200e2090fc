"""Conversions: to, float, long, cpu, type and their like."""

from __future__ import annotations

from typing import Any

from rushlight.core import dtypes
from rushlight.core.devices import as_device, device
from rushlight.core.dispatch import settle
from rushlight.core.dtypes import dtype
from rushlight.core.front import extend_tensor, function
from rushlight.core.layout import has_format, memory_format, preserve_format
from rushlight.core.memo import remembering
from rushlight.core.tensor import Tensor, set_memory
from rushlight.ops.copy import convert
from rushlight.ops.create import PYTHON_TYPES, as_dtype


def converted(
    input: Tensor, dtype: dtype, where: device, copy: bool = False, memory_format: memory_format = preserve_format
) -> Tensor:
    """The tensor itself when it already is what is asked for, else a converted copy."""
    m = input._meta
    if (
        not copy
        and m.dtype is dtype
        and m.device is where
        and (memory_format is preserve_format or has_format(m, memory_format))
    ):
        return input
    return convert.apply((input,), (dtype, where, memory_format))


@function(out=False, public=False, memo=True)
def to(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The tensor in another dtype, on another device, or both: `to(dtype)`, `to(device, dtype)`, `to(other)`.

    Returns the tensor itself when nothing changes, unless `copy=True`. `memory_format` asks for an order of dimensions
    in memory, `non_blocking` lets copies to and from other devices run on. Raises TypeError for other arguments.

    Example:
        >>> import rushlight
        >>> rushlight.ones(2).to(rushlight.int64)
        tensor([1, 1])
    """
    if len(args) == 1 and not kwargs and args[0].__class__ is dtypes.dtype:
        return converted(input, args[0], input._meta.device)
    wanted, where, rest = None, None, list(args)
    if rest and hasattr(rest[0], "_meta"):
        other = rest.pop(0)
        wanted, where = other.dtype, other.device
    else:
        if rest and (rest[0] is None or isinstance(rest[0], (device, str, int)) and not isinstance(rest[0], bool)):
            where = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], dtypes.dtype) or rest[0] in PYTHON_TYPES):
            wanted = rest.pop(0)
    options = dict(zip(("non_blocking", "copy"), rest)) | kwargs
    if "other" in options:
        other = options.pop("other")
        wanted, where = other.dtype, other.device
    wanted, where = options.pop("dtype", wanted), options.pop("device", where)
    options.pop("non_blocking", None)
    copy, order = options.pop("copy", False), options.pop("memory_format", None)
    if options or len(rest) > 2 or any(not isinstance(x, bool) for x in rest):
        raise TypeError(
            f"to: takes (dtype), (device, dtype) or (other), then non_blocking and copy; got {args} {kwargs or ''}"
        )
    return converted(
        input,
        as_dtype("to", wanted, input.dtype),
        input.device if where is None else as_device(where),
        bool(copy),
        order or preserve_format,
    )


_METHODS = {
    "float": dtypes.float32,
    "double": dtypes.float64,
    "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "int": dtypes.int32,
    "long": dtypes.int64,
    "short": dtypes.int16,
    "char": dtypes.int8,
    "byte": dtypes.uint8,
    "bool": dtypes.bool,
    "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
}


def _conversion(name: str, wanted: dtype) -> None:
    def convert_to(input: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
        return converted(input, wanted, input._meta.device, memory_format=memory_format)

    convert_to.__name__ = convert_to.__qualname__ = name
    convert_to.__doc__ = f"The tensor in dtype {wanted.name}; the tensor itself if it has that dtype."
    extend_tensor(name, remembering(convert_to, convert_to))


for _name, _wanted in _METHODS.items():
    _conversion(_name, _wanted)


@function(out=False, public=False)
def cpu(input: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
    """The tensor in main memory; the tensor itself if it is there."""
    return converted(input, input.dtype, as_device("cpu"), memory_format=memory_format)


@function(out=False, public=False)
def cuda(
    input: Tensor, device: Any = None, non_blocking: bool = False, memory_format: memory_format = preserve_format
) -> Tensor:
    """The tensor on a CUDA device. Raises RuntimeError when there is none."""
    return converted(input, input.dtype, as_device("cuda" if device is None else device), memory_format=memory_format)


@function(out=False, public=False)
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype of `other`, and on its device."""
    return converted(input, other.dtype, other.device)


TYPE_NAMES = {
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "bool": "Bool",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
}
_TYPES = {
    f"{prefix}{text}Tensor": dtypes.named(name)
    for name, text in TYPE_NAMES.items()
    for prefix in ("rushlight.", "torch.", "rushlight.cuda.", "torch.cuda.")
}


@function(out=False, public=False)
def type(input: Tensor, dtype: dtype | str | None = None, non_blocking: bool = False) -> Tensor | str:
    """The tensor in another dtype; without argument the old-style name of its type, such as `rushlight.FloatTensor`.

    Raises ValueError for a name that is no type.
    """
    if dtype is None:
        place = "cuda." if input.is_cuda else ""
        return f"rushlight.{place}{TYPE_NAMES[input.dtype.name]}Tensor"
    if isinstance(dtype, str):
        if dtype not in _TYPES:
            raise ValueError(f"type: invalid type name {dtype!r}; pass a dtype such as rushlight.float32")
        dtype = _TYPES[dtype]
    return converted(input, dtype, input.device)


# `data`: the same memory, outside autograd


def _data(self: Tensor) -> Tensor:
    """The same memory without gradient history; changes made through it are not seen by autograd.

    Assigning replaces the memory.
    """
    settle()
    changed = self.detach()
    changed._storage = None
    return changed


def _set_data(self: Tensor, new: Tensor) -> None:
    if not isinstance(new, Tensor):
        raise TypeError(f"data: must be a Tensor, got {new.__class__.__name__}")
    if self.requires_grad and not new.dtype.is_inexact:
        raise RuntimeError(
            f"data: a tensor that requires grad needs a floating point or complex dtype, got {new.dtype.name}"
        )
    set_memory(self, new._array, new._meta.with_grad(self.requires_grad), new._storage)


extend_tensor("data", property(_data, _set_data))
