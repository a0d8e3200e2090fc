"""Systems of equations and what belongs to them: solve, inv, det, slogdet, solve_triangular."""

from __future__ import annotations

import warnings
from collections import namedtuple
from collections.abc import Callable

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import broadcast_shapes_of, structured
from rushlight.core.errors import LinAlgError, shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import elimination
from rushlight.kernels.cpu.blas import scipy_linalg
from rushlight.return_types import publish

SlogdetResult = namedtuple("slogdet", ("sign", "logabsdet"))
LinalgSlogdetResult = namedtuple("linalg_slogdet", ("sign", "logabsdet"))
InvResult = namedtuple("linalg_inv_ex", ("inverse", "info"))
SolveResult = namedtuple("linalg_solve_ex", ("result", "info"))
TriangularSolveResult = namedtuple("triangular_solve", ("solution", "cloned_coefficient"))
publish(SlogdetResult, LinalgSlogdetResult, InvResult, SolveResult, TriangularSolveResult)

A_SAMPLE = np.array([[[4, 1, 0.5], [1, 3, -1], [0.5, -1, 2]], [[2, 0, 1], [-1, 3, 0], [0, 1, 1.5]]], np.float32)
B_SAMPLE = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 3, 2)


def check_matrix(name: str, argument: str, m: Meta, square: bool = False) -> None:
    """RuntimeError unless the operand holds (square) matrices of float32, float64, complex64 or complex128."""
    if m.dtype not in (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128):
        low = " (low precision dtypes are not supported)" if m.dtype in dtypes.HALF else ""
        raise RuntimeError(
            f"{name}: expected {argument} to be a floating-point or complex tensor{low}, got {m.dtype.name}; convert "
            "it with "
            ".to(rushlight.float32)"
        )
    if m.ndim < 2:
        raise RuntimeError(
            f"{name}: the input tensor {argument} must have at least 2 dimensions, got shape {shape_text(m.shape)}"
        )
    if square and m.shape[-1] != m.shape[-2]:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {m.shape[-2]} by {m.shape[-1]} "
            "matrices"
        )


def plain(m: Meta, shape: tuple[int, ...] | None = None, dtype: dtypes.dtype | None = None) -> Meta:
    """Contiguous metadata like `m` with another shape or dtype."""
    return meta(dtype or m.dtype, m.shape if shape is None else shape, None, m.device)


def raising(name: str, function: Callable, *arrays: np.ndarray) -> np.ndarray:
    """Call a numpy.linalg function; its LinAlgError becomes ours."""
    try:
        return function(*arrays)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"{name}: {error}: the input matrix is singular") from None


# inv and solve


def _infer_inv(input: Meta) -> Meta:
    check_matrix("linalg.inv", "A", input, square=True)
    return plain(input)


inv_op = structured(
    "inv",
    _infer_inv,
    doc="Inverse of square matrices.",
    samples=lambda: [Sample((A_SAMPLE,)), Sample((A_SAMPLE[:0],))],
    errors=lambda: [
        ErrorSample((A_SAMPLE[0] * 0,), (), LinAlgError, "singular"),
        ErrorSample((A_SAMPLE[:, :2],), (), RuntimeError, "square"),
    ],
    reference=np.linalg.inv,
)


@kernel(inv_op, "cpu")
def _inv(a: np.ndarray) -> np.ndarray:
    if not elimination.takes(a):
        return raising("linalg.inv", np.linalg.inv, a)
    return _eliminated("linalg.inv", a, np.eye(a.shape[-1], dtype=a.dtype))


def _infer_solve(input: Meta, other: Meta) -> Meta:
    check_matrix("linalg.solve", "A", input, square=True)
    check_matrix("linalg.solve", "B", other)
    check_pair("linalg.solve", input, other)
    batch = broadcast_shapes_of("linalg.solve", [plain(input, input.shape[:-2]), plain(other, other.shape[:-2])])
    return plain(other, (*batch, *other.shape[-2:]))


def check_pair(name: str, a: Meta, b: Meta) -> None:
    """RuntimeError unless A X = B makes sense."""
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"{name}: expected A and B to have the same dtype, but found {a.dtype.name} and {b.dtype.name} instead"
        )
    if a.shape[-2] != b.shape[-2]:
        raise RuntimeError(
            f"{name}: incompatible shapes of A and B for the equation AX = B ({a.shape[-2]}x{a.shape[-1]} and "
            f"{b.shape[-2]}x{b.shape[-1]})"
        )


solve_op = structured(
    "solve",
    _infer_solve,
    doc="The solution X of A X = B.",
    samples=lambda: [Sample((A_SAMPLE, B_SAMPLE)), Sample((A_SAMPLE[0], B_SAMPLE))],
    errors=lambda: [
        ErrorSample((A_SAMPLE[0] * 0, B_SAMPLE[0]), (), LinAlgError, "singular"),
        ErrorSample((A_SAMPLE, B_SAMPLE[:, :2]), (), RuntimeError, "incompatible"),
    ],
    reference=np.linalg.solve,
)


@kernel(solve_op, "cpu")
def _solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if not elimination.takes(a) or not b.size:
        return raising("linalg.solve", np.linalg.solve, a, b)
    return _eliminated("linalg.solve", a, b)


def _eliminated(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solutions for large matrices, one after the other."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = np.broadcast_to(a, (*batch, *a.shape[-2:])), np.broadcast_to(b, (*batch, *b.shape[-2:]))
    result = np.empty(b.shape, b.dtype)
    for at in np.ndindex(*batch):
        solution = elimination.solve(a[at], b[at])
        if solution is None:
            raise LinAlgError(f"{name}: Singular matrix: the input matrix is singular")
        result[at] = solution
    return result


def is_vector(a: Tensor, b: Tensor) -> bool:
    """Does B hold vectors, one per matrix of A?"""
    return b.ndim == 1 or (a.ndim - 1 == b.ndim and b._meta.shape == a._meta.shape[:-1])


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose of matrices."""
    x = x.transpose(-2, -1)
    return x.conj() if x.dtype.is_complex else x


def _solved(name: str, A: Tensor, B: Tensor, left: bool) -> Tensor:
    check_matrix(name, "A", A._meta, square=True)
    if is_vector(A, B):
        if not left:
            raise RuntimeError(
                f"{name}: vector broadcasting of the left hand side is not supported for left=False; use "
                "B.unsqueeze(-2)"
            )
        return solve_op.apply((A, B.unsqueeze(-1))).squeeze(-1)
    if left:
        return solve_op.apply((A, B))
    check_matrix(name, "B", B._meta)
    return solve_op.apply((A.transpose(-2, -1), B.transpose(-2, -1))).transpose(-2, -1)


@function(namespace="linalg", method=False, autocast="wide")
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The solution X of `A X = B` (of `X A = B` without `left`).

    Shapes: `(*, n, n)`, `(*, n, k)` -> `(*, n, k)`, or vectors `(*, n)`. Raises LinAlgError for a singular A,
    RuntimeError for other shapes.

    Example:
        >>> import rushlight
        >>> rushlight.linalg.solve(rushlight.tensor([[2.0, 0.0], [0.0, 4.0]]), rushlight.tensor([2.0, 2.0]))
        tensor([1.0000, 0.5000])
    """
    return _solved("linalg.solve", A, B, left)


def no_info(a: Tensor) -> Tensor:
    """Zeros that say that all matrices of a batch were fine."""
    return a.new_zeros(a.shape[:-2], dtype=dtypes.int32)


def _zero_pivot(a: np.ndarray) -> int:
    """The row, from 1, where elimination stops as the matrix is singular; 0 for one that has an inverse."""
    try:
        _inv(a)
    except LinAlgError:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of what is asked here
            zeros = np.flatnonzero(np.diag(scipy_linalg().lu_factor(a, check_finite=False)[0]) == 0)
        return int(zeros[0]) + 1 if len(zeros) else a.shape[-1]
    return 0


def _or_nan(compute: Callable, a: Tensor, vector: bool, check_errors: bool) -> tuple[Tensor, Tensor]:
    """Result and info codes; without check_errors a singular matrix gives NaN and a code, and the others of a batch
    what they give alone."""
    try:
        return compute(a), no_info(a)
    except LinAlgError:
        if check_errors:
            raise
    matrices = a.detach().numpy()
    codes = np.array([_zero_pivot(matrices[at]) for at in np.ndindex(matrices.shape[:-2])], np.int32)
    info = a.new_tensor(codes.reshape(matrices.shape[:-2]), dtype=dtypes.int32)
    singular = (info != 0).unsqueeze(-1).unsqueeze(-1)
    identity = a.new_tensor(np.eye(a.shape[-1], dtype=matrices.dtype))
    result = compute(identity.where(singular, a))
    return result.masked_fill(singular.squeeze(-1) if vector else singular, float("nan")), info


@function(namespace="linalg", method=False, autocast="wide")
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> SolveResult:
    """`solve` that reports singular matrices in `info` instead of raising, unless `check_errors`."""
    vector = is_vector(A, B)
    return SolveResult(*_or_nan(lambda a: _solved("linalg.solve_ex", a, B, left), A, vector, check_errors))


@function(namespace="linalg", method=False, autocast="wide")
def inv(A: Tensor) -> Tensor:
    """Inverse of square matrices: `(*, n, n)` -> the same. Raises LinAlgError for a singular matrix, RuntimeError for
    other shapes."""
    return inv_op.apply((A,))


@function(autocast="wide")
def inverse(input: Tensor) -> Tensor:
    """Inverse of square matrices: `(*, n, n)` -> the same. Raises LinAlgError for a singular matrix, RuntimeError for
    other shapes."""
    return inv_op.apply((input,))


@function(namespace="linalg", method=False, autocast="wide")
def inv_ex(A: Tensor, *, check_errors: bool = False) -> InvResult:
    """`inv` that reports singular matrices in `info` instead of raising, unless `check_errors`."""
    return InvResult(*_or_nan(lambda a: inv_op.apply((a,)), A, False, check_errors))


# det and slogdet


def _infer_det(input: Meta) -> Meta:
    check_matrix("linalg.det", "A", input, square=True)
    return plain(input, input.shape[:-2])


det_op = structured(
    "det",
    _infer_det,
    doc="Determinant of square matrices.",
    samples=lambda: [Sample((A_SAMPLE,))],
    reference=np.linalg.det,
)
kernel(det_op, "cpu")(lambda a: np.linalg.det(a))


def _infer_slogdet(input: Meta) -> tuple[Meta, Meta]:
    check_matrix("linalg.slogdet", "A", input, square=True)
    return plain(input, input.shape[:-2]), plain(input, input.shape[:-2], input.dtype.to_real())


slogdet_op = structured(
    "slogdet",
    _infer_slogdet,
    doc="Sign and logarithm of the absolute value of the determinant.",
    samples=lambda: [Sample((A_SAMPLE,))],
    reference=lambda a: tuple(np.linalg.slogdet(a)),
)
kernel(slogdet_op, "cpu")(lambda a: tuple(np.linalg.slogdet(a)))


@function(autocast="wide")
def det(input: Tensor) -> Tensor:
    """Determinant of square matrices: `(*, n, n)` -> `(*)`. Raises RuntimeError for other shapes."""
    return det_op.apply((input,))


@function(name="det", namespace="linalg", method=False, autocast="wide")
def _linalg_det(A: Tensor) -> Tensor:
    """Determinant of square matrices: `(*, n, n)` -> `(*)`. Raises RuntimeError for other shapes."""
    return det_op.apply((A,))


@function(autocast="wide")
def slogdet(input: Tensor) -> SlogdetResult:
    """Sign and log of the absolute value of the determinant: `(*, n, n)` -> two of `(*)`. Raises RuntimeError for other
    shapes."""
    return SlogdetResult(*slogdet_op.apply((input,)))


@function(name="slogdet", namespace="linalg", method=False, autocast="wide")
def _linalg_slogdet(A: Tensor) -> LinalgSlogdetResult:
    """Sign and log of the absolute value of the determinant: `(*, n, n)` -> two of `(*)`. Raises RuntimeError for other
    shapes."""
    return LinalgSlogdetResult(*slogdet_op.apply((A,)))


@function(out=False, autocast="wide")
def logdet(input: Tensor) -> Tensor:
    """Logarithm of the determinant: NaN where that is negative. Raises RuntimeError unless the matrices are square."""
    sign, logabs = slogdet_op.apply((input,))
    if input.dtype.is_complex:
        return sign.log() + logabs
    return logabs.masked_fill(sign < 0, float("nan"))


# Triangular systems


def _infer_triangular(input: Meta, other: Meta, *, upper: bool, unitriangular: bool) -> Meta:
    check_matrix("linalg.solve_triangular", "A", input, square=True)
    check_matrix("linalg.solve_triangular", "B", other)
    check_pair("linalg.solve_triangular", input, other)
    batch = broadcast_shapes_of(
        "linalg.solve_triangular", [plain(input, input.shape[:-2]), plain(other, other.shape[:-2])]
    )
    return plain(other, (*batch, *other.shape[-2:]))


def _reference_triangular(a, b, upper, unitriangular):
    a = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        a = a - a * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    return np.linalg.solve(a, b)


solve_triangular_op = structured(
    "solve_triangular",
    _infer_triangular,
    doc="The solution X of A X = B for the upper or lower triangle of A.",
    samples=lambda: [Sample((A_SAMPLE, B_SAMPLE), (True, False)), Sample((A_SAMPLE[0], B_SAMPLE), (False, True))],
    reference=_reference_triangular,
)


@kernel(solve_triangular_op, "cpu")
def _solve_triangular(a: np.ndarray, b: np.ndarray, upper: bool, unitriangular: bool) -> np.ndarray:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = np.broadcast_to(a, (*batch, *a.shape[-2:])), np.broadcast_to(b, (*batch, *b.shape[-2:]))
    result = np.empty(b.shape, b.dtype)
    if result.size:
        trsm = scipy_linalg().get_blas_funcs("trsm", dtype=b.dtype)
        for at in np.ndindex(*batch):
            result[at] = trsm(1.0, a[at], b[at], lower=not upper, diag=unitriangular)
    return result


@function(namespace="linalg", method=False, autocast="wide")
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """The solution X of `A X = B` (of `X A = B` without `left`) for a triangular A, of which the other triangle is not
    read.

    Shapes: `(*, n, n)`, `(*, n, k)` -> `(*, n, k)`. Raises RuntimeError for other shapes; zeros on the diagonal give
    inf or NaN.
    """
    if left:
        return solve_triangular_op.apply((A, B), (bool(upper), bool(unitriangular)))
    check_matrix("linalg.solve_triangular", "A", A._meta)
    check_matrix("linalg.solve_triangular", "B", B._meta)
    flipped = solve_triangular_op.apply((A.transpose(-2, -1), B.transpose(-2, -1)), (not upper, bool(unitriangular)))
    return flipped.transpose(-2, -1)


@function(autocast="wide")
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolveResult:
    """The solution X of `A X = input` for a triangular A, and a copy of A. Raises RuntimeError for shapes that do not
    fit."""
    matrix, of_upper = (adjoint(A), not upper) if transpose else (A, upper)
    return TriangularSolveResult(
        solve_triangular_op.apply((matrix, input), (bool(of_upper), bool(unitriangular))), A.clone()
    )
