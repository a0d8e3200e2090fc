"""Distributions of choices."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.discrete import Binomial, one_of
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import (
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from rushlight.nn import functional as F


class Categorical(Distribution):
    """One of k choices, with probabilities `probs (*, k)` (normalised) or `logits (*, k)`.

    Example:
        >>> import rushlight
        >>> rushlight.distributions.Categorical(rushlight.tensor([1.0, 3.0])).probs
        tensor([0.2500, 0.7500])
    """

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        one_of("Categorical", probs, logits)
        given = probs if probs is not None else logits
        if given.dim() < 1:
            raise ValueError(
                f"`{'probs' if probs is not None else 'logits'}` parameter must be at least one-dimensional."
            )
        if probs is not None:
            self.__dict__["probs"] = probs / probs.sum(-1, keepdim=True)
        else:
            self.__dict__["logits"] = logits - logits.logsumexp(-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True)
    def support(self) -> Any:
        """The set of values."""
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of each choice."""
        return logits_to_probs(self.logits)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithm of each probability."""
        return probs_to_logits(self.probs)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return (self.__dict__.get("probs") if "probs" in self.__dict__ else self.logits).shape

    @property
    def mean(self) -> Tensor:
        """NaN: choices have no order."""
        return rushlight.full(self._extended_shape(), float("nan"), dtype=self.probs.dtype)

    @property
    def mode(self) -> Tensor:
        """The likeliest choice."""
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        """NaN: choices have no order."""
        return self.mean

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw choices."""
        with rushlight.no_grad():
            count = rushlight.Size(sample_shape).numel()
            rows = self.probs.reshape(-1, self._num_events)
            drawn = rushlight.multinomial(rows, count, True).t()
            return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability."""
        self._check(value)
        value = value.long().unsqueeze(-1)
        value, logits = rushlight.broadcast_tensors(value, self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        logits = self.logits.clamp(min=rushlight.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All choices, in a new first dimension."""
        values = rushlight.arange(self._num_events).view(-1, *(1,) * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


class OverChoices(Distribution):
    """Vectors `(k)` with an element per choice; the base of distributions that are given by a Categorical."""

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
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

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape


class OneHotCategorical(OverChoices):
    """Categorical with choices as one-hot vectors."""

    support: Any = constraints.one_hot
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        """The mean: the probabilities."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likeliest choice."""
        return F.one_hot(self._categorical.mode, self._event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw choices."""
        return F.one_hot(self._categorical.sample(sample_shape), self._event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability."""
        self._check(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All choices, in a new first dimension."""
        n = self._event_shape[0]
        values = rushlight.eye(n, dtype=self.probs.dtype).view(n, *(1,) * len(self._batch_shape), n)
        return values.expand(n, *self._batch_shape, n) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples have the gradient of the probabilities (Bengio et al. 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw choices with the gradient of the probabilities."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(OverChoices):
    """Counts of each of k choices in `total_count` draws."""

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """The set of values."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw counts."""
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        return F.one_hot(drawn, self._event_shape[0]).sum(0).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability."""
        self._check(value)
        logits, value = rushlight.broadcast_tensors(self.logits, value)
        impossible = (value == 0) & (logits == -float("inf"))
        ways = rushlight.lgamma(value.sum(-1) + 1) - rushlight.lgamma(value + 1).sum(-1)
        return ways + (rushlight.where(impossible, 0.0, logits) * value).sum(-1)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        n = rushlight.tensor(float(self.total_count))
        counts = Binomial(self.total_count, self.probs, validate_args=False)
        values = counts.enumerate_support(expand=False)[1:]
        repeated = (counts.log_prob(values).exp() * rushlight.lgamma(values + 1)).sum((0, -1))
        return n * self._categorical.entropy() - rushlight.lgamma(n + 1) + repeated
