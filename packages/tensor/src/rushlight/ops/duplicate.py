"""Copying and pickling of tensor objects. What shared memory before shares memory afterwards."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from rushlight.core.dtypes import dtype
from rushlight.core.front import extend_tensor
from rushlight.core.meta import meta
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor, wrap
from rushlight.ops.allocation import empty_op

_MAX_DIMS = 64  # numpy's limit, and PyTorch's


def check_geometry(offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """How many elements lie between the first and the end of the last of a tensor.

    Counted here, in integers without end: numpy's own check of an array over a buffer overflows. Raises RuntimeError
    for a geometry that no tensor has.
    """
    numbers = (offset, *shape, *strides)
    fits = len(shape) == len(strides) <= _MAX_DIMS and all(type(n) is int and 0 <= n < 1 << 62 for n in numbers)
    if not fits or math.prod(size for size in shape if size) >= 1 << 62:
        raise RuntimeError(f"invalid tensor geometry: offset {offset}, sizes {list(shape)}, strides {list(strides)}")
    return 0 if 0 in shape else 1 + sum([(size - 1) * stride for size, stride in zip(shape, strides)])


def over_storage(
    storage: Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], kind: dtype
) -> Tensor:
    """A tensor that reads the bytes of a storage in a geometry, counted in elements.

    Raises RuntimeError when an element would lie outside the storage, which a damaged file may ask for.
    """
    size = kind.itemsize
    end = offset + check_geometry(offset, shape, strides)
    if end * size > storage.nbytes():
        raise RuntimeError(
            f"sizes {list(shape)}, strides {list(strides)} and offset {offset} exceed a storage of {storage.nbytes()} "
            f"bytes for {kind.name}"
        )
    array = np.ndarray(shape, kind.numpy, storage.base, offset * size, [stride * size for stride in strides])
    return wrap(array, meta(kind, shape, strides), storage)


def restored(storage: Storage, geometry: tuple, requires_grad: bool, cls: type, attributes: dict) -> Tensor:
    """The tensor that was pickled."""
    made = over_storage(storage, *geometry)
    if cls is not Tensor:
        made = made.as_subclass(cls)
    made.__dict__.update(attributes)
    return made.requires_grad_() if requires_grad else made


def _geometry(x: Tensor) -> tuple:
    m = x._meta
    return (x.storage_offset(), m.shape, m.strides, m.dtype)


def _reduce(self: Tensor, protocol: int) -> tuple:
    if self.device.type != "cpu":
        return (_moved, (self.detach().cpu(), self.device, self.requires_grad))
    return (restored, (self.storage(), _geometry(self), self.requires_grad, type(self), self.__dict__))


def _moved(x: Tensor, device: Any, requires_grad: bool) -> Tensor:
    made = (
        empty_op.apply((), (x._meta.shape, x._meta.strides, x.dtype, device)) if device.type == "meta" else x.to(device)
    )
    return made.requires_grad_() if requires_grad else made


def _copy(self: Tensor) -> Tensor:
    """Another tensor object over the same memory."""
    made = self.detach().as_subclass(type(self))
    made.__dict__.update(self.__dict__)
    return made.requires_grad_() if self.requires_grad else made


def _deepcopy(self: Tensor, memo: dict) -> Tensor:
    """A tensor of the same values over new memory. Raises RuntimeError for tensors with a gradient history."""
    if id(self) in memo:
        return memo[id(self)]
    if self.requires_grad and not self.is_leaf:
        raise RuntimeError(
            "deepcopy: Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
            "moment; copy tensor.detach()"
        )
    if self.device.type != "cpu":
        made = self.detach().clone()
    else:
        storage = self.storage()
        copied = memo.get(id(storage))
        if copied is None:
            copied = memo[id(storage)] = Storage(np.array(storage.bytes))
        made = over_storage(copied, *_geometry(self))
    if type(self) is not Tensor:
        made = made.as_subclass(type(self))
    memo[id(self)] = made
    made.__dict__.update(copy.deepcopy(self.__dict__, memo))
    if self.requires_grad:
        made.requires_grad_()
        if self.grad is not None:
            made.grad = copy.deepcopy(self.grad, memo)
    return made


extend_tensor("__reduce_ex__", _reduce)
extend_tensor("__copy__", _copy)
extend_tensor("__deepcopy__", _deepcopy)
