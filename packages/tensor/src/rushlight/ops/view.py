"""Views that only change shape and strides: reshape, transpose, expand and their like."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.declare import view
from rushlight.core.errors import check_dim, shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.op import Sample
from rushlight.core.tensor import Tensor
from rushlight.ops.create import sizes

_MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def strided(m: Meta, shape: tuple[int, ...], strides: tuple[int, ...]) -> Meta:
    """Metadata of a view with another shape and other strides."""
    return meta(m.dtype, shape, strides, m.device)


def _infer_permute(input: Meta, *, dims: tuple[int, ...]) -> Meta:
    return strided(input, tuple([input.shape[d] for d in dims]), tuple([input.strides[d] for d in dims]))


permute_op = view("permute", _infer_permute, lambda array, dims: array.transpose(dims), doc="The dimensions in another order.",
                  samples=lambda: [Sample((_MATRIX,), ((1, 0),))], reference=np.transpose)


@function(out=False)
def permute(input: Tensor, *dims: Any) -> Tensor:
    """The tensor with its dimensions in the order `dims`, sharing memory.

    Shapes: `(d0, d1, ...)` -> `(d[dims[0]], d[dims[1]], ...)`. Raises RuntimeError unless `dims` names each dimension once.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(2, 3, 5).permute(2, 0, 1).shape
        rushlight.Size([5, 2, 3])
    """
    order = sizes("permute", dims)
    if len(order) != input.ndim:
        raise RuntimeError(f"permute: dims has {len(order)} entries, the tensor of shape {shape_text(input.shape)} has {input.ndim}")
    order = tuple([check_dim("permute", d, input.ndim) for d in order])
    if len(set(order)) != len(order):
        raise RuntimeError(f"permute: dims {list(order)} names a dimension twice")
    return permute_op.apply((input,), (order,))


def _infer_expand(input: Meta, *, shape: tuple[int, ...]) -> Meta:
    lead = len(shape) - input.ndim
    strides = tuple([0 if d < lead or input.shape[d - lead] != size else input.strides[d - lead] for d, size in enumerate(shape)])
    return strided(input, shape, strides)


def _expand(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.lib.stride_tricks.as_strided(
        array, shape, (0,) * (len(shape) - array.ndim) + tuple(
            [stride if size == wanted else 0 for stride, size, wanted in zip(array.strides, array.shape, shape[len(shape) - array.ndim:])]))


expand_op = view("expand", _infer_expand, _expand, doc="Dimensions of size 1 repeated without copying.",
                 samples=lambda: [Sample((_MATRIX[:, :1],), ((4, 2, 5),))], reference=np.broadcast_to)


@function(out=False)
def expand(input: Tensor, *size: Any) -> Tensor:
    """The tensor with size-1 dimensions (and new leading ones) repeated, without copying memory; -1 keeps a size.

    Raises RuntimeError when a size other than 1 would have to change.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([[1], [2]]).expand(2, 3)
        tensor([[1, 1, 1],
                [2, 2, 2]])
    """
    wanted = sizes("expand", size)
    lead = len(wanted) - input.ndim
    if lead < 0:
        raise RuntimeError(f"expand: {len(wanted)} sizes given for a tensor with {input.ndim} dimensions; give at least as many")
    shape = []
    for d, size_wanted in enumerate(wanted):
        have = input.shape[d - lead] if d >= lead else 1
        if size_wanted == -1 and d >= lead:
            size_wanted = have
        if size_wanted < 0 or have not in (1, size_wanted):
            raise RuntimeError(f"expand: the expanded size {size_wanted} must match the existing size {have} at dimension {d}; "
                               f"shape {shape_text(input.shape)} cannot become {shape_text(wanted)}")
        shape.append(size_wanted)
    return expand_op.apply((input,), (tuple(shape),))
