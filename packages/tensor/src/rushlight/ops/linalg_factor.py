"""Factorizations by elimination: cholesky, LU, LDL, and solving with them."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import broadcast_shapes_of, structured
from rushlight.core.errors import LinAlgError
from rushlight.core.front import function
from rushlight.core.meta import Meta
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import elimination
from rushlight.kernels.cpu.blas import scipy_linalg
from rushlight.ops.linalg_solve import A_SAMPLE, B_SAMPLE, adjoint, check_matrix, check_pair, plain, solve_triangular_op
from rushlight.ops.ranges import eye
from rushlight.return_types import publish

CholeskyResult = namedtuple("linalg_cholesky_ex", ("L", "info"))
LuFactorResult = namedtuple("linalg_lu_factor", ("LU", "pivots"))
LuFactorExResult = namedtuple("linalg_lu_factor_ex", ("LU", "pivots", "info"))
LuResult = namedtuple("linalg_lu", ("P", "L", "U"))
LuUnpackResult = namedtuple("lu_unpack", ("P", "L", "U"))
LdlFactorResult = namedtuple("linalg_ldl_factor", ("LD", "pivots"))
LdlFactorExResult = namedtuple("linalg_ldl_factor_ex", ("LD", "pivots", "info"))
publish(CholeskyResult, LuFactorResult, LuFactorExResult, LuResult, LuUnpackResult, LdlFactorResult, LdlFactorExResult)

_DIRECT = 64  # rows from which on LAPACK is called a matrix at a time
_POSITIVE = np.array([[4, 1, 0.5], [1, 3, -1], [0.5, -1, 2]], np.float32)


def lapack(name: str, dtype: np.dtype) -> Any:
    """A LAPACK routine of scipy, which only loads when it is needed."""
    return scipy_linalg().get_lapack_funcs(name, dtype=dtype)


# cholesky


def _infer_cholesky(input: Meta, *, check: bool) -> tuple[Meta, Meta]:
    check_matrix("linalg.cholesky", "A", input, square=True)
    return plain(input), plain(input, input.shape[:-2], dtypes.int32)


cholesky_op = structured(
    "cholesky",
    _infer_cholesky,
    doc="Lower triangular L with L L^H = A, and for each matrix 0 or the order of the minor that is not positive.",
    samples=lambda: [Sample((_POSITIVE,), (True,)), Sample((np.stack([_POSITIVE, 2 * _POSITIVE]),), (False,))],
    errors=lambda: [ErrorSample((-_POSITIVE,), (True,), LinAlgError, "not positive-definite")],
    reference=lambda a, check: (np.linalg.cholesky(a), np.zeros(a.shape[:-2])),
)


@kernel(cholesky_op, "cpu")
def _cholesky(a: np.ndarray, check: bool) -> tuple[np.ndarray, np.ndarray]:
    if a.dtype.kind == "f" and a.shape[-1] >= _DIRECT:
        return _each_cholesky(a, elimination.cholesky, check)
    try:
        return np.linalg.cholesky(a), np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        potrf = lapack("potrf", a.dtype)
        return _each_cholesky(a, lambda matrix: potrf(matrix, lower=True, clean=True), check)


def _each_cholesky(a: np.ndarray, factor: Callable, check: bool) -> tuple[np.ndarray, np.ndarray]:
    result, info = np.empty(a.shape, a.dtype), np.zeros(a.shape[:-2], np.int32)
    for at in np.ndindex(*a.shape[:-2]):
        result[at], info[at] = factor(a[at])
        if check and info[at] > 0:
            raise LinAlgError(
                f"linalg.cholesky: (Batch element {at}): The factorization could not be completed because the input "
                "is not "
                f"positive-definite (the leading minor of order {info[at]} is not positive-definite)."
            )
    return result, info


def _factor(A: Tensor, upper: bool, check: bool) -> tuple[Tensor, Tensor]:
    check_matrix("linalg.cholesky", "A", A._meta, square=True)
    if not upper:
        return cholesky_op.apply((A,), (check,))
    lower, info = cholesky_op.apply((adjoint(A),), (check,))
    return adjoint(lower), info


@function(namespace="linalg", method=False, name="cholesky", autocast="wide")
def _linalg_cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """Lower triangular L with `L L^H = A` (upper U with `U^H U = A`) of Hermitian positive-definite matrices `(*, n,
    n)`.

    Raises LinAlgError for other matrices, RuntimeError for other shapes.
    """
    return _factor(A, upper, True)[0]


@function(autocast="wide")
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """`linalg.cholesky`. Raises LinAlgError for matrices that are not positive-definite, RuntimeError for other
    shapes."""
    return _factor(input, upper, True)[0]


@function(namespace="linalg", method=False, autocast="wide")
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyResult:
    """`cholesky` that reports matrices that are not positive-definite in `info` instead of raising, unless
    `check_errors`."""
    return CholeskyResult(*_factor(A, upper, check_errors))


@function(autocast="wide")
def cholesky_solve(input: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """The solution X of `A X = input` given the Cholesky factor of A: `(*, n, k)`, `(*, n, n)` -> `(*, n, k)`.

    Raises RuntimeError for shapes that do not fit.
    """
    check_matrix("cholesky_solve", "input", input._meta)
    check_matrix("cholesky_solve", "L", L._meta, square=True)
    check_pair("cholesky_solve", L._meta, input._meta)
    first, second = (adjoint(L), L) if upper else (L, adjoint(L))
    return solve_triangular_op.apply((second, solve_triangular_op.apply((first, input), (False, False))), (True, False))


@function(autocast="wide")
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of a matrix given its Cholesky factor: `(*, n, n)` -> the same. Raises RuntimeError for other
    shapes."""
    check_matrix("cholesky_inverse", "L", L._meta, square=True)
    identity = L.new_zeros(L.shape) + _identity(L)
    return cholesky_solve(identity, L, upper)


def _identity(like: Tensor) -> Tensor:
    return eye(like.shape[-2], like.shape[-1], dtype=like.dtype, device=like.device)


# LU


def _infer_lu(input: Meta, *, check: bool) -> tuple[Meta, Meta, Meta]:
    check_matrix("linalg.lu_factor", "A", input)
    batch, small = input.shape[:-2], min(input.shape[-2:])
    return plain(input), plain(input, (*batch, small), dtypes.int32), plain(input, batch, dtypes.int32)


lu_factor_op = structured(
    "lu_factor",
    _infer_lu,
    doc="L and U of P L U = A in one matrix, the row swaps (from 1), and 0 or the index of a zero pivot.",
    samples=lambda: [Sample((A_SAMPLE,), (True,)), Sample((B_SAMPLE,), (False,))],
)


@kernel(lu_factor_op, "cpu")
def _lu_factor(a: np.ndarray, check: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    result = np.empty(a.shape, a.dtype)
    pivots = np.ones((*a.shape[:-2], min(a.shape[-2:])), np.int32)
    info = np.zeros(a.shape[:-2], np.int32)
    if result.size:
        getrf = elimination.lu if elimination.takes(a) else lapack("getrf", a.dtype)
        for at in np.ndindex(*a.shape[:-2]):
            result[at], swaps, info[at] = getrf(a[at])
            pivots[at] = swaps + 1
            if check and info[at] > 0:
                raise LinAlgError(
                    f"linalg.lu_factor: (Batch element {at}): U[{info[at]},{info[at]}] is zero and using it on "
                    "lu_solve would "
                    "result in a division by zero"
                )
    return result, pivots, info


def _infer_permutation(input: Meta, *, size: int, dtype: dtypes.dtype) -> Meta:
    return plain(input, (*input.shape[:-1], size, size), dtype)


permutation_op = structured(
    "lu_permutation",
    _infer_permutation,
    doc="The permutation matrices P of the row swaps of an LU factorization.",
    samples=lambda: [Sample((np.array([[2, 3, 3]], np.int32),), (3, dtypes.float32))],
    errors=lambda: [
        ErrorSample((np.array([[2, 4, 3]], np.int32),), (3, dtypes.float32), RuntimeError, "between 1 and 3")
    ],
)


@kernel(permutation_op, "cpu")
def _permutation(pivots: np.ndarray, size: int, dtype: dtypes.dtype) -> np.ndarray:
    if pivots.size and (pivots.min() < 1 or pivots.max() > size):
        raise RuntimeError(f"lu_unpack: pivots must lie between 1 and {size}, got {pivots.min()} to {pivots.max()}")
    order = np.broadcast_to(np.arange(size), (*pivots.shape[:-1], size)).copy()
    for at in np.ndindex(*pivots.shape[:-1]):
        for i, p in enumerate(pivots[at]):
            order[(*at, i)], order[(*at, p - 1)] = order[(*at, p - 1)], order[(*at, i)]
    return (order[..., None, :] == np.arange(size)[:, None]).astype(dtype.numpy)


def unpacked(LU: Tensor, pivots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """P, L and U of the two results of an LU factorization."""
    m, n = LU.shape[-2:]
    small = min(m, n)
    lower = LU.narrow(-1, 0, small).tril(-1)
    return (permutation_op.apply((pivots,), (m, LU.dtype)), lower + _identity(lower), LU.narrow(-2, 0, small).triu())


def _check_pivot(name: str, pivot: bool) -> None:
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU")


@function(namespace="linalg", method=False, autocast="wide")
def lu_factor(A: Tensor, *, pivot: bool = True) -> LuFactorResult:
    """Compact LU factorization with row swaps: `(*, m, n)` -> `(*, m, n)` and `(*, min(m, n))`. Raises RuntimeError
    without pivoting."""
    _check_pivot("linalg.lu_factor", pivot)
    return LuFactorResult(*lu_factor_op.apply((A,), (True,))[:2])


@function(namespace="linalg", method=False, autocast="wide")
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LuFactorExResult:
    """`lu_factor` that also reports zero pivots in `info`. Raises RuntimeError without pivoting."""
    _check_pivot("linalg.lu_factor_ex", pivot)
    return LuFactorExResult(*lu_factor_op.apply((A,), (check_errors,)))


@function(namespace="linalg", method=False, autocast="wide")
def lu(A: Tensor, *, pivot: bool = True) -> LuResult:
    """P, L, U with `A = P L U`: a permutation, a unit lower and an upper triangle. Raises RuntimeError without
    pivoting."""
    _check_pivot("linalg.lu", pivot)
    return LuResult(*unpacked(*lu_factor_op.apply((A,), (False,))[:2]))


@function(name="lu", autocast="wide")
def _lu_root(input: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """Compact LU factorization, row swaps, and info codes for `get_infos`. Raises RuntimeError without pivoting."""
    _check_pivot("lu", pivot)
    results = lu_factor_op.apply((input,), (False,))
    return LuFactorExResult(*results) if get_infos else LuFactorResult(*results[:2])


@function(method=False)
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> LuUnpackResult:
    """P, L and U of a compact LU factorization; what is not asked for is an empty tensor. Raises RuntimeError for
    pivots out of range."""
    if LU_pivots.dtype is not dtypes.int32:
        raise RuntimeError(
            f"lu_unpack: expected LU_pivots to have dtype int32, got {LU_pivots.dtype.name}; they start at 1"
        )
    P, L, U = unpacked(LU_data, LU_pivots)
    empty = LU_data.new_zeros((0,))
    return LuUnpackResult(P if unpack_pivots else empty, L if unpack_data else empty, U if unpack_data else empty)


def _lu_solved(LU: Tensor, pivots: Tensor, B: Tensor, adjoint_too: bool) -> Tensor:
    P, L, U = unpacked(LU, pivots)
    if adjoint_too:
        y = solve_triangular_op.apply((adjoint(U), B), (False, False))
        return P @ solve_triangular_op.apply((adjoint(L), y), (True, True))
    y = solve_triangular_op.apply((L, P.transpose(-2, -1) @ B), (False, True))
    return solve_triangular_op.apply((U, y), (True, False))


@function(namespace="linalg", method=False, name="lu_solve", autocast="wide")
def _linalg_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """The solution X of `A X = B` given the compact LU factorization of A; of `X A = B` without `left`, of `A^H X = B`
    for `adjoint`.

    Raises RuntimeError for shapes that do not fit.
    """
    check_matrix("linalg.lu_solve", "LU", LU._meta, square=True)
    check_matrix("linalg.lu_solve", "B", B._meta)
    if pivots.dtype is not dtypes.int32:
        raise RuntimeError(f"linalg.lu_solve: expected pivots to have dtype int32, got {pivots.dtype.name}")
    if not left:
        flipped = B.transpose(-2, -1).conj() if B.dtype.is_complex else B.transpose(-2, -1)
        solved = _lu_solved(LU, pivots, flipped, not adjoint).transpose(-2, -1)
        return solved.conj() if B.dtype.is_complex else solved
    return _lu_solved(LU, pivots, B, adjoint)


@function(autocast="wide")
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """The solution X of `A X = input` given the compact LU factorization of A. Raises RuntimeError for shapes that do
    not fit."""
    return _linalg_lu_solve(LU_data, LU_pivots, input)


# LDL


def _infer_ldl(input: Meta, *, hermitian: bool, check: bool) -> tuple[Meta, Meta, Meta]:
    check_matrix("linalg.ldl_factor", "A", input, square=True)
    batch = input.shape[:-2]
    return plain(input), plain(input, input.shape[:-1], dtypes.int32), plain(input, batch, dtypes.int32)


ldl_factor_op = structured(
    "ldl_factor",
    _infer_ldl,
    doc="L and D of A = L D L^T (L^H for Hermitian) in one matrix, the pivots as LAPACK stores them, and info codes.",
    samples=lambda: [Sample((_POSITIVE,), (False, True))],
)


def _ldl_name(kind: str, array: np.ndarray, hermitian: bool) -> str:
    return ("he" if hermitian and array.dtype.kind == "c" else "sy") + kind


@kernel(ldl_factor_op, "cpu")
def _ldl_factor(a: np.ndarray, hermitian: bool, check: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    result, pivots = np.empty(a.shape, a.dtype), np.empty(a.shape[:-1], np.int32)
    info = np.zeros(a.shape[:-2], np.int32)
    if result.size:
        trf = lapack(_ldl_name("trf", a, hermitian), a.dtype)
        for at in np.ndindex(*a.shape[:-2]):
            factor, pivots[at], info[at] = trf(a[at], lower=True)
            result[at] = np.tril(factor)
            if check and info[at] > 0:
                raise LinAlgError(
                    f"linalg.ldl_factor: (Batch element {at}): the factor D is exactly singular at {info[at]}"
                )
    return result, pivots, info


@function(namespace="linalg", method=False, autocast="wide")
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> LdlFactorResult:
    """Compact LDL factorization of symmetric (or Hermitian) matrices, with pivots. Raises RuntimeError unless they are
    square."""
    return LdlFactorResult(*ldl_factor_op.apply((A,), (bool(hermitian), True))[:2])


@function(namespace="linalg", method=False, autocast="wide")
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> LdlFactorExResult:
    """`ldl_factor` that also reports singular matrices in `info`. Raises RuntimeError unless they are square."""
    return LdlFactorExResult(*ldl_factor_op.apply((A,), (bool(hermitian), bool(check_errors))))


def _infer_ldl_solve(input: Meta, pivots: Meta, other: Meta, *, hermitian: bool) -> Meta:
    check_matrix("linalg.ldl_solve", "LD", input, square=True)
    check_matrix("linalg.ldl_solve", "B", other)
    check_pair("linalg.ldl_solve", input, other)
    if pivots.dtype.category != 1 or pivots.shape != input.shape[:-1]:
        raise RuntimeError(
            f"linalg.ldl_solve: expected pivots of an integer dtype and shape {list(input.shape[:-1])}, got {pivots}"
        )
    batch = broadcast_shapes_of("linalg.ldl_solve", [plain(input, input.shape[:-2]), plain(other, other.shape[:-2])])
    return plain(other, (*batch, *other.shape[-2:]))


ldl_solve_op = structured(
    "ldl_solve",
    _infer_ldl_solve,
    doc="The solution X of A X = B given the compact LDL factorization of A.",
    samples=lambda: [Sample((np.tril(_POSITIVE), np.array([1, 2, 3], np.int32), B_SAMPLE[0]), (False,))],
)


@kernel(ldl_solve_op, "cpu")
def _ldl_solve(factor: np.ndarray, pivots: np.ndarray, b: np.ndarray, hermitian: bool) -> np.ndarray:
    batch = np.broadcast_shapes(factor.shape[:-2], b.shape[:-2])
    factor, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (factor, b))
    pivots = np.broadcast_to(pivots, factor.shape[:-1])
    result = np.empty(b.shape, b.dtype)
    if result.size:
        _check_ldl_pivots(pivots.reshape(-1, factor.shape[-1]))
        trs = lapack(_ldl_name("trs", factor, hermitian), factor.dtype)
        for at in np.ndindex(*b.shape[:-2]):
            result[at] = trs(factor[at], pivots[at].astype(np.int32), b[at], lower=True)[0]
    return result


def _check_ldl_pivots(rows: np.ndarray) -> None:
    """LAPACK trusts pivots, so they must be row numbers from 1, negative in pairs."""
    n = rows.shape[1]
    if rows.size and (np.abs(rows).min() < 1 or np.abs(rows).max() > n):
        raise RuntimeError(
            f"linalg.ldl_solve: pivots must lie between 1 and {n} in size, got {rows.min()} to {rows.max()}"
        )
    for row in (rows < 0).tolist():
        k = 0
        while k < n:
            if row[k] and (k + 1 == n or not row[k + 1]):
                raise RuntimeError("linalg.ldl_solve: negative pivots must come in pairs, as ldl_factor makes them")
            k += 1 + row[k]


@function(namespace="linalg", method=False, autocast="wide")
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """The solution X of `A X = B` given the compact LDL factorization of A. Raises RuntimeError for shapes that do not
    fit."""
    return ldl_solve_op.apply((LD, pivots, B), (bool(hermitian),))
