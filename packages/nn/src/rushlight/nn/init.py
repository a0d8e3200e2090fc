"""Starting values of parameters: `rushlight.nn.init`. Every function fills the tensor in place and returns it."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import Tensor

_GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 0.75,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which weights before a nonlinearity should be larger to keep the variance.

    `param` is the negative slope of `leaky_relu`. Raises ValueError for an unknown name.

    Example:
        >>> from rushlight import nn
        >>> round(nn.init.calculate_gain("relu"), 4)
        1.4142
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param!r} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"unsupported nonlinearity {nonlinearity!r}; known are {', '.join([*_GAINS, 'leaky_relu'])}")
    return _GAINS[nonlinearity]


def _fill(tensor: Tensor, fill: Any) -> Tensor:
    with rushlight.no_grad():
        fill(tensor)
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform between `a` and `b`."""
    return _fill(tensor, lambda t: t.uniform_(a, b, generator=generator))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with the given mean and standard deviation."""
    return _fill(tensor, lambda t: t.normal_(mean, std, generator=generator))


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Normal, cut off at `a` and `b`, through the inverse of the distribution function."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_: the values may not be distributed as meant",
            stacklevel=2,
        )

    def cdf(x: float) -> float:
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    def fill(t: Tensor) -> None:
        t.uniform_(2 * cdf((a - mean) / std) - 1, 2 * cdf((b - mean) / std) - 1, generator=generator)
        t.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean).clamp_(a, b)

    return _fill(tensor, fill)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Every element `val`."""
    return _fill(tensor, lambda t: t.fill_(val))


def ones_(tensor: Tensor) -> Tensor:
    """Every element 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Every element 0."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix. Raises ValueError unless the tensor has 2 dimensions."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return _fill(tensor, lambda t: t.copy_(rushlight.eye(*t.shape, dtype=t.dtype)))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Convolution weights that pass the input through. Raises ValueError unless 3, 4 or 5 dimensions fit the groups."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.shape[0] // groups
    middle = tuple([size // 2 for size in tensor.shape[2:]])

    def fill(t: Tensor) -> None:
        t.zero_()
        for g in range(groups):
            for d in range(min(per_group, t.shape[1])):
                t[(g * per_group + d, d, *middle)] = 1

    return _fill(tensor, fill)


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    receptive = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive, tensor.shape[0] * receptive


def _fan(tensor: Tensor, mode: str) -> int:
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode.lower() == "fan_out"]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform in `[-k, k]`, `k = gain * sqrt(6 / (fan_in + fan_out))` (Glorot and Bengio 2010)."""
    bound = gain * math.sqrt(6.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with `std = gain * sqrt(2 / (fan_in + fan_out))` (Glorot and Bengio 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Uniform in `[-k, k]`, `k = gain * sqrt(3 / fan)` (He et al. 2015)."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3.0 / _fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Normal with `std = gain / sqrt(fan)` (He et al. 2015)."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode)), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """A (semi-)orthogonal matrix over all but the first dimension (Saxe et al. 2014). ValueError for fewer than 2
    dimensions."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    flat = rushlight.empty(max(rows, columns), min(rows, columns), dtype=tensor.dtype).normal_(
        0, 1, generator=generator
    )
    q, r = rushlight.linalg.qr(flat)
    q = q * r.diagonal().sign()
    return _fill(tensor, lambda t: t.copy_((q.t() if rows < columns else q).reshape(t.shape)).mul_(gain))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal, with a fraction `sparsity` of each column set to zero. ValueError unless the tensor has 2 dimensions."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)

    def fill(t: Tensor) -> None:
        t.normal_(0, std, generator=generator)
        for column in range(columns):
            t[rushlight.randperm(rows, generator=generator)[:zeros], column] = 0

    return _fill(tensor, fill)


def _deprecated(name: str, fill: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function by the name it had before the underscore; it warns and fills in place all the same."""

    @functools.wraps(fill)
    def renamed(*args: Any, **kwargs: Any) -> Tensor:
        message = f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`."
        warnings.warn(message, FutureWarning, stacklevel=2)
        return fill(*args, **kwargs)

    renamed.__name__ = renamed.__qualname__ = name
    renamed.__doc__ = f"Deprecated: `{name}_` by its old name."
    return renamed


uniform = _deprecated("uniform", uniform_)
normal = _deprecated("normal", normal_)
constant = _deprecated("constant", constant_)
eye = _deprecated("eye", eye_)
dirac = _deprecated("dirac", dirac_)
xavier_uniform = _deprecated("xavier_uniform", xavier_uniform_)
xavier_normal = _deprecated("xavier_normal", xavier_normal_)
kaiming_uniform = _deprecated("kaiming_uniform", kaiming_uniform_)
kaiming_normal = _deprecated("kaiming_normal", kaiming_normal_)
orthogonal = _deprecated("orthogonal", orthogonal_)
sparse = _deprecated("sparse", sparse_)
