"""Transforms of numbers."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.transform import Transform
from rushlight.distributions.utils import sum_last
from rushlight.nn import functional as F


class ExpTransform(Transform):
    """`exp(x)`"""

    bijective = True
    sign: Any = 1
    codomain: Any = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """`log |dy / dx|`"""
        return x


class PowerTransform(Transform):
    """`x ** exponent` of positive numbers"""

    bijective = True
    domain: Any = constraints.positive
    codomain: Any = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else rushlight.tensor(float(exponent))

    @property
    def sign(self) -> Any:
        """The sign of the slope."""
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """`log |dy / dx|`"""
        return (self.exponent * y / x).abs().log()

    def _options(self) -> tuple:
        return (self.exponent,)


class SigmoidTransform(Transform):
    """`1 / (1 + exp(-x))`"""

    bijective = True
    sign: Any = 1
    codomain: Any = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        info = rushlight.finfo(x.dtype)
        return x.sigmoid().clamp(info.tiny, 1 - info.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        info = rushlight.finfo(y.dtype)
        y = y.clamp(info.tiny, 1 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """`log |dy / dx|`"""
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(Transform):
    """`log(1 + exp(x))`"""

    bijective = True
    sign: Any = 1
    codomain: Any = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """`log |dy / dx|`"""
        return -F.softplus(-x)


class TanhTransform(Transform):
    """`tanh(x)`"""

    bijective = True
    sign: Any = 1
    codomain: Any = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return rushlight.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """`log |dy / dx|`"""
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(Transform):
    """`|x|`; its inverse gives the positive one."""

    codomain: Any = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """`loc + scale * x`"""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self.event_dim = loc, scale, event_dim
        real = constraints.independent(constraints.real, event_dim) if event_dim else constraints.real
        self.domain = self.codomain = real

    @property
    def sign(self) -> Any:
        """The sign of the slope."""
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """`log |dy / dx|`"""
        scale = self.scale
        stretch = (
            scale.abs().log() if isinstance(scale, Tensor) else rushlight.tensor(math.log(abs(scale)), dtype=x.dtype)
        )
        return sum_last(stretch.expand(x.shape), self.event_dim)

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the result for an input of a shape."""
        return rushlight.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape

    def _options(self) -> tuple:
        return (self.loc, self.scale, self.event_dim)


class CumulativeDistributionTransform(Transform):
    """`distribution.cdf(x)`"""

    bijective = True
    sign: Any = 1
    codomain: Any = constraints.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        """The set of inputs: the distribution's support."""
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """`log |dy / dx|`"""
        return self.distribution.log_prob(x)
