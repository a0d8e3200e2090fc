"""Activation layers: a module for each activation function."""

from __future__ import annotations

import warnings
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.multihead import MultiheadAttention  # noqa: F401  PyTorch's place for it
from rushlight.nn.parameter import Parameter


class _Plain(Module):
    """An activation without options."""

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._function)(input)

    _function: str


class Sigmoid(_Plain):
    """`1 / (1 + exp(-x))`"""

    _function = "sigmoid"


class Tanh(_Plain):
    """`tanh(x)`"""

    _function = "tanh"


class LogSigmoid(_Plain):
    """`log(1 / (1 + exp(-x)))`"""

    _function = "logsigmoid"


class Softsign(_Plain):
    """`x / (1 + |x|)`"""

    _function = "softsign"


class Tanhshrink(_Plain):
    """`x - tanh(x)`"""

    _function = "tanhshrink"


class _InPlace(Module):
    """An activation whose only option is to overwrite its input."""

    _function: str

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._function)(input, inplace=self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """`max(x, 0)`

    Example:
        >>> import rushlight
        >>> rushlight.nn.ReLU()(rushlight.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    _function = "relu"


class SELU(_InPlace):
    """`scale * (max(x, 0) + min(alpha * (exp(x) - 1), 0))` (Klambauer et al. 2017)"""

    _function = "selu"


class SiLU(_InPlace):
    """`x * sigmoid(x)`"""

    _function = "silu"


class Mish(_InPlace):
    """`x * tanh(log(1 + exp(x)))` (Misra 2019)"""

    _function = "mish"


class Hardsigmoid(_InPlace):
    """`clamp(x / 6 + 1 / 2, 0, 1)`"""

    _function = "hardsigmoid"


class Hardswish(_InPlace):
    """`x * clamp(x / 6 + 1 / 2, 0, 1)` (Howard et al. 2019)"""

    _function = "hardswish"


class Hardtanh(Module):
    """`clamp(x, min_val, max_val)`"""

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("min", min_value), ("max", max_value)):
            if value is not None:
                warnings.warn(
                    f"keyword argument `{name}_value` is deprecated; use `{name}_val`", FutureWarning, stacklevel=2
                )
        min_val, max_val = min_val if min_value is None else min_value, max_val if max_value is None else max_value
        if max_val <= min_val:
            raise ValueError("max_val must be larger than min_val")
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    """`clamp(x, 0, 6)`"""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class _Alpha(Module):
    _function: str

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._function)(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class ELU(_Alpha):
    """`x` above 0, else `alpha * (exp(x) - 1)`"""

    _function = "elu"


class CELU(_Alpha):
    """`max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)`"""

    _function = "celu"


class LeakyReLU(Module):
    """`x` above 0, else `negative_slope * x`"""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class RReLU(Module):
    """`x` above 0, else `a * x` with `a` drawn uniformly in training and the mean in evaluation."""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class Threshold(Module):
    """`x` above `threshold`, else `value`"""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class GELU(Module):
    """`x * Phi(x)` with the normal distribution function (Hendrycks and Gimpel 2016), or its tanh approximation."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """`log(1 + exp(beta * x)) / beta`, linear above `threshold`"""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class _Shrink(Module):
    _function: str

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._function)(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """`x` where `|x| > lambd`, else 0"""

    _function = "hardshrink"


class Softshrink(_Shrink):
    """`x` moved towards 0 by `lambd`, 0 where it would cross"""

    _function = "softshrink"


class GLU(Module):
    """`a * sigmoid(b)` for the two halves of the input along `dim` (Dauphin et al. 2016)"""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class PReLU(Module):
    """`x` above 0, else `weight * x` with a learnt weight, one or one per channel (He et al. 2015)"""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(rushlight.full((num_parameters,), float(init), device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Go back to the starting value."""
        with rushlight.no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class _Soft(Module):
    _function: str

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._function)(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_Soft):
    """`exp(x) / sum(exp(x))` along `dim`"""

    _function = "softmax"


class LogSoftmax(_Soft):
    """`log(softmax(x))` along `dim`"""

    _function = "log_softmax"


class Softmin(_Soft):
    """`softmax(-x)` along `dim`"""

    _function = "softmin"


class Softmax2d(Module):
    """Softmax over the channels of `(n, c, h, w)` or `(c, h, w)`. Raises ValueError for other shapes."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)
