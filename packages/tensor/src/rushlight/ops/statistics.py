"""Variance and what is made of it: var, std, var_mean, std_mean, cov, corrcoef."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import checks, dtypes
from rushlight.core.declare import reduction
from rushlight.core.errors import check_dims
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.native import of_loops
from rushlight.core.op import ErrorSample
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu.variance import variance
from rushlight.ops.complex import complex
from rushlight.ops.matmul import matmul
from rushlight.ops.reduction import Dims, mean, reduced_samples, reduced_shape, sum

Correction = int | float


def _infer_var(input: Meta, *, dim: tuple[int, ...], keepdim: bool, correction: Correction) -> Meta:
    if not input.dtype.is_inexact:
        raise RuntimeError(
            f"var: only support floating point and complex dtypes, got {input.dtype.name}; convert the tensor first"
        )
    return meta(input.dtype.to_real(), reduced_shape(input.shape, dim, keepdim), None, input.device)


@of_loops
def _var(array: np.ndarray, dim: tuple[int, ...], keepdim: bool, correction: Correction) -> np.ndarray:
    return variance(array, dim, correction).reshape(reduced_shape(array.shape, dim, keepdim))


def _reference(x: np.ndarray, dim: tuple[int, ...], keepdim: bool, correction: Correction) -> Any:
    return np.var(x, axis=dim, keepdims=keepdim, ddof=correction)


var_op = reduction(
    "var",
    _infer_var,
    errors=lambda: [ErrorSample((np.arange(3),), ((0,), False, 1), RuntimeError, "floating point")],
    numpy=_var,
    doc="Variance over dimensions.",
    samples=lambda: reduced_samples(1),
    reference=_reference,
)

std_op = reduction(
    "std",
    _infer_var,
    errors=lambda: [ErrorSample((np.arange(3),), ((0,), False, 1), RuntimeError, "floating point")],
    numpy=of_loops(lambda *arguments: np.sqrt(_var(*arguments))),
    doc="Standard deviation over dimensions.",
    samples=lambda: reduced_samples(0),
    reference=lambda *arguments: np.sqrt(_reference(*arguments)),
)


def _arguments(
    name: str, input: Tensor, dim: Any, unbiased: bool | None, keepdim: bool, correction: Correction | None
) -> tuple:
    """The dims, keepdim and correction of a call in any of PyTorch's forms: (unbiased), (dim, unbiased, keepdim),
    keywords.
    """
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    elif unbiased is not None:
        raise TypeError(f"{name}: give unbiased or correction, not both")
    return check_dims(name, dim, input.ndim), bool(keepdim), correction


@function(memo=True)
def var(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Correction | None = None,
) -> Tensor:
    """Variance over `dim` (all dimensions by default): `sum((x - mean)**2) / max(0, n - correction)`.

    `correction` is 1 by default (Bessel's), 0 for `unbiased=False`. Raises RuntimeError for integer tensors.

    Example:
        >>> import rushlight
        >>> rushlight.var(rushlight.tensor([1.0, 2.0, 3.0]))
        tensor(1.)
    """
    return var_op.apply((input,), _arguments("var", input, dim, unbiased, keepdim, correction))


@function(memo=True)
def std(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Correction | None = None,
) -> Tensor:
    """Standard deviation over `dim` (all dimensions by default), the square root of `var`; its gradient is 0 where
    it is 0.
    """
    return std_op.apply((input,), _arguments("std", input, dim, unbiased, keepdim, correction))


@function(method=False)
def var_mean(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Correction | None = None,
) -> tuple[Tensor, Tensor]:
    """Variance and mean over `dim`, as a tuple."""
    dims, keepdim, correction = _arguments("var_mean", input, dim, unbiased, keepdim, correction)
    return var_op.apply((input,), (dims, keepdim, correction)), mean(input, dims, keepdim)


@function(method=False)
def std_mean(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Correction | None = None,
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over `dim`, as a tuple."""
    dims, keepdim, correction = _arguments("std_mean", input, dim, unbiased, keepdim, correction)
    return std_op.apply((input,), (dims, keepdim, correction)), mean(input, dims, keepdim)


def _check_weights(name: str, weights: Tensor, count: int, integer: bool) -> None:
    if weights.ndim > 1:
        raise RuntimeError(f"cov: {name} must be 1-dimensional, got {weights.ndim} dimensions")
    if weights.numel() != count:
        raise RuntimeError(f"cov: {name} must have one weight per observation, got {weights.numel()} for {count}")
    if (weights.dtype.category == 1) != integer:
        kinds = "integral" if integer else "floating point"
        raise RuntimeError(f"cov: {name} must be {kinds}, got {weights.dtype.name}")
    if checks.found(weights < 0):
        raise RuntimeError(f"cov: {name} cannot be negative")


@function(out=False)
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """Covariance matrix of variables in rows, observations in columns.

    `fweights` counts how often an observation occurred, `aweights` weighs its importance. Shapes: `(V, N)` -> `(V, V)`;
    one variable gives `()`. Raises RuntimeError for more dimensions, and for weights that do not fit.

    Example:
        >>> import rushlight
        >>> rushlight.cov(rushlight.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    if input.ndim > 2 or input.dtype is dtypes.bool:
        raise RuntimeError(
            f"cov: expected input to have two or fewer dimensions and not to be bool, got {input.ndim} dimensions of "
            f"{input.dtype.name}"
        )
    rows = input if input.ndim == 2 else input.reshape(1, -1)
    count = rows.shape[1]
    weights = None
    if fweights is not None:
        _check_weights("fweights", fweights, count, integer=True)
        weights = fweights
    if aweights is not None:
        _check_weights("aweights", aweights, count, integer=False)
        weights = aweights if weights is None else weights * aweights
    total = count if weights is None else sum(weights)
    if not rows.dtype.is_inexact:
        rows = rows.to(dtypes.get_default_dtype())
    center = sum(rows if weights is None else rows * weights, 1, True) / total
    distance = rows - center
    norm = total - correction
    if aweights is not None and correction != 0:
        squares = weights * aweights
        norm = total - correction * sum(squares) / total
    scaled = distance if weights is None else distance * weights
    norm = norm.clamp(min=0) if hasattr(norm, "_meta") else max(norm, 0)
    result = matmul(scaled, distance.transpose(0, 1).conj()) / norm
    return result.squeeze()


@function(out=False)
def corrcoef(input: Tensor) -> Tensor:
    """Matrix of Pearson correlations of variables in rows, each in [-1, 1].

    Raises RuntimeError for more than two dimensions.
    """
    if input.ndim > 2:
        raise RuntimeError(f"corrcoef: expected input to have two or fewer dimensions, got {input.ndim}")
    c = cov(input)
    if c.ndim == 0:
        return c / c
    deviation = c.diagonal().real.sqrt()
    c = c / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    if c.dtype.is_complex:
        return complex(c.real.clamp(-1, 1), c.imag.clamp(-1, 1))
    return c.clamp(-1, 1)
