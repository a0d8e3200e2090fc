"""Distributions made of others by a transform, and the families that are best described so."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.discrete import Categorical, _Binary
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.gamma import Exponential, Gamma
from rushlight.distributions.normal import Cauchy, Normal, Uniform
from rushlight.distributions.transforms_scalar import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    Transform,
)
from rushlight.distributions.transforms_vector import StickBreakingTransform
from rushlight.distributions.utils import broadcast_all, sum_last

EULER = 0.57721566490153286060


class TransformedDistribution(Distribution):
    """The values of a base distribution, sent through transforms.

    Example:
        >>> import rushlight
        >>> D = rushlight.distributions
        >>> log_normal = D.TransformedDistribution(D.Normal(0.0, 1.0), [D.ExpTransform()])
        >>> log_normal.log_prob(rushlight.tensor(1.0))
        tensor(-0.9189)
    """

    arg_constraints: Any = {}

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        whole = ComposeTransform(self.transforms)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        self.base_dist = base_distribution
        event_dim = len(base_distribution.event_shape)
        if self.transforms:
            event_dim = max(whole.codomain.event_dim, event_dim + whole.codomain.event_dim - whole.domain.event_dim)
        shape = whole.forward_shape(shape)
        cut = len(shape) - event_dim
        super().__init__(shape[:cut], shape[cut:], validate_args)

    @property
    def has_rsample(self) -> bool:
        """Does the base distribution have reparametrised samples?"""
        return self.base_dist.has_rsample

    @constraints.dependent_property
    def support(self) -> Any:
        """The set of values."""
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        extra = len(self.event_shape) - support.event_dim
        return constraints.independent(support, extra) if extra > 0 else support

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values."""
        with rushlight.no_grad():
            return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        return self._through(self.base_dist.rsample(sample_shape))

    def _through(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density: that of the base at the inverse, less the stretch of volume."""
        self._check(value)
        dims, total, y = len(self.event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            stretch = transform.log_abs_det_jacobian(x, y)
            total = total - sum_last(stretch, dims - transform.domain.event_dim)
            y = x
        return total + sum_last(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape))

    def _monotone(self, value: Tensor) -> Tensor:
        """Probabilities, turned around where the transforms fall."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to the given one, through monotone transforms."""
        self._check(value)
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._monotone(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """The value up to which lies the given probability, through monotone transforms."""
        return self._through(self.base_dist.icdf(self._monotone(value)))


class LogNormal(TransformedDistribution):
    """`exp` of a normal number."""

    arg_constraints: Any = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return (self.scale**2).expm1() * (2 * self.loc + self.scale**2).exp()

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return self.base_dist.entropy() + self.loc


class _Half(TransformedDistribution):
    """The size of a number from a distribution that is symmetric about 0."""

    arg_constraints: Any = {"scale": constraints.positive}
    support: Any = constraints.nonnegative
    _base: type

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._base(0.0, scale, validate_args=False), AbsTransform(), validate_args)

    @property
    def scale(self) -> Tensor:
        """The scale."""
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        """The likeliest value: 0."""
        return rushlight.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._check(value)
        return rushlight.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to the given one."""
        self._check(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        """The value up to which lies the given probability."""
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The size of a normal number with mean 0."""

    _base = Normal

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.scale**2 * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The size of a Cauchy number with location 0."""

    _base = Cauchy

    @property
    def mean(self) -> Tensor:
        """Infinite."""
        return rushlight.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return rushlight.full_like(self.scale, math.inf)


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


class LogisticNormal(TransformedDistribution):
    """Probabilities `(k + 1)` made of normal numbers `(k)` by breaking a stick."""

    arg_constraints: Any = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The means of the normal numbers."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the normal numbers."""
        return self.base_dist.scale


class _LogitRelaxed(_Binary):
    """The log-odds of RelaxedBernoulli."""

    support: Any = constraints.real
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any, logits: Any, validate_args: bool | None = None) -> None:
        self.temperature = temperature
        self._take(probs, logits)
        super().__init__(self._given.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        u = rushlight.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype)
        u = u.clamp(rushlight.finfo(u.dtype).eps, 1 - rushlight.finfo(u.dtype).eps)
        return (u.log() - (-u).log1p() + self.logits) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        temperature = rushlight.as_tensor(self.temperature, dtype=difference.dtype)
        return temperature.log() + difference - 2 * difference.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers in (0, 1) that gather at 0 and 1 as the temperature falls (Maddison et al. 2016)."""

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Any = constraints.unit_interval

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(_LogitRelaxed(temperature, probs, logits), SigmoidTransform(), validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def probs(self) -> Tensor:
        """The probability of success."""
        return self.base_dist.probs

    @property
    def logits(self) -> Tensor:
        """The log-odds of success."""
        return self.base_dist.logits


class _ExpRelaxed(Distribution):
    """The logarithm of RelaxedOneHotCategorical."""

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support: Any = constraints.real_vector
    has_rsample = True

    def _parameter_dims(self, name: str) -> int | None:
        return None if name == "temperature" else super()._parameter_dims(name)

    def __init__(self, temperature: Any, probs: Any, logits: Any, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        event = self._categorical.param_shape[-1:]
        super().__init__(self._categorical.batch_shape, event, validate_args)

    @property
    def probs(self) -> Tensor:
        """The probability of each choice."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The logarithm of each probability."""
        return self._categorical.logits

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        shape = self._extended_shape(sample_shape)
        gumbels = -rushlight.empty(shape, dtype=self.logits.dtype).exponential_().log()
        scores = (self.logits + gumbels) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._check(value)
        k = self._event_shape[0]
        logits, value = broadcast_all(self.logits, value)
        temperature = rushlight.as_tensor(self.temperature, dtype=logits.dtype).expand(self._batch_shape)
        log_scale = rushlight.lgamma(rushlight.full_like(temperature, float(k))) + (k - 1) * temperature.log()
        score = logits - value * rushlight.as_tensor(self.temperature, dtype=logits.dtype)
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + log_scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Probability vectors that gather at the corners as the temperature falls (Jang et al. 2016)."""

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support: Any = constraints.simplex

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(_ExpRelaxed(temperature, probs, logits), ExpTransform(), validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def probs(self) -> Tensor:
        """The probability of each choice."""
        return self.base_dist.probs

    @property
    def logits(self) -> Tensor:
        """The logarithm of each probability."""
        return self.base_dist.logits
