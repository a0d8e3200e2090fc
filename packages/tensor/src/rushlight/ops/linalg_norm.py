"""Norms of vectors and matrices."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import cache

import numpy as np

from rushlight.core import checks, dtypes
from rushlight.core import scalar as s
from rushlight.core.declare import reduction
from rushlight.core.dtypes import dtype as Dtype
from rushlight.core.errors import check_dim, check_dims, shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.native import of_loops
from rushlight.core.op import ErrorSample, Fold, Sample
from rushlight.core.tensor import Tensor
from rushlight.ops.reduction import added, reduced_shape

Order = int | float | str | None
Dims = int | Sequence[int] | None

_X = np.linspace(-2, 1, 6, dtype=np.float32).reshape(2, 3)


def _infer(input: Meta, *, dim: tuple[int, ...], keepdim: bool, ord: float) -> Meta:
    checks.floating("vector_norm", "input", input, complex_too=True)
    if ord < 0 or ord == math.inf:
        empty = [d for d in dim if input.shape[d] == 0]
        if empty:
            raise RuntimeError(
                f"vector_norm: cannot compute the {ord} norm over dimension {empty[0]} of size 0: it has no identity; "
                f"the input has shape {shape_text(input.shape)}"
            )
    return meta(input.dtype.to_real(), reduced_shape(input.shape, dim, keepdim), None, input.device)


_FEW = 256


def _total(x: np.ndarray, dim: tuple[int, ...], keepdim: bool) -> np.ndarray:
    """The sum, kept from losing digits down long columns."""
    if x.size <= _FEW:
        return x.sum(axis=dim, keepdims=keepdim)
    return added(x, dim, keepdim, dtypes.from_numpy_dtype(x.dtype))


@of_loops
def _norm(x: np.ndarray, dim: tuple[int, ...], keepdim: bool, ord: float) -> np.ndarray:
    x = checks.widened(x)
    if ord == 0:
        return np.count_nonzero(x, axis=dim, keepdims=keepdim)
    if ord == 2:
        squares = np.square(x) if x.dtype.kind == "f" else np.square(x.real) + np.square(x.imag)
        return np.sqrt(_total(squares, dim, keepdim))
    size = np.abs(x)
    if ord == math.inf:
        return size.max(axis=dim, keepdims=keepdim)
    if ord == -math.inf:
        return size.min(axis=dim, keepdims=keepdim)
    if ord == 1:
        return _total(size, dim, keepdim)
    size **= size.dtype.type(ord)
    return _total(size, dim, keepdim) ** (1 / ord)


def _of_vectors(x: np.ndarray, dim: tuple[int, ...], keepdim: bool, ord: float) -> np.ndarray:
    """The reference: numpy's norm of every vector."""
    kept = [d for d in range(x.ndim) if d not in dim]
    vectors = x.transpose(*kept, *dim).reshape(*[x.shape[d] for d in kept], -1)
    norms = np.apply_along_axis(np.linalg.norm, -1, vectors, ord)
    return norms.reshape(reduced_shape(x.shape, dim, keepdim))


@cache
def _fold(ord: float) -> Fold:
    """How a norm of real numbers folds them, in one pass."""
    if math.isinf(ord):
        return Fold(None, s.maximum if ord > 0 else s.minimum, pre=s.abs)
    if ord == 0:
        return Fold(0, operator.add, pre=lambda x: s.cast(x != 0, s.dtype_of(x)))
    if ord == 1:
        return Fold(0, operator.add, pre=s.abs)
    if ord == 2:
        return Fold(0, operator.add, lambda total, n: s.sqrt(total), lambda x: x * x)
    return Fold(
        0,
        operator.add,
        lambda total, n: s.pow(total, s.constant(1 / ord, total)),
        lambda x: s.pow(s.abs(x), s.constant(ord, x)),
    )


vector_norm_op = reduction(
    "vector_norm",
    _infer,
    numpy=_norm,
    reduce=lambda dim, keepdim, ord: _fold(ord),
    doc="`sum(|input| ** ord) ** (1 / ord)` over dimensions; the largest for inf, the smallest for -inf.",
    samples=lambda: [
        Sample((_X,), ((1,), False, 2.0)),
        Sample((_X,), ((0, 1), True, 1.0)),
        Sample((_X,), ((0,), False, math.inf)),
        Sample((_X,), ((1,), False, 3.5)),
        Sample((_X,), ((1,), False, 0.0)),
    ],
    errors=lambda: [
        ErrorSample((_X[:, :0],), ((1,), False, -1.0), RuntimeError, "no identity"),
        ErrorSample((np.arange(3),), ((0,), False, 2.0), RuntimeError, "floating-point"),
    ],
    reference=lambda x, dim, keepdim, ord: _of_vectors(x, dim, keepdim, ord),
)


def _in(name: str, x: Tensor, dtype: Dtype | None) -> Tensor:
    """The input in the dtype asked for, which must not be narrower."""
    if dtype is None or dtype is x.dtype:
        return x
    if x.dtype.is_complex != dtype.is_complex or dtypes.promote_types(x.dtype, dtype) is not dtype:
        raise RuntimeError(
            f"{name}: dtype must be a floating-point (complex for complex input) dtype that can hold {x.dtype.name}, "
            "got "
            f"{dtype.name}; the input should be convertible without narrowing"
        )
    return x.to(dtype)


def vector_norm_of(name: str, x: Tensor, ord: int | float, dim: Dims, keepdim: bool) -> Tensor:
    """Norm over dims given in any form."""
    dims = check_dims(name, dim, x.ndim)
    return vector_norm_op.apply((x,), (dims, bool(keepdim), float(ord) + 0.0))


@function(namespace="linalg", method=False, memo=True)
def vector_norm(
    x: Tensor, ord: int | float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Dtype | None = None
) -> Tensor:
    """`sum(|x| ** ord) ** (1 / ord)` over `dim` (all elements by default); inf takes the largest, -inf the smallest, 0
    counts nonzeros.

    Raises RuntimeError for integer input or a narrower `dtype`, IndexError for a dimension out of range.

    Example:
        >>> import rushlight
        >>> rushlight.linalg.vector_norm(rushlight.tensor([3.0, 4.0]))
        tensor(5.)
    """
    if isinstance(ord, str) or ord is None:
        raise TypeError(f"linalg.vector_norm: ord must be a number, got {ord!r}")
    return vector_norm_of("linalg.vector_norm", _in("linalg.vector_norm", x, dtype), ord, dim, keepdim)


_MATRIX_ORDERS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


def matrix_norm_of(name: str, A: Tensor, ord: Order, dim: Sequence[int], keepdim: bool) -> Tensor:
    """Norm of the matrices in two dimensions."""
    if len(dim) != 2:
        raise RuntimeError(f"{name}: dim must name two dimensions for a matrix norm, got {list(dim)}")
    if A.ndim < 2:
        raise RuntimeError(f"{name}: the input tensor must have at least 2 dimensions, got {A.ndim}")
    if ord not in _MATRIX_ORDERS:
        raise RuntimeError(
            f"{name}: order {ord!r} not supported for matrices; it takes {', '.join(map(repr, _MATRIX_ORDERS))}"
        )
    row, column = (check_dim(name, d, A.ndim) for d in dim)
    if row == column:
        raise RuntimeError(f"{name}: dims must be different, got {list(dim)}")
    if ord == "fro":
        return vector_norm_of(name, A, 2, (row, column), keepdim)
    if ord in ("nuc", 2, -2):
        from rushlight.ops.linalg_svd import svdvals  # svd needs norms for nothing, norms need svd only here

        values = svdvals(A.movedim((row, column), (-2, -1)))
        if ord == "nuc" or not values.shape[-1]:  # a matrix without elements has norm 0
            values = values.sum(-1)
        else:
            values = values.amax(-1) if ord == 2 else values.amin(-1)
        return _kept(values, (row, column), keepdim)
    if abs(ord) == 1:
        row, column = column, row
    sums = A.abs().sum(column, keepdim=True)
    if A.shape[row] == 0 and ord > 0:
        result = sums.sum(row, keepdim=True)  # the largest of no sums of absolute values is 0
    else:
        result = sums.amax(row, keepdim=True) if ord > 0 else sums.amin(row, keepdim=True)
    return result if keepdim else result.squeeze((row, column))


def _kept(values: Tensor, dims: tuple[int, int], keepdim: bool) -> Tensor:
    if not keepdim:
        return values
    low, high = sorted(dims)
    return values.unsqueeze(low).unsqueeze(high)


@function(namespace="linalg", method=False)
def matrix_norm(
    A: Tensor, ord: Order = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Dtype | None = None
) -> Tensor:
    """Norm of matrices: "fro", "nuc" (sum of singular values), 2 and -2 (largest and smallest), 1, -1 (column sums),
    inf, -inf (row sums).

    Shapes: `(*, n, m)` -> `(*)`. Raises RuntimeError for another order, integer input or fewer than two dimensions.
    """
    checks.floating("linalg.matrix_norm", "A", A._meta, complex_too=True)
    return matrix_norm_of("linalg.matrix_norm", _in("linalg.matrix_norm", A, dtype), ord, dim, keepdim)


@function(name="norm", namespace="linalg", method=False)
def _linalg_norm(
    A: Tensor, ord: Order = None, dim: Dims = None, keepdim: bool = False, *, dtype: Dtype | None = None
) -> Tensor:
    """Vector or matrix norm: of vectors for one `dim`, of matrices for two; 2-norm of all elements when ord and dim are
    None.

    Raises RuntimeError for an order or dims that do not fit.
    """
    name = "linalg.norm"
    checks.floating(name, "A", A._meta, complex_too=True)
    A = _in(name, A, dtype)
    if ord is None:
        return vector_norm_of(name, A, 2, dim, keepdim)
    if dim is not None and (isinstance(dim, int) or len(dim) == 1):
        if isinstance(ord, str):
            raise RuntimeError(f"{name}: order {ord!r} needs two dimensions, got dim={dim}")
        return vector_norm_of(name, A, ord, dim, keepdim)
    if dim is None and A.ndim not in (1, 2):
        raise RuntimeError(f"{name}: if dim is not specified but ord is, the input must be 1D or 2D; got {A.ndim}D")
    if dim is None and A.ndim == 1:
        if isinstance(ord, str):
            raise RuntimeError(f"{name}: order {ord!r} can only be used for matrices, the input is 1D")
        return vector_norm_of(name, A, ord, None, keepdim)
    return matrix_norm_of(name, A, ord, (0, 1) if dim is None else dim, keepdim)


@function(memo=True)
def norm(
    input: Tensor, p: Order = "fro", dim: Dims = None, keepdim: bool = False, *, dtype: Dtype | None = None
) -> Tensor:
    """Norm of order `p` over `dim` (all elements by default); "nuc" is the sum of the singular values of matrices.

    Raises RuntimeError for an order or dims that do not fit. See also linalg.vector_norm and linalg.matrix_norm.
    """
    if not input.dtype.is_inexact and dtype is None:
        raise RuntimeError(
            f"norm: input must have a floating-point or complex dtype, got {input.dtype.name}; convert it with "
            ".to(dtype)"
        )
    x = input if dtype is None else input.to(dtype)
    if p == "nuc":
        return matrix_norm_of("norm", x, "nuc", (-2, -1) if dim is None else dim, keepdim)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"norm: p must be a number, 'fro' or 'nuc', got {p!r}")
    return vector_norm_of("norm", x, 2 if p in ("fro", None) else p, dim, keepdim)


@function(method=False)
def frobenius_norm(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Square root of the sum of squares over `dim`. Raises RuntimeError for integer input."""
    return vector_norm_of("frobenius_norm", input, 2, dim, keepdim)


@function(method=False)
def nuclear_norm(input: Tensor, dim: Sequence[int] = (-2, -1), keepdim: bool = False) -> Tensor:
    """Sum of the singular values of matrices. Raises RuntimeError for fewer than two dimensions."""
    return matrix_norm_of("nuclear_norm", input, "nuc", dim, keepdim)


@function(method=False, out=False)
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Norm over all dimensions but `dim`, keeping them: what weight normalization divides by."""
    if dim == -1:
        return v.norm(pow)
    others = [d for d in range(v.ndim) if d != check_dim("norm_except_dim", dim, v.ndim)]
    return v.norm(pow, others, True) if others else v.abs()
