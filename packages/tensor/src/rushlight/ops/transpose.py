"""The dimensions in another order: permute, transpose, movedim and their like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core.declare import view
from rushlight.core.errors import check_dim, shape_text
from rushlight.core.front import extend_tensor, function
from rushlight.core.meta import Meta
from rushlight.core.op import Sample
from rushlight.core.tensor import Tensor
from rushlight.ops.create import sizes
from rushlight.ops.view import strided

_MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def _infer_permute(input: Meta, *, dims: tuple[int, ...]) -> Meta:
    return strided(input, tuple([input.shape[d] for d in dims]), tuple([input.strides[d] for d in dims]))


permute_op = view(
    "permute",
    _infer_permute,
    lambda array, dims: array.transpose(dims),
    doc="The dimensions in another order.",
    samples=lambda: [Sample((_MATRIX,), ((1, 0),)), Sample((_MATRIX[None],), ((2, 0, 1),))],
    reference=np.transpose,
)


def _permute_args(args: tuple, dims: Any) -> tuple:
    return args if dims is None else (*args, dims)


@function(out=False, memo=True)
def permute(input: Tensor, *args: Any, dims: Sequence[int] | None = None) -> Tensor:
    """The tensor with its dimensions in the order `dims`, sharing memory.

    Shapes: `(d0, d1, ...)` -> `(d[dims[0]], d[dims[1]], ...)`. Raises RuntimeError unless `dims` names each dimension
    once.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(2, 3, 5).permute(2, 0, 1).shape
        rushlight.Size([5, 2, 3])
    """
    order = sizes("permute", _permute_args(args, dims))
    if len(order) != input.ndim:
        raise RuntimeError(
            f"permute: dims has {len(order)} entries, the tensor of shape {shape_text(input.shape)} has {input.ndim}"
        )
    order = tuple([check_dim("permute", d, input.ndim) for d in order])
    if len(set(order)) != len(order):
        raise RuntimeError(f"permute: dims {list(order)} names a dimension twice")
    return permute_op.apply((input,), (order,))


def swapped(ndim: int, dim0: int, dim1: int) -> tuple[int, ...]:
    """The order of dimensions in which two have changed places."""
    order = list(range(ndim))
    order[dim0], order[dim1] = dim1, dim0
    return tuple(order)


@function(out=False, aliases=("swapaxes", "swapdims"), memo=True)
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """The tensor with two dimensions exchanged, sharing memory. Raises IndexError for a dimension out of range.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(2, 3).transpose(0, 1).shape
        rushlight.Size([3, 2])
    """
    ndim = input.ndim
    first, second = check_dim("transpose", dim0, ndim, "dim0"), check_dim("transpose", dim1, ndim, "dim1")
    return permute_op.apply((input,), (swapped(ndim, first, second) if ndim else (),))


@function(out=False, memo=True)
def t(input: Tensor) -> Tensor:
    """A matrix transposed; tensors of fewer dimensions unchanged. Raises RuntimeError for more than 2 dimensions.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(2, 3).t().shape
        rushlight.Size([3, 2])
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"t: expected a tensor with at most 2 dimensions, got {input.ndim}; use transpose(dim0, dim1) or mT"
        )
    return permute_op.apply((input,), (tuple(reversed(range(input.ndim))),))


def _reversed(self: Tensor) -> Tensor:
    """The tensor with its dimensions in reverse order."""
    return permute_op.apply((self,), (tuple(reversed(range(self.ndim))),))


def matrix_transpose(self: Tensor) -> Tensor:
    """The tensor with its last two dimensions exchanged.

    Raises RuntimeError for a tensor of fewer than 2 dimensions.
    """
    if self.ndim < 2:
        raise RuntimeError(f"mT: expected a tensor of at least 2 dimensions, got shape {shape_text(self.shape)}")
    return permute_op.apply((self,), (swapped(self.ndim, self.ndim - 2, self.ndim - 1),))


def adjoint(self: Tensor) -> Tensor:
    """The tensor with its last two dimensions exchanged, complex conjugated.

    Raises RuntimeError for fewer than 2 dimensions.
    """
    turned = matrix_transpose(self)
    return turned.conj() if self.is_complex() else turned


def _conjugate_matrix(self: Tensor) -> Tensor:
    """A matrix transposed and complex conjugated.

    Raises RuntimeError for tensors that are no matrix (0 dimensions stay).
    """
    if self.ndim not in (0, 2):
        raise RuntimeError(f"H: only for matrices, got {self.ndim} dimensions; for batches of matrices use mH")
    turned = _reversed(self)
    return turned.conj() if self.is_complex() else turned


extend_tensor("T", property(_reversed))


extend_tensor("mT", property(matrix_transpose))


extend_tensor("mH", property(adjoint))


extend_tensor("H", property(_conjugate_matrix))


function(out=False)(adjoint)


@function(out=False, aliases=("moveaxis",))
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """The tensor with the dimensions `source` at the places `destination`, the others in their order.

    Raises RuntimeError when the two differ in length or name a dimension twice.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(2, 3, 5).movedim(0, -1).shape
        rushlight.Size([3, 5, 2])
    """
    pair = []
    for name, value in (("source", source), ("destination", destination)):
        value = (value,) if isinstance(value, int) else value
        pair.append([check_dim("movedim", d, input.ndim, name) for d in value])
        if len(set(pair[-1])) != len(pair[-1]):
            raise RuntimeError(f"movedim: {name} {list(value)} names a dimension twice")
    from_, to = pair
    if len(from_) != len(to):
        raise RuntimeError(
            f"movedim: source has {len(from_)} dimensions and destination {len(to)}; give as many of each"
        )
    if input.ndim == 0:
        return permute_op.apply((input,), ((),))
    order = [d for d in range(input.ndim) if d not in from_]
    for place, d in sorted(zip(to, from_)):
        order.insert(place, d)
    return permute_op.apply((input,), (tuple(order),))
