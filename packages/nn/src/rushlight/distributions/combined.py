"""Distributions put together from others."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import sum_last


class Independent(Distribution):
    """A distribution whose last batch dimensions count as parts of one value.

    Example:
        >>> import rushlight
        >>> D = rushlight.distributions
        >>> D.Independent(D.Normal(rushlight.zeros(3), 1.0), 1).log_prob(rushlight.zeros(3)).shape
        rushlight.Size([])
    """

    arg_constraints: Any = {}

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        n = len(base_distribution.batch_shape) - reinterpreted_batch_ndims
        if n < 0:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {len(base_distribution.batch_shape)}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        shape = base_distribution.batch_shape + base_distribution.event_shape
        super().__init__(shape[:n], shape[n:], validate_args)

    @property
    def has_rsample(self) -> bool:
        """Does the base distribution have reparametrised samples?"""
        return self.base_dist.has_rsample

    @constraints.dependent_property
    def support(self) -> Any:
        """The set of values."""
        return constraints.independent(self.base_dist.support, self.reinterpreted_batch_ndims)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density: the sum over the parts."""
        return sum_last(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """The entropy in nats: the sum over the parts."""
        return sum_last(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """Values of one of k distributions, chosen by a Categorical: the last batch dimension of the components."""

    arg_constraints: Any = {}

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError("The Mixture distribution needs to be an instance of distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of distributions.Distribution")
        count, components = mixture_distribution._num_events, component_distribution.batch_shape
        if not components or components[-1] != count:
            raise ValueError(
                f"The last batch dimension of the components ({tuple(components)}) must be the number of choices, "
                f"{count}"
            )
        self.mixture_distribution, self.component_distribution = mixture_distribution, component_distribution
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(components[:-1], component_distribution.event_shape, validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        """The set of values."""
        return constraints.MixtureSameFamilyConstraint(self.component_distribution.support)

    def _weights(self) -> Tensor:
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *(1,) * self._event_ndims)

    @property
    def _dim(self) -> int:
        return -1 - self._event_ndims

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return (self._weights() * self.component_distribution.mean).sum(self._dim)

    @property
    def variance(self) -> Tensor:
        """The variance: within the components and between their means."""
        weights = self._weights()
        within = (weights * self.component_distribution.variance).sum(self._dim)
        offset = self.component_distribution.mean - self.mean.unsqueeze(self._dim)
        return within + (weights * offset**2).sum(self._dim)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to the given one."""
        return (self.component_distribution.cdf(self._pad(value)) * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._check(value)
        inner = self.component_distribution.log_prob(self._pad(value))
        return (inner + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def _pad(self, value: Tensor) -> Tensor:
        return value.unsqueeze(self._dim)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values."""
        with rushlight.no_grad():
            chosen = self.mixture_distribution.sample(sample_shape)
            values = self.component_distribution.sample(sample_shape)
            index = chosen.reshape(*chosen.shape, *(1,) * (self._event_ndims + 1))
            index = index.expand((*chosen.shape, 1, *self._event_shape))
            return values.gather(self._dim, index).squeeze(self._dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
