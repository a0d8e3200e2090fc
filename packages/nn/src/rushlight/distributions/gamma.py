"""The gamma distribution and those made of gamma numbers."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution, ExponentialFamily
from rushlight.distributions.gamma_sample import standard_gamma
from rushlight.distributions.utils import broadcast_all


class Gamma(ExponentialFamily):
    """Density `rate ** a * x ** (a - 1) * exp(-rate * x) / gamma(a)` for the `concentration` a."""

    arg_constraints: Any = {"concentration": constraints.positive, "rate": constraints.positive}
    support: Any = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.concentration / self.rate**2

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        shape = self._extended_shape(sample_shape)
        return standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._check(value)
        a = self.concentration
        return rushlight.xlogy(a, self.rate) + rushlight.xlogy(a - 1, value) - self.rate * value - rushlight.lgamma(a)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to the given one."""
        self._check(value)
        return rushlight.igamma(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        a = self.concentration
        return a - self.rate.log() + rushlight.lgamma(a) + (1 - a) * rushlight.digamma(a)


class Chi2(Gamma):
    """The sum of `df` squared standard normal numbers: `Gamma(df / 2, 1 / 2)`."""

    arg_constraints: Any = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        half = 0.5 * df
        super().__init__(half, 0.5 * rushlight.ones_like(half) if isinstance(half, Tensor) else 0.5, validate_args)

    def _parameter_dims(self, name: str) -> int | None:
        return 0 if name in ("concentration", "rate") else None

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2


class Exponential(ExponentialFamily):
    """Density `rate * exp(-rate * x)`."""

    arg_constraints: Any = {"rate": constraints.positive}
    support: Any = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        """The likeliest value: 0."""
        return rushlight.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.rate**-2

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        shape = self._extended_shape(sample_shape)
        return rushlight.empty(shape, dtype=self.rate.dtype, device=self.rate.device).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._check(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to the given one."""
        self._check(value)
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """The value up to which lies the given probability."""
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return 1 - self.rate.log()


class Dirichlet(ExponentialFamily):
    """Density proportional to `prod(x ** (concentration - 1))` over vectors `(k)` of probabilities."""

    arg_constraints: Any = {"concentration": constraints.independent(constraints.positive, 1)}
    support: Any = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        """The likeliest value; the first corner, one of several, when all concentrations are below 1."""
        less = (self.concentration - 1).clamp(min=0)
        first = rushlight.zeros_like(less)
        first[..., 0] = 1
        mode = less / less.sum(-1, keepdim=True)
        return rushlight.where((self.concentration < 1).all(-1, keepdim=True), first, mode)

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        drawn = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        return drawn / drawn.sum(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._check(value)
        a = self.concentration
        return rushlight.xlogy(a - 1, value).sum(-1) + rushlight.lgamma(a.sum(-1)) - rushlight.lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        norm = rushlight.lgamma(a).sum(-1) - rushlight.lgamma(total)
        return norm - (k - total) * rushlight.digamma(total) - ((a - 1) * rushlight.digamma(a)).sum(-1)


class Beta(ExponentialFamily):
    """Density `x ** (a - 1) * (1 - x) ** (b - 1) / beta(a, b)` for `concentration1` a and `concentration0` b."""

    arg_constraints: Any = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support: Any = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        pair = rushlight.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(pair, validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Tensor:
        """What draws towards 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """What draws towards 0."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        """The variance."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._check(value)
        return self._dirichlet.log_prob(rushlight.stack((value, 1 - value), -1))

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return self._dirichlet.entropy()


class FisherSnedecor(Distribution):
    """The ratio of two Chi2 numbers, each divided by its degrees of freedom."""

    arg_constraints: Any = {"df1": constraints.positive, "df2": constraints.positive}
    support: Any = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean, NaN for `df2 <= 2`."""
        return rushlight.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        """The likeliest value, NaN for `df1 <= 2`."""
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return rushlight.where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        """The variance, NaN for `df2 <= 4`."""
        a, b = self.df1, self.df2
        found = 2 * b**2 * (a + b - 2) / (a * (b - 2) ** 2 * (b - 4))
        return rushlight.where(b > 4, found, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        x = Gamma(self.df1 / 2, self.df1 / 2, validate_args=False).rsample(sample_shape)
        y = Gamma(self.df2 / 2, self.df2 / 2, validate_args=False).rsample(sample_shape)
        return x / y.clamp(min=rushlight.finfo(y.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._check(value)
        a, b = self.df1 / 2, self.df2 / 2
        ratio = self.df1 / self.df2
        norm = rushlight.lgamma(a + b) - rushlight.lgamma(a) - rushlight.lgamma(b)
        return norm + a * ratio.log() + (a - 1) * value.log() - (a + b) * rushlight.log1p(ratio * value)


class StudentT(Distribution):
    """`loc + scale * z` with a standard normal number over the root of a Chi2 one by its degrees of freedom `df`."""

    arg_constraints: Any = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean, NaN for `df <= 1`."""
        return rushlight.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        """The likeliest value: the location."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance, infinite for `df <= 2`, NaN for `df <= 1`."""
        found = rushlight.where(self.df > 2, self.scale**2 * self.df / (self.df - 2), math.inf)
        return rushlight.where(self.df > 1, found, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        shape = self._extended_shape(sample_shape)
        x = rushlight.randn(shape, dtype=self.df.dtype, device=self.df.device)
        z = Gamma(self.df / 2, 0.5, validate_args=False).rsample(sample_shape)
        return self.loc + self.scale * x * (z / self.df).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._check(value)
        y = (value - self.loc) / self.scale
        half = (self.df + 1) / 2
        norm = (
            self.scale.log() + 0.5 * (self.df * math.pi).log() + rushlight.lgamma(self.df / 2) - rushlight.lgamma(half)
        )
        return -half * (y**2 / self.df).log1p() - norm

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        half = (self.df + 1) / 2
        beta = rushlight.lgamma(self.df / 2) + math.lgamma(0.5) - rushlight.lgamma(half)
        spread = half * (rushlight.digamma(half) - rushlight.digamma(self.df / 2))
        return self.scale.log() + spread + 0.5 * self.df.log() + beta
