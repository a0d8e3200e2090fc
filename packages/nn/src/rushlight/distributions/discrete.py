"""Distributions of success and failure, and of counts."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import ExponentialFamily
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.utils import (
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from rushlight.nn import functional as F


def one_of(name: str, probs: Any, logits: Any) -> None:
    """Raise ValueError unless exactly one of two parameters is given."""
    if (probs is None) == (logits is None):
        raise ValueError(f"{name}: either `probs` or `logits` must be specified, but not both.")


class _Binary(ExponentialFamily):
    """A probability of success, given as such or as log-odds; the other is computed when asked for."""

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}

    def _take(self, probs: Any, logits: Any, *others: Any) -> tuple[Tensor, ...]:
        one_of(type(self).__name__, probs, logits)
        name, value = ("probs", probs) if probs is not None else ("logits", logits)
        given, *rest = broadcast_all(value, *others)
        self.__dict__[name] = given
        return tuple(rest)

    @property
    def _given(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @lazy_property
    def logits(self) -> Tensor:
        """The log-odds of success."""
        return probs_to_logits(self.probs, is_binary=True)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._given.shape


class Bernoulli(_Binary):
    """1 with probability `probs` (log-odds `logits`), else 0.

    Example:
        >>> import rushlight
        >>> rushlight.distributions.Bernoulli(0.25).log_prob(rushlight.tensor(1.0)).exp()
        tensor(0.2500)
    """

    support: Any = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._take(probs, logits)
        super().__init__(self._given.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likeliest value, NaN where both are."""
        return rushlight.where(self.probs == 0.5, float("nan"), (self.probs >= 0.5).to(self.probs.dtype))

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values."""
        with rushlight.no_grad():
            return rushlight.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability."""
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value.to(logits.dtype), reduction="none")

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1, in a new first dimension."""
        values = rushlight.arange(2, dtype=self._given.dtype).view(-1, *(1,) * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


class Geometric(_Binary):
    """The number of failures before the first success: `(1 - probs) ** k * probs`."""

    support: Any = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._take(probs, logits)
        super().__init__(self._given.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            raise ValueError(
                "Expected parameter probs of distribution Geometric to be positive, but found invalid values"
            )

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        """The likeliest value: 0."""
        return rushlight.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values."""
        with rushlight.no_grad():
            shape = self._extended_shape(sample_shape)
            u = rushlight.rand(shape, dtype=self.probs.dtype).clamp(min=rushlight.finfo(self.probs.dtype).tiny)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability."""
        self._check(value)
        value, probs = broadcast_all(value, self.probs)
        probs = rushlight.where((probs == 1) & (value == 0), 0.0, probs)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class Binomial(_Binary):
    """The number of successes in `total_count` trials."""

    has_enumerate_support = True
    arg_constraints: Any = {**_Binary.arg_constraints, "total_count": constraints.nonnegative_integer}

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (self.total_count,) = self._take(probs, logits, total_count)
        super().__init__(self._given.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True)
    def support(self) -> Any:
        """The set of values."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values."""
        shape = self._extended_shape(sample_shape)
        with rushlight.no_grad():
            return rushlight.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability."""
        self._check(value)
        n = self.total_count
        ways = rushlight.lgamma(n + 1) - rushlight.lgamma(value + 1) - rushlight.lgamma(n - value + 1)
        return ways + value * self.logits - n * F.softplus(self.logits)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 to `total_count`, in a new first dimension. NotImplementedError for several counts."""
        most = int(self.total_count.max())
        if int(self.total_count.min()) != most:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        values = rushlight.arange(1 + most, dtype=self._given.dtype).view(-1, *(1,) * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)


class NegativeBinomial(_Binary):
    """The number of successes before `total_count` failures."""

    support: Any = constraints.nonnegative_integer
    arg_constraints: Any = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (self.total_count,) = self._take(probs, logits, total_count)
        super().__init__(self._given.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values: Poisson counts with gamma rates."""
        with rushlight.no_grad():
            rate = Gamma(self.total_count, (-self.logits).exp(), validate_args=False).sample(sample_shape)
            return rushlight.poisson(rate)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability."""
        self._check(value)
        n = self.total_count
        kept = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        ways = rushlight.lgamma(n + value) - rushlight.lgamma(1 + value) - rushlight.lgamma(n)
        return kept + rushlight.where(n + value == 0, 0.0, ways)


class Poisson(ExponentialFamily):
    """Counts of events that come at a `rate`: `rate ** k * exp(-rate) / k!`."""

    arg_constraints: Any = {"rate": constraints.nonnegative}
    support: Any = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values."""
        with rushlight.no_grad():
            return rushlight.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability."""
        self._check(value)
        rate, value = broadcast_all(self.rate, value)
        return rushlight.xlogy(value, rate) - rate - rushlight.lgamma(value + 1)


class ContinuousBernoulli(_Binary):
    """Numbers in [0, 1] with density proportional to `probs ** x * (1 - probs) ** (1 - x)` (Loaiza-Ganem 2019)."""

    support: Any = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._take(probs, logits)
        self._lims = lims
        super().__init__(self._given.shape, validate_args=validate_args)

    def _safe(self) -> tuple[Tensor, Tensor]:
        """Probabilities moved out of the middle, where the formulas divide by zero, and which of them were not
        there."""
        probs = clamp_probs(self.probs)
        outside = (probs <= self._lims[0]) | (probs > self._lims[1])
        return rushlight.where(outside, probs, self._lims[0]), outside

    def _log_norm(self) -> Tensor:
        cut, outside = self._safe()
        x = (clamp_probs(self.probs) - 0.5) ** 2
        value = ((-cut).log1p() - cut.log()).abs().log() - (1 - 2 * cut).abs().log()
        return rushlight.where(outside, value, 0.6931471805599453 + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        cut, outside = self._safe()
        x = clamp_probs(self.probs) - 0.5
        exact = cut / (2 * cut - 1) + 1 / ((-cut).log1p() - cut.log())
        return rushlight.where(outside, exact, 0.5 + (1 / 3 + 16 / 45 * x**2) * x)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        cut, outside = self._safe()
        x = (clamp_probs(self.probs) - 0.5) ** 2
        exact = cut * (cut - 1) / (1 - 2 * cut) ** 2 + 1 / ((-cut).log1p() - cut.log()) ** 2
        return rushlight.where(outside, exact, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none") + self._log_norm()

    def icdf(self, value: Tensor) -> Tensor:
        """The value up to which lies the given probability."""
        cut, outside = self._safe()
        exact = ((-cut + value * (2 * cut - 1)).log1p() - (-cut).log1p()) / (cut.log() - (-cut).log1p())
        return rushlight.where(outside, exact, value)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to the given one."""
        self._check(value)
        cut, outside = self._safe()
        exact = (cut**value * (1 - cut) ** (1 - value) + cut - 1) / (2 * cut - 1)
        inside = rushlight.where(outside, exact, value)
        return rushlight.where(value <= 0, 0.0, rushlight.where(value >= 1, 1.0, inside))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        return self.icdf(rushlight.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype))

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        probs = clamp_probs(self.probs)
        return self.mean * ((-probs).log1p() - probs.log()) - self._log_norm() - (-probs).log1p()
