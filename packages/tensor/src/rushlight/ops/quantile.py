"""Quantiles: quantile, nanquantile."""

from __future__ import annotations

from rushlight.core import checks, dtypes
from rushlight.core.errors import check_dim
from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops.arithmetic import lerp
from rushlight.ops.create import tensor
from rushlight.ops.rounding import ceil, floor, round
from rushlight.ops.selection import where_op
from rushlight.ops.sorting import sort

_ROUNDED = {"lower": floor, "higher": ceil, "nearest": round}


def _quantile(
    name: str, input: Tensor, q: float | Tensor, dim: int | None, keepdim: bool, interpolation: str, skip_nan: bool
) -> Tensor:
    if input.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(f"{name}: input tensor must be either float or double dtype, got {input.dtype.name}")
    if interpolation not in ("linear", "midpoint", *_ROUNDED):
        raise RuntimeError(
            f"{name}: interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if not hasattr(q, "_meta"):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}: q must be in the range [0, 1] but got {q}")
        q = tensor(q, dtype=input.dtype, device=input.device)
    if q.ndim > 1:
        raise RuntimeError(f"{name}: q must be a scalar or 1D tensor, got {q.ndim} dimensions")
    if q.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}: q tensor must be same dtype as the input tensor, got {q.dtype.name} and {input.dtype.name}"
        )
    if checks.found(~((q >= 0) & (q <= 1))):
        raise RuntimeError(f"{name}: q values must be in the range [0, 1]")
    d = 0 if dim is None else check_dim(name, dim, input.ndim)
    rows = input.reshape(-1) if dim is None or input.ndim == 0 else input.movedim(d, -1)
    if rows.shape[-1] == 0:
        raise RuntimeError(f"{name}: input tensor must be non-empty along the dimension that is reduced")
    found = _at(rows, q, interpolation, skip_nan)  # (*rest, number of quantiles)
    found = found.movedim(-1, 0) if q.ndim else found.squeeze(-1)
    if keepdim:
        lead = (q.shape[0],) if q.ndim else ()
        kept = (1,) * input.ndim if dim is None else tuple([1 if i == d else n for i, n in enumerate(input.shape)])
        found = found.reshape((*lead, *kept))
    return found


def _at(rows: Tensor, q: Tensor, interpolation: str, skip_nan: bool) -> Tensor:
    """The quantiles `q` along the last dimension: between two neighbours in the order, as their ranks say."""
    ordered = sort(rows, -1).values
    nans = rows.isnan()
    if skip_nan:
        last = (nans.logical_not().sum(-1, True) - 1).clamp(min=0)
        ranks = q.reshape(-1) * last.to(rows.dtype)
    else:
        ranks = q.reshape(-1) * (rows.shape[-1] - 1)
        ranks = where_op(nans.any(-1, True), rows.shape[-1] - 1.0, ranks)  # NaN is last in the order
    if interpolation in _ROUNDED:
        return ordered.gather(-1, _ROUNDED[interpolation](ranks).to(dtypes.int64))
    below = ranks.to(dtypes.int64)
    weight = (ranks - below) if interpolation == "linear" else (ranks != below) * 0.5
    return lerp(ordered.gather(-1, below), ordered.gather(-1, ranks.ceil().to(dtypes.int64)), weight.to(rows.dtype))


@function(autocast="wide")
def quantile(
    input: Tensor, q: float | Tensor, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The value below which a share `q` of the elements lies, of all or along `dim`; NaN if there is one.

    Between two elements `interpolation` decides: linear, lower, higher, nearest, midpoint. Shapes: a tensor `q` adds a
    first dimension. Raises RuntimeError for `q` outside [0, 1], of another dtype, or an empty input.

    Example:
        >>> import rushlight
        >>> rushlight.quantile(rushlight.tensor([0.0, 1.0, 2.0, 3.0]), 0.5)
        tensor(1.5000)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@function(autocast="wide")
def nanquantile(
    input: Tensor, q: float | Tensor, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The quantile of the elements that are not NaN, as `quantile`; NaN where all are."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)
