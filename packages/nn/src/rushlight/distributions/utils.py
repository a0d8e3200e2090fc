"""Helpers that the distributions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import Tensor


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape. ValueError for other values."""
    if not all(isinstance(v, (Tensor, int, float)) for v in values):
        raise ValueError("Input arguments must all be instances of Number or Tensor.")
    like = next((v for v in values if isinstance(v, Tensor)), None)
    dtype = rushlight.get_default_dtype() if like is None else like.dtype
    device = None if like is None else like.device
    made = [v if isinstance(v, Tensor) else rushlight.tensor(float(v), dtype=dtype, device=device) for v in values]
    return tuple(rushlight.broadcast_tensors(*made))


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1, so that their logarithms are finite."""
    eps = rushlight.finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of log-odds, or of unnormalised log-probabilities."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log-odds, or log-probabilities."""
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


class lazy_property:
    """A method computed once per instance and then kept as an attribute."""

    def __init__(self, wrapped: Callable) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        with rushlight.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements of `(*, n, n)` up to a diagonal, row by row: `(*, k)`."""
    n = mat.shape[-1]
    if not -n < diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n + 1}, {n - 1}].")
    rows, columns = rushlight.tril_indices(n, n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """What `tril_matrix_to_vec` took apart: `(*, k)` to `(*, n, n)`, with zeros above the diagonal."""
    k = vec.shape[-1]
    n = round((((1 + 2 * diag) ** 2 + 8 * k + 4 * abs(diag) * (diag + 1)) ** 0.5 - 1 - 2 * diag) / 2)
    rows, columns = rushlight.tril_indices(n, n, diag)
    if len(rows) != k:
        raise ValueError(f"a vector of {k} elements is not the lower triangle, diagonal {diag}, of a square matrix")
    made = rushlight.zeros((*vec.shape[:-1], n, n), dtype=vec.dtype, device=vec.device)
    made[..., rows, columns] = vec
    return made


def log_diagonal_sum(factor: Tensor) -> Tensor:
    """Half the logarithm of the determinant of `L @ L.T`, for triangular factors L `(*, n, n)`."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def sum_last(value: Tensor, n: int) -> Tensor:
    """The sum over the last `n` dimensions."""
    return value if n == 0 else value.reshape(*value.shape[: value.dim() - n], -1).sum(-1)
