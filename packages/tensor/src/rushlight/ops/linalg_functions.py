"""Functions of matrices written in simpler ops: powers, exponentials, products of reflections, tensor systems."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from math import prod

import numpy as np

import rushlight
from rushlight.core import dtypes
from rushlight.core.declare import structured
from rushlight.core.errors import shape_text
from rushlight.core.front import export, function
from rushlight.core.meta import Meta
from rushlight.core.op import Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu.blas import scipy_linalg
from rushlight.ops.linalg_factor import lapack
from rushlight.ops.linalg_solve import A_SAMPLE, adjoint, check_matrix, inv, inv_op, plain, solve_op
from rushlight.ops.linalg_svd import qr_op, svd_op
from rushlight.ops.matmul import matmul, matmul_op
from rushlight.ops.ranges import eye
from rushlight.return_types import publish

GeqrfResult = namedtuple("geqrf", ("a", "tau"))
publish(GeqrfResult)

export("matmul", matmul, "linalg")


# Powers and exponentials


def _identity(A: Tensor) -> Tensor:
    """Identity matrices of the shape of A, as a function of A whose gradient is zeros."""
    return A.clone().copy_(eye(A.shape[-2], A.shape[-1], dtype=A.dtype, device=A.device))


def _power(name: str, A: Tensor, n: int) -> Tensor:
    if not isinstance(n, int):
        raise TypeError(f"{name}: n must be an int, got {type(n).__name__}")
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, got shape {shape_text(A.shape)}; it must have at least 2 "
            "dimensions"
        )
    if n == 0:
        return _identity(A)
    if n < 0:
        A, n = inv(A), -n
    result = None
    while True:  # square and multiply
        if n & 1:
            result = A if result is None else matmul_op.apply((result, A))
        n >>= 1
        if not n:
            return result
        A = matmul_op.apply((A, A))


@function()
def matrix_power(input: Tensor, n: int) -> Tensor:
    """The n-th power of square matrices; negative powers invert. Raises RuntimeError unless they are square,
    LinAlgError if singular."""
    return _power("matrix_power", input, n)


@function(name="matrix_power", namespace="linalg", method=False)
def _linalg_matrix_power(A: Tensor, n: int) -> Tensor:
    """The n-th power of square matrices; negative powers invert. Raises RuntimeError unless they are square,
    LinAlgError if singular."""
    return _power("linalg.matrix_power", A, n)


def _infer_exp(input: Meta) -> Meta:
    if input.dtype not in dtypes.HALF:
        check_matrix("linalg.matrix_exp", "A", input, square=True)
    elif input.ndim < 2 or input.shape[-1] != input.shape[-2]:
        raise RuntimeError(f"linalg.matrix_exp: A must be batches of square matrices, got {shape_text(input.shape)}")
    return plain(input)


matrix_exp_op = structured(
    "matrix_exp", _infer_exp, doc="The exponential of square matrices.", samples=lambda: [Sample((A_SAMPLE / 4,))]
)


@kernel(matrix_exp_op, "cpu")
def _matrix_exp(a: np.ndarray) -> np.ndarray:
    if not a.size:
        return a.copy()
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    result = np.empty(a.shape, a.dtype)
    for place in np.ndindex(a.shape[:-2]):  # one after the other, as scipy does, which would keep all in float64
        result[place] = scipy_linalg().expm(a[place].astype(wide))
    return result


@function(out=False)
def matrix_exp(input: Tensor) -> Tensor:
    """The exponential of square matrices, `sum of input ** k / k!`. Raises RuntimeError unless they are square."""
    return matrix_exp_op.apply((input,))


@function(name="matrix_exp", namespace="linalg", method=False, out=False)
def _linalg_matrix_exp(A: Tensor) -> Tensor:
    """The exponential of square matrices, `sum of A ** k / k!`. Raises RuntimeError unless they are square."""
    return matrix_exp_op.apply((A,))


# Tensor systems


@function(namespace="linalg", method=False, autocast="wide")
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse for `tensordot(A, ., ind)`: `(*a, *b)` with as many elements in a (its first `ind`) as in b -> `(*b,
    *a)`.

    Raises RuntimeError when the sizes do not fit, LinAlgError when there is no inverse.
    """
    if ind <= 0:
        raise RuntimeError(f"linalg.tensorinv: expected a strictly positive integer for ind, got {ind}")
    first, last = A._meta.shape[:ind], A._meta.shape[ind:]
    if prod(first) != prod(last):
        raise RuntimeError(
            f"linalg.tensorinv: expected self to satisfy prod(shape[ind:]) == prod(shape[:ind]), got {prod(last)} "
            f"and {prod(first)}"
        )
    return inv_op.apply((A.reshape(prod(first), prod(last)),)).reshape(last + first)


@function(namespace="linalg", method=False, autocast="wide")
def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """The X with `tensordot(A, X, X.ndim) = B`; `dims` are moved to the end of A first.

    Raises RuntimeError when the sizes do not fit, LinAlgError when there is no solution.
    """
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    rest = A._meta.shape[B.ndim :]
    if prod(rest) != B.numel() or A.numel() != B.numel() ** 2:
        raise RuntimeError(
            f"linalg.tensorsolve: expected self to satisfy prod(shape[ndim(B):]) == prod(shape[:ndim(B)]), got A "
            f"{shape_text(A.shape)} and B {shape_text(B.shape)}"
        )
    return solve_op.apply((A.reshape(B.numel(), prod(rest)), B.reshape(-1, 1))).reshape(rest)


# Products of Householder reflections


def _infer_geqrf(input: Meta) -> tuple[Meta, Meta]:
    check_matrix("geqrf", "input", input)
    return plain(input), plain(input, (*input.shape[:-2], min(input.shape[-2:])))


geqrf_op = structured(
    "geqrf",
    _infer_geqrf,
    doc="R and the Householder reflections of a QR factorization, as LAPACK packs them.",
    samples=lambda: [Sample((A_SAMPLE,))],
)


@kernel(geqrf_op, "cpu")
def _geqrf(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    result, tau = np.empty(a.shape, a.dtype), np.empty((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
    if result.size:
        routine = lapack("geqrf", a.dtype)
        for at in np.ndindex(*a.shape[:-2]):
            result[at], tau[at], _, _ = routine(a[at])
    return result, tau


@function(autocast="wide")
def geqrf(input: Tensor) -> GeqrfResult:
    """R and the Householder reflections of a QR factorization, packed as LAPACK does. Raises RuntimeError for fewer
    than two dimensions."""
    return GeqrfResult(*geqrf_op.apply((input,)))


def _reflections(name: str, A: Tensor, tau: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The vectors (columns `(*, m, 1)`) and factors `(*, 1, 1)` of the reflections that A packs."""
    if A.ndim < 2 or A.shape[-2] < A.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1], got {shape_text(A.shape)}; "
            "it must have "
            "at least 2 dimensions"
        )
    if tau.ndim != A.ndim - 1 or tau.shape[:-1] != A.shape[:-2] or tau.shape[-1] > A.shape[-1]:
        raise RuntimeError(
            f"{name}: expected tau of shape (*, k) with k at most {A.shape[-1]} and the batch of input "
            f"{shape_text(A.shape)}, got "
            f"{shape_text(tau.shape)}; input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    if tau.dtype is not A.dtype:
        raise RuntimeError(f"{name}: tau dtype {tau.dtype.name} does not match input dtype {A.dtype.name}")
    found = []
    vectors = A.tril(-1)
    for i in range(tau.shape[-1]):
        unit = A.new_zeros((A.shape[-2], 1))
        unit[i] = 1
        found.append((vectors.narrow(-1, i, 1) + unit, tau.narrow(-1, i, 1).unsqueeze(-1)))
    return found


def _householder(name: str, A: Tensor, tau: Tensor) -> Tensor:
    reflections = _reflections(name, A, tau)
    result = _identity(A)
    for v, t in reversed(reflections):
        result = result - t * (v @ (adjoint(v) @ result))
    return result


@function(namespace="linalg", method=False, autocast="wide")
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of the product of the reflections `I - tau[i] v[i] v[i]^H`, v[i] in column i below the
    diagonal of A.

    Shapes: `(*, m, n)`, `(*, k)` -> `(*, m, n)`. Raises RuntimeError when they do not fit.
    """
    return _householder("linalg.householder_product", A, tau)


@function(autocast="wide")
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """`linalg.householder_product`. Raises as that does."""
    return _householder("orgqr", input, input2)


@function(autocast="wide")
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """The product of reflections Q (see `geqrf`) times `other`: Q other, other Q without `left`, with Q^H for
    `transpose`.

    Raises RuntimeError for shapes that do not fit.
    """
    if input.ndim < 2 or other.ndim != input.ndim or other.shape[-2 if left else -1] != input.shape[-2]:
        raise RuntimeError(
            f"ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2], got "
            f"{shape_text(input.shape)} and "
            f"{shape_text(other.shape)}"
        )
    reflections = _reflections("ormqr", input, tau)
    if left == transpose:
        order = reflections
    else:
        order = reversed(reflections)
    for v, t in order:
        t = t.conj() if transpose and t.dtype.is_complex else t
        other = other - t * (v @ (adjoint(v) @ other)) if left else other - t * ((other @ v) @ adjoint(v))
    return other


# Low rank


@function(method=False, out=False)
def svd_lowrank(A: Tensor, q: int = 6, niter: int = 2, M: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """U, S, V of an approximation `U diag(S) V^H` of rank q, by projection on random vectors. Raises ValueError for q
    out of range."""
    if M is not None:
        A = A - M.expand(A.shape)
    m, n = A.shape[-2:]
    if not 0 <= q <= min(m, n):
        raise ValueError(f"svd_lowrank: q must be a non-negative integer and at most min(m, n) = {min(m, n)}, got {q}")
    flip = m < n
    B = adjoint(A) if flip else A
    Q = qr_op.apply((B @ rushlight.randn((B.shape[-1], q), dtype=A.dtype, device=A.device),), ("reduced",))[0]
    for _ in range(niter):
        Q = qr_op.apply((adjoint(B) @ Q,), ("reduced",))[0]
        Q = qr_op.apply((B @ Q,), ("reduced",))[0]
    U, S, Vh = svd_op.apply((adjoint(Q) @ B,), (False,))
    U, V = Q @ U, adjoint(Vh)
    return (V, S, U) if flip else (U, S, V)


@function(method=False, out=False)
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Principal components by `svd_lowrank`, of columns moved to mean 0 when `center`. Raises ValueError for q out of
    range."""
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(f"pca_lowrank: q must be non-negative and at most min(m, n) = {min(m, n)}, got {q}")
    if niter < 0:
        raise ValueError(f"pca_lowrank: niter must be non-negative, got {niter}")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)
