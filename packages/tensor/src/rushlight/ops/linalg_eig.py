"""Eigenvalues and eigenvectors: eigh, eig."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

import rushlight
from rushlight.core.declare import structured
from rushlight.core.front import function
from rushlight.core.meta import Meta
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.ops.linalg_solve import A_SAMPLE, adjoint, check_matrix, plain, raising, solve_triangular_op
from rushlight.return_types import publish

EighResult = namedtuple("linalg_eigh", ("eigenvalues", "eigenvectors"))
EigResult = namedtuple("linalg_eig", ("eigenvalues", "eigenvectors"))
publish(EighResult, EigResult)


def _infer_eigh(input: Meta, *, uplo: str) -> tuple[Meta, Meta]:
    check_matrix("linalg.eigh", "A", input, square=True)
    return plain(input, input.shape[:-1], input.dtype.to_real()), plain(input)


eigh_op = structured(
    "eigh",
    _infer_eigh,
    doc="Eigenvalues in rising order and eigenvectors of Hermitian matrices, read from one triangle.",
    samples=lambda: [Sample((A_SAMPLE,), ("L",)), Sample((A_SAMPLE,), ("U",))],
    errors=lambda: [ErrorSample((A_SAMPLE[:, :2],), ("L",), RuntimeError, "square")],
)


@kernel(eigh_op, "cpu")
def _eigh(a: np.ndarray, uplo: str) -> tuple[np.ndarray, np.ndarray]:
    return raising("linalg.eigh", lambda x: tuple(np.linalg.eigh(x, uplo)), a)


def _infer_eig(input: Meta) -> tuple[Meta, Meta]:
    check_matrix("linalg.eig", "A", input, square=True)
    wide = input.dtype.to_complex()
    return plain(input, input.shape[:-1], wide), plain(input, None, wide)


eig_op = structured(
    "eig",
    _infer_eig,
    doc="Complex eigenvalues and eigenvectors of square matrices.",
    samples=lambda: [Sample((A_SAMPLE,))],
    errors=lambda: [ErrorSample((np.full((2, 2), np.inf),), (), RuntimeError, "infs or NaNs")],
)


@kernel(eig_op, "cpu")
def _eig(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not np.isfinite(a).all():
        raise RuntimeError("linalg.eig: input tensor should not contain infs or NaNs")
    return tuple(np.linalg.eig(a))


def _uplo(name: str, uplo: str) -> str:
    if str(uplo).upper() not in ("L", "U"):
        raise RuntimeError(f"{name}: expected UPLO argument to be 'L' or 'U', but got {uplo!r}")
    return uplo.upper()


@function(namespace="linalg", method=False, autocast="wide")
def eigh(A: Tensor, UPLO: str = "L") -> EighResult:
    """Eigenvalues in rising order and eigenvectors of Hermitian matrices `(*, n, n)`, of which only one triangle is
    read.

    Raises RuntimeError unless the matrices are square, or for another UPLO.
    """
    return EighResult(*eigh_op.apply((A,), (_uplo("linalg.eigh", UPLO),)))


@function(namespace="linalg", method=False, autocast="wide")
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues of Hermitian matrices in rising order: `(*, n, n)` -> `(*, n)`. Raises as `eigh` does."""
    return eigh_op.apply((A,), (_uplo("linalg.eigvalsh", UPLO),))[0]


@function(namespace="linalg", method=False, autocast="wide")
def eig(A: Tensor) -> EigResult:
    """Complex eigenvalues and eigenvectors (columns of norm 1): `(*, n, n)` -> `(*, n)`, `(*, n, n)`.

    Raises RuntimeError unless the matrices are square and finite.
    """
    return EigResult(*eig_op.apply((A,)))


@function(namespace="linalg", method=False, autocast="wide")
def eigvals(A: Tensor) -> Tensor:
    """Complex eigenvalues of square matrices: `(*, n, n)` -> `(*, n)`. Raises as `eig` does."""
    return eig_op.apply((A,))[0]


@function(method=False, out=False)
def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) eigenvalues of `A x = E B x` and their vectors: `(*, m, m)` -> `(*, k)`, `(*, m, k)`.

    Computed by a full decomposition, so the arguments that steer an iteration have no effect. Raises ValueError when
    m < 3 k, LinAlgError when B is not positive-definite.
    """
    check_matrix("lobpcg", "A", A._meta, square=True)
    rows = A.shape[-1]
    k = n if k is None and n is not None else (1 if X is None else X.shape[-1]) if k is None else k
    if rows < 3 * k:
        raise ValueError(
            f"lobpcg: not applicable when the number of A rows (={rows}) is smaller than 3 x the number of requested "
            f"eigenpairs (={k})"
        )
    if B is None:
        values, vectors = eigh_op.apply((A,), ("L",))
    else:  # with B = L L^H, the problem for L^-1 A L^-H is the usual one
        lower = rushlight.linalg.cholesky(B)
        half = solve_triangular_op.apply((lower, A), (False, False))
        inner = solve_triangular_op.apply((lower, adjoint(half)), (False, False))
        values, vectors = eigh_op.apply((adjoint(inner),), ("L",))
        vectors = solve_triangular_op.apply((adjoint(lower), vectors), (True, False))
    if largest is None or largest:
        return values.narrow(-1, rows - k, k).flip(-1), vectors.narrow(-1, rows - k, k).flip(-1)
    return values.narrow(-1, 0, k), vectors.narrow(-1, 0, k)
