"""The constructors of old programs, such as `rushlight.FloatTensor`, and the questions that they ask of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.devices import as_device
from rushlight.core.dtypes import dtype
from rushlight.core.front import export, extend_tensor
from rushlight.core.meta import Size
from rushlight.core.tensor import Tensor
from rushlight.ops.allocation import empty_op
from rushlight.ops.convert import TYPE_NAMES
from rushlight.ops.create import Device, sizes, tensor


def legacy_tensor(*args: Any, device: Device = None) -> Tensor:
    """What `rushlight.Tensor(...)` makes: an empty tensor of the given sizes, or a default-dtype copy of data."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        return args[0].detach()
    return _made("Tensor", args, dtypes.get_default_dtype(), device)


def _made(name: str, args: tuple, dtype: dtype, device: Device = None) -> Tensor:
    if len(args) == 1 and isinstance(args[0], (list, tuple, np.ndarray)) and not isinstance(args[0], Size):
        return tensor(args[0], dtype=dtype, device=device)
    shape = sizes(name, args) if args else (0,)
    return empty_op.apply((), (shape, None, dtype, as_device(device)))


class _TypeOfOneDtype(type):
    """The class of `FloatTensor` and its like: their instances are the tensors of a dtype."""

    dtype: dtype

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.dtype

    def __call__(cls, *args: Any) -> Tensor:
        """A tensor of the dtype: with the given data, or uninitialised with the given sizes."""
        if len(args) == 1 and isinstance(args[0], Tensor):
            if args[0].dtype is not cls.dtype:
                raise TypeError(
                    f"{cls.__name__}: expected a tensor of {cls.dtype.name}, got {args[0].dtype.name}; use .to(dtype)"
                )
            return args[0].detach()
        return _made(cls.__name__, args, cls.dtype)


_ABSENT = ("complex64", "complex128", "uint16", "uint32", "uint64")  # PyTorch has no such names for them
_NAMES = {name: text for name, text in TYPE_NAMES.items() if name not in _ABSENT}

for _dtype, _name in _NAMES.items():
    _doc = f"A tensor of {_dtype} from data or of sizes; prefer `rushlight.tensor(data, dtype=rushlight.{_dtype})`."
    _members = {"dtype": dtypes.named(_dtype), "__doc__": _doc, "__module__": "rushlight"}
    export(f"{_name}Tensor", _TypeOfOneDtype(f"{_name}Tensor", (), _members))


def _never(name: str, what: str) -> None:
    def answer(self: Tensor) -> bool:
        return False

    answer.__doc__ = f"Is it {what}? Never: rushlight has dense strided tensors only."
    extend_tensor(name, property(answer))


_never("is_sparse", "a sparse tensor in coordinate layout")
_never("is_sparse_csr", "a sparse tensor in compressed row layout")
_never("is_quantized", "a quantized tensor")
_never("is_nested", "a nested tensor")
_never("is_mkldnn", "in a layout of oneDNN")


def _dense_dim(self: Tensor) -> int:
    """The number of dense dimensions: all of them."""
    return self.ndim


def _sparse_dim(self: Tensor) -> int:
    """The number of sparse dimensions: none."""
    return 0


extend_tensor("dense_dim", _dense_dim)
extend_tensor("sparse_dim", _sparse_dim)
