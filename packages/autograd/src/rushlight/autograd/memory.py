"""Adding up gradients without copies, where nobody else can see the memory.

Small gradients on the CPU are added by numpy directly: an op call costs several times what sixteen additions do.
"""

from __future__ import annotations

import numpy as np

from rushlight.autograd.references import references
from rushlight.core.layout import contiguous_format, is_dense, preserve_format
from rushlight.core.meta import Meta
from rushlight.core.op import HANDLERS, INPLACE, prims
from rushlight.core.tensor import Tensor, wrap
from rushlight.kernels.cpu.allocator import Loan
from rushlight.ops.copy import clone, copy_
from rushlight.ops.create import empty_strided, filled

SMALL = 4096
_add_in_place = INPLACE[prims.add]


def is_free(x: Tensor) -> bool:
    """Is the memory of a tensor its own: row-major, and no view, array or foreign code sees it besides?"""
    if not x._meta.contiguous or x._meta.device.type != "cpu" or HANDLERS:  # handlers may see more in a tensor
        return False
    storage = x._storage
    shares = 0
    if storage is not None:
        if storage.exposed or references(x._storage) > 2:  # the tensor and `storage`
            return False
        shares = 1
    base = x._array.base
    if base is not None and (type(base) is not Loan or references(x._array.base) != 2):  # the array and `base`
        return False
    return references(x._array) == 1 + shares  # the tensor and its storage, whose memory it is


def is_small(m: Meta) -> bool:
    """Is a tensor so small, and so simple, that a plain numpy call is the quickest way to make another?"""
    return m.numel <= SMALL and m.contiguous and m.device.type == "cpu" and not HANDLERS


def add_into(target: Tensor, grad: Tensor) -> None:
    """`target += grad`, outside the graph."""
    m = target._meta
    if m is grad._meta and is_small(m):
        np.add(target._array, grad._array, out=target._array)
        target.storage().version += 1
    else:
        _add_in_place.apply((target, grad))


def copied(grad: Tensor, leaf: Meta | None) -> Tensor:
    """A copy with memory of its own, in the layout of the leaf that it is for, row-major if that one has gaps.

    The gradient keeps its own layout when the leaf is gone.
    """
    m = grad._meta
    if leaf is not None and not leaf.contiguous and is_dense(leaf):
        return copy_(empty_strided(leaf.shape, leaf.strides, dtype=m.dtype, device=m.device), grad)
    if is_small(m) and not m.requires_grad:
        return wrap(grad._array.copy(), m)
    return clone(grad, memory_format=preserve_format if leaf is None else contiguous_format)


def zeros_for(m: Meta) -> Tensor:
    """Zeros like a tensor with this metadata: the gradient where there is no dependence."""
    return filled(m.shape, 0, m.dtype, m.device)


def ones(m: Meta) -> Tensor:
    """The gradient to start with."""
    m = m.with_grad(False)
    return wrap(np.ones(m.shape, m.numpy), m) if is_small(m) else filled(m.shape, 1, m.dtype, m.device)
