"""Families that are best described by a transform: extremes, powers, inverses."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.gamma import Exponential, Gamma
from rushlight.distributions.normal import Uniform
from rushlight.distributions.transformed import TransformedDistribution
from rushlight.distributions.transforms_scalar import (
    AffineTransform,
    ExpTransform,
    PowerTransform,
)
from rushlight.distributions.utils import broadcast_all

EULER = 0.57721566490153286060


class Gumbel(TransformedDistribution):
    """The largest of many numbers: `loc - scale * log(-log(u))`."""

    arg_constraints: Any = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = rushlight.finfo(self.loc.dtype)
        low, high = rushlight.full_like(self.loc, info.tiny), rushlight.full_like(self.loc, 1 - info.eps)
        inward = AffineTransform(0, -rushlight.ones_like(self.scale))
        outward = AffineTransform(self.loc, -self.scale)
        parts = [ExpTransform().inv, inward, ExpTransform().inv, outward]
        super().__init__(Uniform(low, high, validate_args), parts, validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._check(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Tensor:
        """The likeliest value: the location."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.stddev**2

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return self.scale.log() + (1 + EULER)


class Pareto(TransformedDistribution):
    """Density `alpha * scale ** alpha / x ** (alpha + 1)` above `scale`."""

    arg_constraints: Any = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        parts = [ExpTransform(), AffineTransform(0, self.scale)]
        super().__init__(Exponential(self.alpha, validate_args), parts, validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        """The set of values."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """The mean, infinite for `alpha <= 1`."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        """The likeliest value: the scale."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance, infinite for `alpha <= 2`."""
        a = self.alpha.clamp(min=2)
        return self.scale**2 * a / ((a - 1) ** 2 * (a - 2))

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(TransformedDistribution):
    """`scale * e ** (1 / concentration)` for a standard exponential number e."""

    arg_constraints: Any = {"scale": constraints.positive, "concentration": constraints.positive}
    support: Any = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(rushlight.ones_like(self.scale), validate_args)
        parts = [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]
        super().__init__(base, parts, validate_args)

    def _moment(self, order: int) -> Tensor:
        return rushlight.lgamma(1 + order * self.concentration_reciprocal).exp()

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        """The likeliest value, NaN for `concentration < 1`."""
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.scale**2 * (self._moment(2) - self._moment(1) ** 2)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        inverse = self.concentration_reciprocal
        return EULER * (1 - inverse) + (self.scale * inverse).log() + 1


class Kumaraswamy(TransformedDistribution):
    """Density `a * b * x ** (a - 1) * (1 - x ** a) ** (b - 1)` in (0, 1) for `concentration1` a and `concentration0`
    b."""

    arg_constraints: Any = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support: Any = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zero, one = rushlight.zeros_like(self.concentration0), rushlight.ones_like(self.concentration0)
        parts = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(Uniform(zero, one, validate_args), parts, validate_args)

    def _moment(self, order: int) -> Tensor:
        a = 1 + order / self.concentration1
        b = self.concentration0
        return (b.log() + rushlight.lgamma(a) + rushlight.lgamma(b) - rushlight.lgamma(a + b)).exp()

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """The likeliest value, NaN where a concentration is below 1."""
        a, b = self.concentration1, self.concentration0
        return rushlight.where((a < 1) | (b < 1), math.nan, ((a - 1) / (a * b - 1)) ** a.reciprocal())

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self._moment(2) - self.mean**2

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        a, b = self.concentration1.reciprocal(), self.concentration0.reciprocal()
        harmonic = rushlight.digamma(self.concentration0 + 1) + EULER
        return (1 - b) + (1 - a) * harmonic + a.log() + b.log()


class InverseGamma(TransformedDistribution):
    """`1 / x` of a gamma number."""

    arg_constraints: Any = {"concentration": constraints.positive, "rate": constraints.positive}
    support: Any = constraints.positive

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args)
        super().__init__(base, PowerTransform(-rushlight.ones((), dtype=base.rate.dtype)), validate_args)

    @property
    def concentration(self) -> Tensor:
        """The shape of the gamma distribution."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate of the gamma distribution."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        """The mean, infinite for `concentration <= 1`."""
        return rushlight.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """The variance, infinite for `concentration <= 2`."""
        a = self.concentration
        return rushlight.where(a > 2, self.rate**2 / ((a - 1) ** 2 * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        a = self.concentration
        return a + self.rate.log() + rushlight.lgamma(a) - (1 + a) * rushlight.digamma(a)
