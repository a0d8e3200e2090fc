"""Vectors: cross and dot products, diagonals, traces, powers, chains of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.core import dtypes
from rushlight.core.declare import broadcast_shapes_of
from rushlight.core.errors import check_dim, shape_text
from rushlight.core.front import function
from rushlight.core.out import APART
from rushlight.core.tensor import Tensor
from rushlight.ops.einsum import chain
from rushlight.ops.join import stack


def _cross(name: str, a: Tensor, b: Tensor, dim: int) -> Tensor:
    if a.ndim != b.ndim:
        raise RuntimeError(f"{name}: inputs must have the same number of dimensions, got {a.ndim} and {b.ndim}")
    d = check_dim(name, dim, a.ndim)
    if a.shape[d] != 3 or b.shape[d] != 3:
        raise RuntimeError(f"{name}: inputs dimension {dim} must have length 3, got {a.shape[d]} and {b.shape[d]}")
    (a0, a1, a2), (b0, b1, b2) = a.unbind(d), b.unbind(d)
    broadcast_shapes_of(name, [a._meta, b._meta])
    return stack((a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0), d)


@function(out=APART)
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Cross product of vectors of 3 elements along `dim`, by default the first dimension of size 3.

    Raises RuntimeError when the sizes do not fit.
    """
    if dim is None:
        dim = next(
            (d for d, size in enumerate(broadcast_shapes_of("cross", [input._meta, other._meta])) if size == 3), None
        )
        if dim is None:
            raise RuntimeError(f"cross: no dimension of size 3 in input {shape_text(input.shape)}")
    return _cross("cross", input, other, dim)


@function(name="cross", namespace="linalg", method=False)
def _linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Cross product of vectors of 3 elements along `dim`. Raises RuntimeError when the sizes do not fit."""
    return _cross("linalg.cross", input, other, dim)


@function(namespace="linalg", method=False, autocast="narrow")
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Sum of `conj(x) * y` along `dim`. Raises RuntimeError when the shapes do not broadcast."""
    if not x.dtype.is_inexact:
        raise RuntimeError(f"linalg.vecdot: expected floating-point or complex tensors, got {x.dtype.name}")
    return ((x.conj() if x.dtype.is_complex else x) * y).sum(dim)


@function(namespace="linalg", method=False, out=False)
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonals of matrices: `(*, n, n)` -> `(*, n)`. Raises IndexError for a dimension out of range."""
    return A.diagonal(offset, dim1, dim2)


@function(name="vander", namespace="linalg", method=False, out=False)
def _linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Rising powers of each element: `(*, n)` -> `(*, n, N)`, N = n by default. Raises RuntimeError for N < 2."""
    count = (x.shape[-1] if x.ndim else 1) if N is None else N
    if count <= 1:
        raise RuntimeError(f"linalg.vander: N must be greater than 1, got {count}")
    return stack(_powers(x, count), -1)


@function(namespace="linalg", method=False)
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices in the cheapest order; the first and the last may be vectors.

    Raises RuntimeError for fewer than two tensors or shapes that do not fit.
    """
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"linalg.multi_dot: expected at least 2 tensors but got {len(tensors)}")
    ends = tensors[0].ndim, tensors[-1].ndim
    if not set(ends) <= {1, 2} or any(t.ndim != 2 for t in tensors[1:-1]):
        raise RuntimeError(
            f"linalg.multi_dot: the first and last tensors must be 1D or 2D and the others 2D, got "
            f"{', '.join(shape_text(t.shape) for t in tensors)}"
        )
    for t in tensors[1:]:
        if t.dtype is not tensors[0].dtype:
            raise RuntimeError(
                f"linalg.multi_dot: all tensors must have the same dtype, got {tensors[0].dtype.name} and "
                f"{t.dtype.name}"
            )
    if ends[0] == 1:
        tensors[0] = tensors[0].unsqueeze(0)
    if ends[1] == 1:
        tensors[-1] = tensors[-1].unsqueeze(1)
    result = chain("linalg.multi_dot", tensors)
    if ends[0] == 1:
        result = result.squeeze(0)
    return result.squeeze(-1) if ends[1] == 1 else result


def _powers(x: Tensor, count: int) -> list[Tensor]:
    """`x ** 0, x ** 1, ...`; integers in int64."""
    if not x.dtype.is_inexact:
        x = x.to(dtypes.int64)
    powers = [x.new_ones(x.shape)]
    for _ in range(count - 1):
        powers.append(powers[-1] * x)
    return powers


@function(method=False, out=False)
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of each element, falling unless `increasing`: `(n,)` -> `(n, N)`, N = n by default.

    Raises RuntimeError unless x is 1-D and N >= 0.
    """
    if x.ndim != 1:
        raise RuntimeError(f"vander: x must be a one-dimensional tensor, got {x.ndim}D")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError(f"vander: N must be non-negative, got {N}")
    if not count:
        return x.new_empty((x.shape[0], 0))
    powers = _powers(x, count)
    return stack(powers if increasing else powers[::-1], -1)


@function(out=False, autocast="wide")
def trace(input: Tensor) -> Tensor:
    """Sum of the diagonal of a matrix: `(n, m)` -> `()`. Raises RuntimeError for other numbers of dimensions.

    Example:
        >>> import rushlight
        >>> rushlight.trace(rushlight.eye(3))
        tensor(3.)
    """
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got a tensor with {input.ndim} dimensions")
    return input.diagonal().sum()
