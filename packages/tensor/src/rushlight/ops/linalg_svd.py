"""Orthogonal factorizations: svd, qr, and pinv, lstsq, rank and condition number with them."""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import broadcast_shapes_of, structured
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.op import Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.ops.linalg_eig import eigh_op
from rushlight.ops.linalg_norm import matrix_norm_of
from rushlight.ops.linalg_solve import A_SAMPLE, adjoint, check_matrix, inv_op, plain, raising
from rushlight.return_types import publish

SvdResult = namedtuple("svd", ("U", "S", "V"))
LinalgSvdResult = namedtuple("linalg_svd", ("U", "S", "Vh"))
QrResult = namedtuple("qr", ("Q", "R"))
LinalgQrResult = namedtuple("linalg_qr", ("Q", "R"))
LstsqResult = namedtuple("linalg_lstsq", ("solution", "residuals", "rank", "singular_values"))
publish(SvdResult, LinalgSvdResult, QrResult, LinalgQrResult, LstsqResult)
Tolerance = float | Tensor | None

_TALL = A_SAMPLE[..., :2]


# svd


def _infer_svd(input: Meta, *, full: bool) -> tuple[Meta, Meta, Meta]:
    check_matrix("linalg.svd", "A", input)
    *batch, m, n = input.shape
    k = min(m, n)
    return (
        plain(input, (*batch, m, m if full else k)),
        plain(input, (*batch, k), input.dtype.to_real()),
        plain(input, (*batch, n if full else k, n)),
    )


svd_op = structured(
    "svd",
    _infer_svd,
    doc="U, S, Vh of the singular value decomposition A = U diag(S) Vh.",
    samples=lambda: [Sample((A_SAMPLE,), (True,)), Sample((_TALL,), (False,)), Sample((_TALL[:, :, :0],), (True,))],
)


@kernel(svd_op, "cpu")
def _svd(a: np.ndarray, full: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if min(a.shape[-2:]) == 0:
        m, n = a.shape[-2:]
        k = (m, n) if full else (0, 0)
        u, vh = (
            np.broadcast_to(np.eye(rows, columns, dtype=a.dtype), (*a.shape[:-2], rows, columns))
            for rows, columns in ((m, k[0]), (k[1], n))
        )
        return u.copy(), np.empty((*a.shape[:-2], 0), a.real.dtype), vh.copy()
    return raising("linalg.svd", lambda x: tuple(np.linalg.svd(x, full_matrices=full)), a)


def _check_driver(name: str, driver: str | None) -> None:
    if driver is not None:
        raise RuntimeError(f"{name}: keyword argument driver is only supported on CUDA inputs, got {driver!r}")


@function(namespace="linalg", method=False, name="svd", autocast="wide")
def _linalg_svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> LinalgSvdResult:
    """U, S, Vh with `A = U diag(S) Vh`, singular values in falling order; without `full_matrices` only min(m, n)
    columns.

    Shapes: `(*, m, n)` -> `(*, m, m)`, `(*, min(m, n))`, `(*, n, n)`. Raises RuntimeError for fewer than two dimensions
    or integers.
    """
    _check_driver("linalg.svd", driver)
    return LinalgSvdResult(*svd_op.apply((A,), (bool(full_matrices),)))


@function(namespace="linalg", method=False, autocast="wide")
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """Singular values in falling order: `(*, m, n)` -> `(*, min(m, n))`. Raises RuntimeError for fewer than two
    dimensions."""
    _check_driver("linalg.svdvals", driver)
    return svd_op.apply((A,), (False,))[1]


@function(autocast="wide")
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> SvdResult:
    """U, S, V with `input = U diag(S) V^H`; see linalg.svd. Without `compute_uv` U and V are zeros. Raises as that
    does."""
    U, S, Vh = svd_op.apply((input,), (not some and compute_uv,))
    if not compute_uv:
        m, n = input.shape[-2:]
        lead = input.shape[:-2]
        return SvdResult(input.new_zeros((*lead, m, m)), S, input.new_zeros((*lead, n, n)))
    return SvdResult(U, S, adjoint(Vh))


# qr


def _infer_qr(input: Meta, *, mode: str) -> tuple[Meta, Meta]:
    check_matrix("linalg.qr", "A", input)
    *batch, m, n = input.shape
    k = m if mode == "complete" else min(m, n)
    return (plain(input, (0,)) if mode == "r" else plain(input, (*batch, m, k)), plain(input, (*batch, k, n)))


qr_op = structured(
    "qr",
    _infer_qr,
    doc="Q and R of A = Q R: Q with orthonormal columns, R upper triangular.",
    samples=lambda: [Sample((A_SAMPLE,), ("reduced",)), Sample((_TALL,), ("complete",)), Sample((_TALL,), ("r",))],
)


@kernel(qr_op, "cpu")
def _qr(a: np.ndarray, mode: str) -> tuple[np.ndarray, np.ndarray]:
    if mode == "r":
        return np.empty(0, a.dtype), np.linalg.qr(a, "r")
    return tuple(np.linalg.qr(a, mode))


@function(namespace="linalg", method=False, name="qr", autocast="wide")
def _linalg_qr(A: Tensor, mode: str = "reduced") -> LinalgQrResult:
    """Q and R with `A = Q R`; modes `reduced`, `complete` (square Q) and `r` (Q empty).

    Shapes: `(*, m, n)` -> `(*, m, k)`, `(*, k, n)` with k = min(m, n), or m when complete. Raises RuntimeError for
    another mode.
    """
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"linalg.qr: received unrecognized mode {mode!r}; expected 'reduced', 'complete' or 'r'")
    return LinalgQrResult(*qr_op.apply((A,), (mode,)))


@function(autocast="wide")
def qr(input: Tensor, some: bool = True) -> QrResult:
    """Q and R with `input = Q R`; Q is square without `some`. Raises RuntimeError for fewer than two dimensions."""
    return QrResult(*qr_op.apply((input,), ("reduced" if some else "complete",)))


# Pseudo-inverse


def _infer_pinv(input: Meta, atol: Meta, rtol: Meta, *, hermitian: bool) -> Meta:
    check_matrix("linalg.pinv", "A", input, square=hermitian)
    *batch, m, n = input.shape
    return plain(input, (*batch, n, m))


pinv_op = structured(
    "pinv",
    _infer_pinv,
    doc="The Moore-Penrose inverse; singular values up to max(atol, rtol * largest) count as 0.",
    samples=lambda: [Sample((_TALL, 0.0, 1e-6), (False,)), Sample((A_SAMPLE[0], 0.0, 1e-6), (True,))],
    reference=lambda a, atol, rtol, hermitian: np.linalg.pinv(a),
)


@kernel(pinv_op, "cpu")
def _pinv(a: np.ndarray, atol: Any, rtol: Any, hermitian: bool) -> np.ndarray:
    if not a.size:
        return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    if hermitian:
        s, u = np.linalg.eigh(a)
        vh = u.conj().swapaxes(-1, -2)
    else:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
    size = np.abs(s)
    limit = np.maximum(np.asarray(atol, s.dtype), np.asarray(rtol, s.dtype) * size.max(axis=-1, initial=0))
    small = size <= np.expand_dims(limit, -1)
    inverse = np.where(small, 0, 1 / np.where(small, 1, s)).astype(s.dtype)
    return np.matmul(vh.conj().swapaxes(-1, -2) * inverse[..., None, :], u.conj().swapaxes(-1, -2))


def _tolerances(name: str, A: Tensor, atol: Tolerance, rtol: Tolerance) -> tuple[float | Tensor, float | Tensor]:
    for argument, value in (("atol", atol), ("rtol", rtol)):
        if isinstance(value, Tensor) and value.dtype.is_complex:
            raise RuntimeError(f"{name}: {argument} tensor of complex type is not supported, got {value.dtype.name}")
    if rtol is None:
        given = atol is not None and (isinstance(atol, Tensor) or atol > 0)
        default = max(A.shape[-2:]) * dtypes.finfo(A.dtype).eps
        rtol = 0.0 if given and not isinstance(atol, Tensor) else default
        if isinstance(atol, Tensor):
            rtol = (atol > 0).logical_not().to(A.dtype.to_real()) * default
    return (0.0 if atol is None else atol), rtol


def _pinv_of(name: str, A: Tensor, atol: Tolerance, rtol: Tolerance, hermitian: bool) -> Tensor:
    check_matrix(name, "A", A._meta)
    limits = _tolerances(name, A, atol, rtol)
    shapes = [meta(A.dtype, A.shape[:-2]), *[x._meta for x in limits if isinstance(x, Tensor)]]
    if len(shapes) > 1:
        A = A.expand(*broadcast_shapes_of(name, shapes), *A.shape[-2:])
    return pinv_op.apply((A, *limits), (bool(hermitian),))


@function(namespace="linalg", method=False, autocast="wide")
def pinv(
    A: Tensor, rcond: Tolerance = None, hermitian: bool = False, *, atol: Tolerance = None, rtol: Tolerance = None
) -> Tensor:
    """Moore-Penrose inverse: `(*, m, n)` -> `(*, n, m)`; singular values up to `max(atol, rtol * largest)` count as 0.

    `rtol` is `max(m, n)` times the dtype's eps by default, 0 when `atol` is given. Raises RuntimeError for fewer than
    two dimensions.
    """
    return _pinv_of("linalg.pinv", A, atol, rcond if rtol is None else rtol, hermitian)


@function(out=False, autocast="wide")
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """`linalg.pinv(input, rcond)`. Raises as that does."""
    return _pinv_of("pinverse", input, None, rcond, False)


@function(namespace="linalg", method=False, autocast="wide")
def matrix_rank(
    A: Tensor, tol: Tolerance = None, hermitian: bool = False, *, atol: Tolerance = None, rtol: Tolerance = None
) -> Tensor:
    """How many singular values are larger than `max(atol, rtol * largest)`: `(*, m, n)` -> int64 `(*)`.

    Raises RuntimeError for fewer than two dimensions.
    """
    check_matrix("linalg.matrix_rank", "A", A._meta, square=hermitian)
    if tol is not None:
        atol, rtol = tol, 0.0
    atol, rtol = _tolerances("linalg.matrix_rank", A, atol, rtol)
    A = A.detach()
    values = eigh_op.apply((A,), ("L",))[0].abs() if hermitian else svdvals(A)
    if not values.shape[-1]:
        return values.new_zeros(values.shape[:-1], dtype=dtypes.int64)
    limit = values.amax(-1) * rtol
    limit = limit.maximum(atol) if isinstance(atol, Tensor) else limit.clamp(min=atol)
    return (values > limit.unsqueeze(-1)).sum(-1)


@function(namespace="linalg", method=False, autocast="wide")
def cond(A: Tensor, p: int | float | str | None = None) -> Tensor:
    """Condition number `norm(A) norm(inv(A))` in a matrix norm, the 2-norm by default; inf for singular matrices.

    Raises RuntimeError for fewer than two dimensions or, except for p 2 and -2, matrices that are not square.
    """
    check_matrix("linalg.cond", "A", A._meta)
    if p is None or p in (2, -2):
        values = svdvals(A)
        if not values.shape[-1]:
            return values.new_zeros(values.shape[:-1])
        ratio = (
            values.select(-1, 0) / values.select(-1, -1) if p != -2 else values.select(-1, -1) / values.select(-1, 0)
        )
        return ratio
    check_matrix("linalg.cond", "A", A._meta, square=True)
    if not A.shape[-1]:
        return A.new_zeros(A.shape[:-2], dtype=A.dtype.to_real())
    singular = A.detach().to(dtypes.promote_types(A.dtype, dtypes.float64)).det() == 0 if A.numel() else None
    if singular is not None and bool(singular.any()):
        result = A.new_full(A.shape[:-2], math.inf, dtype=A.dtype.to_real())
        return (
            result
            if A.ndim == 2
            else _cond(A, p).masked_fill(singular, math.inf)
            if not bool(singular.all())
            else result
        )
    return _cond(A, p)


def _cond(A: Tensor, p: int | float | str) -> Tensor:
    norm = matrix_norm_of("linalg.cond", A, p, (-2, -1), False)
    return norm * matrix_norm_of("linalg.cond", inv_op.apply((A,)), p, (-2, -1), False)


# Least squares


def _infer_lstsq(input: Meta, other: Meta, rcond: Meta, *, driver: str) -> tuple[Meta, ...]:
    check_matrix("linalg.lstsq", "A", input)
    check_matrix("linalg.lstsq", "B", other)
    if input.dtype is not other.dtype:
        raise RuntimeError(
            f"linalg.lstsq: expected A and B to have the same dtype, got {input.dtype.name} and {other.dtype.name}"
        )
    if input.shape[:-2] != other.shape[:-2] or input.shape[-2] != other.shape[-2]:
        raise RuntimeError(
            f"linalg.lstsq: A and B must have the same batch dimensions and rows, got {shape_text(input.shape)} and "
            f"{shape_text(other.shape)}: the size of A's dimension -2 and B's must match"
        )
    *batch, m, n = input.shape
    columns = other.shape[-1]
    real = input.dtype.to_real()
    has_values = driver in ("gelsd", "gelss")
    return (
        plain(input, (*batch, n, columns)),
        plain(input, (*batch, columns), real),
        plain(input, tuple(batch), dtypes.int64),
        plain(input, (*batch, min(m, n)) if has_values else (0,), real),
    )


lstsq_op = structured(
    "lstsq",
    _infer_lstsq,
    doc="Least-squares solution of A X = B, sums of squared residuals, ranks and singular values.",
    samples=lambda: [Sample((_TALL, A_SAMPLE[..., 2:], 1e-6), ("gelsd",))],
)


@kernel(lstsq_op, "cpu")
def _lstsq(a: np.ndarray, b: np.ndarray, rcond: float, driver: str) -> tuple[np.ndarray, ...]:
    *batch, m, n = a.shape
    solution = np.zeros((*batch, n, b.shape[-1]), a.dtype)
    rank = np.zeros(batch, np.int64)
    values = np.zeros((*batch, min(m, n)), a.real.dtype)
    if a.size and b.shape[-1]:
        for at in np.ndindex(*batch):
            solution[at], _, rank[at], values[at] = raising(
                "linalg.lstsq", lambda x, y: np.linalg.lstsq(x, y, rcond=rcond), a[at], b[at]
            )
    rest = np.matmul(a, solution) - b
    residuals = np.sum(np.abs(rest) ** 2, axis=-2)
    return solution, residuals, rank, values if driver in ("gelsd", "gelss") else np.empty(0, values.dtype)


@function(namespace="linalg", method=False, autocast="wide")
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LstsqResult:
    """X with the smallest `norm(A X - B)`, sums of squared residuals, ranks and singular values.

    Shapes: `(*, m, n)`, `(*, m, k)` or vectors `(*, m)` -> `(*, n, k)`. Drivers `gels`, `gelsy` (default), `gelsd` and
    `gelss` decide which of the other results are given: residuals are empty with `gelsy`, and unless m > n and A has
    full rank. Raises RuntimeError for shapes that do not fit.
    """
    driver = driver or "gelsy"
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            f"linalg.lstsq: parameter driver should be one of (gels, gelsy, gelsd, gelss), got {driver!r}"
        )
    if A.ndim < 2 or B.ndim < 1:
        raise RuntimeError(
            f"linalg.lstsq: input A must have at least 2 dimensions and B at least 1, got {A.ndim} and {B.ndim}"
        )
    vector = A.ndim - 1 == B.ndim and B.shape == A.shape[:-1]
    m, n = A.shape[-2:]
    if rcond is None:
        rcond = max(m, n) * dtypes.finfo(A.dtype).eps if A.dtype.is_inexact else 0.0
    solution, residuals, rank, values = lstsq_op.apply((A, B.unsqueeze(-1) if vector else B, float(rcond)), (driver,))
    if driver == "gels":
        rank = rank.new_empty((0,))
        full = True
    else:
        full = bool((rank == n).all())
    if driver == "gelsy" or m <= n or not full:
        residuals = residuals.reshape(-1).narrow(0, 0, 0)
    if vector:
        solution = solution.squeeze(-1)
        residuals = residuals.squeeze(-1) if residuals.ndim == A.ndim - 1 and residuals.numel() else residuals
    return LstsqResult(solution, residuals, rank, values)
