"""The linear algebra extension of the standard: `rushlight.array_api.linalg`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.array_api._manipulation import Axes
from rushlight.array_api._promotion import cast
from rushlight.array_api._statistics import folded, sum
from rushlight.core.dtypes import dtype as Dtype
from rushlight.core.errors import check_dim
from rushlight.core.tensor import Tensor

__all__ = ["cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul",
           "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve",
           "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm"]

det = rl.linalg.det
eig = rl.linalg.eig
eigvals = rl.linalg.eigvals
inv = rl.linalg.inv
matrix_power = rl.linalg.matrix_power
slogdet = rl.linalg.slogdet
svdvals = rl.linalg.svdvals


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangular factor L of positive definite matrices `L @ L^H`, or its conjugate transpose.

    Raises LinAlgError for matrices that are not positive definite.
    """
    return rl.linalg.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Vector products of 3-vectors along an axis; the other axes broadcast.

    Raises RuntimeError when the axis has another size, IndexError when it is out of range.
    """
    return rl.linalg.cross(*rl.broadcast_tensors(*cast(x1, x2)), dim=axis)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices, as a view."""
    return rl.linalg.diagonal(x, offset=offset)


def eigh(x: Tensor, /) -> Any:
    """Eigenvalues in ascending order and eigenvectors of Hermitian matrices."""
    return rl.linalg.eigh(x)


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues of Hermitian matrices in ascending order."""
    return rl.linalg.eigvalsh(x)


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product; operands promote."""
    return rl.matmul(*cast(x1, x2))


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of matrices: `"fro"`, `"nuc"`, 1, 2, inf or one of the negatives."""
    return rl.linalg.matrix_norm(x, ord, keepdim=keepdims)


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """How many singular values are larger than `rtol` times the largest."""
    return rl.linalg.matrix_rank(x, rtol=rtol)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The matrices transposed, as a view."""
    return x.mT


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Every product of an element of one vector with one of the other."""
    return rl.outer(*cast(x1, x2))


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The Moore-Penrose inverse; singular values up to `rtol` times the largest count as zero."""
    return rl.linalg.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    """Matrices as the product of one with orthonormal columns and an upper triangular one."""
    return rl.linalg.qr(x, mode)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solution of `x1 @ x = x2`; a 1-D `x2` is one vector, others are matrices."""
    x1, x2 = cast(x1, x2)
    if x2.ndim > 1 and x2.shape == x1.shape[:-1]:
        x2 = x2.unsqueeze(0)  # PyTorch would take it as a batch of vectors
    return rl.linalg.solve(x1, x2)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """Matrices as `U @ diag(S) @ Vh` with orthonormal U, Vh and descending S."""
    return rl.linalg.svd(x, full_matrices)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Products summed over the axes named: the last of one with the first of the other, or pairs."""
    return rl.tensordot(*cast(x1, x2), dims=axes)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Dtype | None = None) -> Tensor:
    """The sums of the diagonals of matrices, with the dtype of `sum`."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sums along an axis of `conj(x1) * x2`; the other axes broadcast.

    Raises ValueError when the axes differ in size, IndexError when out of range.
    """
    for x in (x1, x2):
        check_dim("vecdot", axis, x.ndim, "axis")
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: axis {axis} has size {x1.shape[axis]} in x1 and {x2.shape[axis]} in x2")
    x1, x2 = cast(x1, x2)
    if not (x1.is_floating_point() or x1.is_complex()):  # PyTorch's refuses integers
        return rl.sum(x1 * x2, axis, dtype=x1.dtype)
    return rl.linalg.vecdot(x1, x2, dim=axis)


def vector_norm(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False, ord: int | float = 2) -> Tensor:
    """A p-norm along the axes: the p-th root of the sum of the p-th powers of the absolute values."""
    return folded(rl.linalg.vector_norm, x, axis, keepdims, ord=ord)
