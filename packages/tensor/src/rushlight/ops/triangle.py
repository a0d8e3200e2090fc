"""Triangles and diagonals: tril, triu, diag, diag_embed, diagflat."""

from __future__ import annotations

import numpy as np

from rushlight.core.declare import updating
from rushlight.core.errors import check_dim, shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta
from rushlight.core.native import of_loops
from rushlight.core.op import INPLACE, ErrorSample, Sample
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu.triangle import clear_triangle
from rushlight.ops.strided import diagonal, diagonal_backward
from rushlight.ops.view import reshape, reshaped

_MATRIX = np.arange(1, 13, dtype=np.float32).reshape(3, 4)


def _check_triangle(input: Meta, *, diagonal: int) -> None:
    if input.ndim < 2:
        raise RuntimeError(f"tril: input tensor must have at least 2 dimensions, got shape {shape_text(input.shape)}")


@of_loops
def _tril(array: np.ndarray, diagonal: int) -> None:
    clear_triangle(array, diagonal + 1, upper=True)


@of_loops
def _triu(array: np.ndarray, diagonal: int) -> None:
    clear_triangle(array, diagonal, upper=False)


def _samples() -> list[Sample]:
    return [Sample((_MATRIX,), (0,)), Sample((_MATRIX,), (-1,)), Sample((np.stack([_MATRIX, _MATRIX]),), (2,))]


def _errors() -> list[ErrorSample]:
    return [ErrorSample((_MATRIX[0],), (0,), RuntimeError, "at least 2 dimensions")]


tril_op = updating(
    "tril",
    _check_triangle,
    _tril,
    doc="Zeros above a diagonal of the last two dimensions.",
    samples=_samples,
    errors=_errors,
    reference=np.tril,
)
triu_op = updating(
    "triu",
    _check_triangle,
    _triu,
    doc="Zeros below a diagonal of the last two dimensions.",
    samples=_samples,
    errors=_errors,
    reference=np.triu,
)


@function(memo=True)
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of matrices, up to a diagonal (0 the main one, positive above it), zeros elsewhere.

    Shapes: `(*, n, m)` -> the same. Raises RuntimeError for fewer than 2 dimensions.

    Example:
        >>> import rushlight
        >>> rushlight.ones(2, 2).tril()
        tensor([[1., 0.],
                [1., 1.]])
    """
    return tril_op.apply((input,), (int(diagonal),))


@function(memo=True)
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of matrices, from a diagonal on (0 the main one, positive above it), zeros elsewhere.

    Shapes: `(*, n, m)` -> the same. Raises RuntimeError for fewer than 2 dimensions.

    Example:
        >>> import rushlight
        >>> rushlight.ones(2, 2).triu(1)
        tensor([[0., 1.],
                [0., 0.]])
    """
    return triu_op.apply((input,), (int(diagonal),))


@function(out=False, public=False)
def tril_(input: Tensor, diagonal: int = 0) -> Tensor:
    """In-place form of `tril`."""
    return INPLACE[tril_op].apply((input,), (int(diagonal),))


@function(out=False, public=False)
def triu_(input: Tensor, diagonal: int = 0) -> Tensor:
    """In-place form of `triu`."""
    return INPLACE[triu_op].apply((input,), (int(diagonal),))


@function(out=False)
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last dimension of `input` on a diagonal, over new dimensions `dim1` and `dim2`, zeros
    elsewhere.

    Raises RuntimeError when the two dimensions are the same, IndexError when one is out of range.

    Example:
        >>> import rushlight
        >>> rushlight.diag_embed(rushlight.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
    """
    if not input.ndim:
        raise RuntimeError("diag_embed: expected a tensor with at least 1 dimension")
    ndim = input.ndim + 1
    first, second = check_dim("diag_embed", dim1, ndim, "dim1"), check_dim("diag_embed", dim2, ndim, "dim2")
    if first == second:
        raise RuntimeError(f"diag_embed: diagonal dimensions cannot be identical {dim1}, {dim2}")
    side = input.shape[-1] + abs(offset)
    shape = list(input.shape[:-1])
    for d in sorted((first, second)):
        shape.insert(d, side)
    return diagonal_backward.apply((input,), (tuple(shape), int(offset), first, second))


@function()
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A vector as a diagonal matrix, or the diagonal of a matrix as a vector (a copy). Raises RuntimeError for other
    dimensions.

    Example:
        >>> import rushlight
        >>> rushlight.diag(rushlight.tensor([[1, 2], [3, 4]]))
        tensor([1, 4])
    """
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag: Supports 1D or 2D tensors. Got {input.ndim}D")
    return _diagonal_copy(input, diagonal)


def _diagonal_copy(input: Tensor, offset: int) -> Tensor:
    return diagonal(input, offset).clone()


@function(out=False)
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements of `input` on a diagonal, zeros elsewhere."""
    return diag_embed(reshape(input, -1) if input.numel() else reshaped(input, (0,)), offset)
