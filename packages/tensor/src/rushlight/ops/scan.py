"""Running reductions along one dimension: cumsum, cumprod, cummax, cummin, logcumsumexp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import structured
from rushlight.core.dtypes import dtype
from rushlight.core.errors import check_dim, shape_text
from rushlight.core.front import extend_tensor, function, store
from rushlight.core.meta import Meta, meta
from rushlight.core.native import of_loops
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.out import EXACT
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import axes, native
from rushlight.kernels.cpu import scan as cpu
from rushlight.ops.reduction import accumulator_dtype
from rushlight.return_types import named

_MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.0


def _wide(dtype: dtype) -> np.dtype:
    """The type of the running value: wide enough that its rounding error stays below that of the result."""
    if dtype.is_floating_point:
        return np.dtype(np.float64)
    return np.dtype(np.complex128) if dtype.is_complex else dtype.numpy


def _accumulate(ufunc: np.ufunc, x: np.ndarray, dim: int, dtype: dtype, reverse: bool) -> np.ndarray:
    if x.ndim == 0:
        return x.astype(dtype.numpy)
    x = axes.backward(x, dim) if reverse else x
    result = ufunc.accumulate(x, axis=dim, dtype=_wide(dtype)).astype(dtype.numpy, copy=False)
    return axes.backward(result, dim) if reverse else result


def _infer_scan(input: Meta, *, dim: int, dtype: dtype, reverse: bool) -> Meta:
    return meta(dtype, input.shape, None, input.device)


def _scan_samples() -> list[Sample]:
    return [Sample((_MATRIX,), (0, dtypes.float32, False)), Sample((_MATRIX,), (1, dtypes.float32, True))]


cumsum_op = structured(
    "cumsum",
    _infer_scan,
    doc="Running sum, from the last element backwards for `reverse`.",
    samples=_scan_samples,
    reference=lambda x, dim, dtype, reverse: _accumulate(np.add, x, dim, dtypes.float64, reverse),
)
cumprod_op = structured(
    "cumprod",
    _infer_scan,
    doc="Running product, from the last element backwards for `reverse`.",
    samples=_scan_samples,
    reference=lambda x, dim, dtype, reverse: _accumulate(np.multiply, x, dim, dtypes.float64, reverse),
)


def _scan(ufunc: np.ufunc) -> Callable:
    @of_loops
    def scan(x: np.ndarray, dim: int, dtype: dtype, reverse: bool) -> np.ndarray:
        if native.enough(x.size, cpu.FEW) and x.ndim:
            found = cpu.accumulate(ufunc, x.astype(dtype.numpy, copy=False), dim, reverse)
            if found is not None:
                return found
        return _accumulate(ufunc, x, dim, dtype, reverse)

    return scan


kernel(cumsum_op, "cpu")(_scan(np.add))
kernel(cumprod_op, "cpu")(_scan(np.multiply))


@function(memo=True)
def cumsum(input: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
    """Running sum along `dim`: `out[i] = input[0] + ... + input[i]`; integers and bools add up in int64.

    Raises IndexError for a dimension out of range.

    Example:
        >>> import rushlight
        >>> rushlight.cumsum(rushlight.tensor([1, 2, 3]), 0)
        tensor([1, 3, 6])
    """
    return cumsum_op.apply((input,), (check_dim("cumsum", dim, input.ndim), accumulator_dtype(input, dtype), False))


@function(memo=True)
def cumprod(input: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
    """Running product along `dim`: `out[i] = input[0] * ... * input[i]`; integers and bools multiply in int64."""
    return cumprod_op.apply((input,), (check_dim("cumprod", dim, input.ndim), accumulator_dtype(input, dtype), False))


def _overwriting(scan: Callable) -> Callable:
    """The in-place form of a scan, which keeps the dtype of integers."""

    def call(self: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
        return store(f"{scan.__name__}_", self, scan(self, dim, dtype=dtype or self.dtype))

    call.__doc__ = f"In-place form of `{scan.__name__}`; integers keep their dtype."
    return call


extend_tensor("cumsum_", _overwriting(cumsum))
extend_tensor("cumprod_", _overwriting(cumprod))


# Running extremes: positions, from which gather takes the values


def _infer_extreme_scan(input: Meta, *, dim: int) -> Meta:
    if input.dtype.is_complex:
        raise RuntimeError(f"cummax: not defined for {input.dtype.name}, which has no order; take abs() or real first")
    if input.ndim and input.shape[dim] == 0 and input.numel:
        raise RuntimeError(f"cummax: dimension {dim} of the tensor of shape {shape_text(input.shape)} is empty")
    return meta(dtypes.int64, input.shape, None, input.device)


cummax_op = structured(
    "cummax",
    _infer_extreme_scan,
    errors=lambda: [ErrorSample((_MATRIX.astype(np.complex64),), (0,), RuntimeError, "no order")],
    doc="Position of the largest element so far, the last one of equals.",
    samples=lambda: [Sample((_MATRIX,), (1,))],
    reference=lambda x, dim: _positions(np.maximum, x, dim),
)
cummin_op = structured(
    "cummin",
    _infer_extreme_scan,
    doc="Position of the smallest element so far, the last one of equals.",
    samples=lambda: [Sample((_MATRIX,), (1,))],
    reference=lambda x, dim: _positions(np.minimum, x, dim),
)


def _positions(ufunc: np.ufunc, x: np.ndarray, dim: int) -> np.ndarray:
    if x.ndim == 0:
        return np.zeros((), np.int64)
    if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
        x = x.astype(np.float32)
    reached = (x == ufunc.accumulate(x, axis=dim)) | (x != x)
    places = np.arange(x.shape[dim]).reshape([-1 if d == dim else 1 for d in range(x.ndim)])
    return np.maximum.accumulate(np.where(reached, places, 0), axis=dim)


@kernel(cummax_op, "cpu")
def _cummax(x: np.ndarray, dim: int) -> np.ndarray:
    found = cpu.extreme_positions(x, dim, True) if x.ndim else None
    return _positions(np.maximum, x, dim) if found is None else found


@kernel(cummin_op, "cpu")
def _cummin(x: np.ndarray, dim: int) -> np.ndarray:
    found = cpu.extreme_positions(x, dim, False) if x.ndim else None
    return _positions(np.minimum, x, dim) if found is None else found


def _running(name: str, op: Any, input: Tensor, dim: int) -> Any:
    d = check_dim(name, dim, input.ndim)
    indices = op.apply((input,), (d,))
    return named(name, (input.gather(d, indices), indices))


@function(out=EXACT)
def cummax(input: Tensor, dim: int) -> Any:
    """Largest element so far along `dim` and its position: a named tuple (values, indices). NaN stays once met.

    Example:
        >>> import rushlight
        >>> rushlight.cummax(rushlight.tensor([1, 3, 2]), 0).values
        tensor([1, 3, 3])
    """
    return _running("cummax", cummax_op, input, dim)


@function(out=EXACT)
def cummin(input: Tensor, dim: int) -> Any:
    """Smallest element so far along `dim` and its position: a named tuple (values, indices). NaN stays once met."""
    return _running("cummin", cummin_op, input, dim)


# Running logarithm of sums of exponentials


def _infer_logcumsumexp(input: Meta, *, dim: int) -> Meta:
    if not input.dtype.is_inexact:
        raise RuntimeError(f"logcumsumexp: not defined for {input.dtype.name}; convert the tensor to floating point")
    return meta(input.dtype, input.shape, None, input.device)


logcumsumexp_op = structured(
    "logcumsumexp",
    _infer_logcumsumexp,
    errors=lambda: [ErrorSample((np.arange(3),), (0,), RuntimeError, "floating point")],
    doc="Running logarithm of the sum of exponentials.",
    samples=lambda: [Sample((_MATRIX,), (1,))],
    reference=lambda x, dim: np.log(np.cumsum(np.exp(x), axis=dim)),
)


@kernel(logcumsumexp_op, "cpu")
def _logcumsumexp(x: np.ndarray, dim: int) -> np.ndarray:
    if x.ndim == 0:
        return x.copy()
    found = cpu.log_sums(x, dim)
    if found is not None:
        return found
    if x.dtype.kind != "c":
        return np.logaddexp.accumulate(x, axis=dim, dtype=np.float64).astype(x.dtype)
    result = np.moveaxis(x.copy(), dim, 0)
    for i in range(1, len(result)):
        before, now = result[i - 1], result[i]
        first = before.real >= now.real
        top, low = np.where(first, before, now), np.where(first, now, before)
        # From the larger term, so that its imaginary part goes on past pi.
        result[i] = np.where(low.real == -np.inf, top, top + np.log1p(np.exp(low - top)))
    return np.moveaxis(result, 0, dim)


@function(memo=True)
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """Running logarithm of the sum of exponentials along `dim`, without overflow.

    Raises RuntimeError for integer tensors.
    """
    return logcumsumexp_op.apply((input,), (check_dim("logcumsumexp", dim, input.ndim),))


# Building blocks of the gradients


def _infer_affine(factor: Meta, term: Meta, *, dim: int, reverse: bool) -> Meta:
    return meta(term.dtype, term.shape, None, term.device)


def _summed_products(factor: np.ndarray, term: np.ndarray, dim: int, reverse: bool) -> np.ndarray:
    """The reference: each term times the factors between it and the result, summed."""
    f, t = np.moveaxis(factor, dim, 0), np.moveaxis(term, dim, 0)
    weights = [
        [f[min(j, k) + 1 : max(j, k) + 1].prod(0) * (j >= k if reverse else j <= k) for j in range(len(t))]
        for k in range(len(t))
    ]
    return np.moveaxis(np.stack([sum(w * x for w, x in zip(row, t)) for row in weights]), 0, dim)


affine_scan = structured(
    "affine_scan",
    _infer_affine,
    doc="`y[k] = term[k] + factor[k] * y[k-1]`; for `reverse` its adjoint `y[k] = term[k] + factor[k+1] * y[k+1]`.",
    samples=lambda: [Sample((_MATRIX, _MATRIX + 1), (1, False)), Sample((_MATRIX, _MATRIX + 1), (0, True))],
    reference=lambda factor, term, dim, reverse: _summed_products(factor, term, dim, reverse),
)


@kernel(affine_scan, "cpu")
def _affine(factor: np.ndarray, term: np.ndarray, dim: int, reverse: bool) -> np.ndarray:
    if term.ndim == 0:
        return term.copy()
    wide = np.float32 if term.dtype.itemsize == 2 else term.dtype
    result = np.moveaxis(term.astype(wide), dim, 0)
    factor = np.moveaxis(factor, dim, 0)
    n = len(result)
    if reverse:
        for k in range(n - 2, -1, -1):
            result[k] += factor[k + 1] * result[k + 1]
    else:
        for k in range(1, n):
            result[k] += factor[k] * result[k - 1]
    return np.moveaxis(result, 0, dim).astype(term.dtype, copy=False)


def _infer_delay(input: Meta, fill: Meta, *, dim: int, reverse: bool) -> Meta:
    return meta(input.dtype, input.shape, None, input.device)


delay = structured(
    "delay",
    _infer_delay,
    doc="Elements moved one place up along a dimension (down for `reverse`), `fill` where one is missing.",
    samples=lambda: [Sample((_MATRIX, 1), (1, False)), Sample((_MATRIX, 0), (0, True))],
    reference=lambda x, fill, dim, reverse: (
        np.flip(np.insert(np.flip(x, dim), 0, fill, dim).take(range(x.shape[dim]), dim), dim)
        if reverse
        else np.insert(x, 0, fill, dim).take(range(x.shape[dim]), dim)
    ),
)


@kernel(delay, "cpu")
def _delay(x: np.ndarray, fill: Any, dim: int, reverse: bool) -> np.ndarray:
    result = np.full(x.shape, fill, x.dtype)
    if x.ndim:
        target, source = np.moveaxis(result, dim, 0), np.moveaxis(x, dim, 0)
        if reverse:
            target[:-1] = source[1:]
        else:
            target[1:] = source[:-1]
    return result
