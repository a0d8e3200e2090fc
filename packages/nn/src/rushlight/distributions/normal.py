"""Distributions on the line given by a location and a scale."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Centered, Distribution, ExponentialFamily
from rushlight.distributions.utils import broadcast_all


class _LocationScale(Distribution):
    """`loc + scale * z` with a standard `z`; subclasses say how `z` is drawn and distributed."""

    arg_constraints: Any = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mode(self) -> Tensor:
        """The likeliest value: the location."""
        return self.loc

    def _standard(self, shape: Any) -> Tensor:
        raise NotImplementedError

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        return self.loc + self.scale * self._standard(self._extended_shape(sample_shape))

    def _z(self, value: Tensor) -> Tensor:
        self._check(value)
        return (value - self.loc) / self.scale


class Normal(_LocationScale, Centered, ExponentialFamily):
    """The normal distribution: density `exp(-((x - loc) / scale) ** 2 / 2) / (scale * sqrt(2 pi))`.

    Example:
        >>> import rushlight
        >>> rushlight.distributions.Normal(0.0, 1.0).log_prob(rushlight.tensor(0.0))
        tensor(-0.9189)
    """

    @property
    def stddev(self) -> Tensor:
        """The standard deviation: the scale."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.scale**2

    def _standard(self, shape: Any) -> Tensor:
        return rushlight.randn(shape, dtype=self.loc.dtype, device=self.loc.device)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        return -0.5 * self._z(value) ** 2 - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to the given one."""
        return 0.5 * (1 + rushlight.erf(self._z(value) / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        """The value up to which lies the given probability."""
        return self.loc + self.scale * rushlight.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class Laplace(_LocationScale, Centered):
    """Density `exp(-|x - loc| / scale) / (2 scale)`."""

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return 2 * self.scale**2

    def _standard(self, shape: Any) -> Tensor:
        u = rushlight.rand(shape, dtype=self.loc.dtype, device=self.loc.device) * 2 - 1
        inside = u.abs().clamp(max=1 - rushlight.finfo(u.dtype).eps / 2)
        return -u.sign() * rushlight.log1p(-inside)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        return -(2 * self.scale).log() - self._z(value).abs()

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to the given one."""
        z = self._z(value)
        return 0.5 - 0.5 * z.sign() * rushlight.expm1(-z.abs())

    def icdf(self, value: Tensor) -> Tensor:
        """The value up to which lies the given probability."""
        term = value - 0.5
        return self.loc - self.scale * term.sign() * rushlight.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """Density `1 / (pi * scale * (1 + ((x - loc) / scale) ** 2))`; it has no mean."""

    @property
    def mean(self) -> Tensor:
        """NaN: there is none."""
        return rushlight.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return rushlight.full_like(self.loc, math.inf)

    def _standard(self, shape: Any) -> Tensor:
        return rushlight.empty(shape, dtype=self.loc.dtype, device=self.loc.device).cauchy_()

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        return -math.log(math.pi) - self.scale.log() - (self._z(value) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to the given one."""
        return rushlight.atan(self._z(value)) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """The value up to which lies the given probability."""
        return rushlight.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return math.log(4 * math.pi) + self.scale.log()


class Uniform(Distribution):
    """All values in `[low, high)` alike."""

    arg_constraints: Any = {"low": constraints.dependent, "high": constraints.dependent}
    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not bool((self.low < self.high).all()):
            raise ValueError("Uniform is not defined when low >= high")

    @constraints.dependent_property
    def support(self) -> Any:
        """The set of values."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: no value is likelier than others."""
        return self.high * math.nan

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        u = rushlight.rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._check(value)
        inside = (self.low <= value) & (value < self.high)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to the given one."""
        self._check(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        """The value up to which lies the given probability."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return (self.high - self.low).log()
