"""Choices made continuous, so that they have gradients."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.categorical import OverChoices
from rushlight.distributions.discrete import _Binary
from rushlight.distributions.transformed import TransformedDistribution
from rushlight.distributions.transforms_scalar import (
    ExpTransform,
    SigmoidTransform,
)
from rushlight.distributions.utils import broadcast_all


class LogitRelaxedBernoulli(_Binary):
    """The log-odds of RelaxedBernoulli."""

    support: Any = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
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


class _Relaxed(TransformedDistribution):
    """What both relaxed distributions show of the one that they transform."""

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def probs(self) -> Tensor:
        """The probability of success, or of each choice."""
        return self.base_dist.probs

    @property
    def logits(self) -> Tensor:
        """The log-odds of success, or the logarithm of the probability of each choice."""
        return self.base_dist.logits


class RelaxedBernoulli(_Relaxed):
    """Numbers in (0, 1) that gather at 0 and 1 as the temperature falls (Maddison et al. 2016)."""

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Any = constraints.unit_interval

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args)


class ExpRelaxedCategorical(OverChoices):
    """The logarithm of RelaxedOneHotCategorical."""

    support: Any = constraints.real_vector
    has_rsample = True

    def _parameter_dims(self, name: str) -> int | None:
        return None if name == "temperature" else super()._parameter_dims(name)

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

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


class RelaxedOneHotCategorical(_Relaxed):
    """Probability vectors that gather at the corners as the temperature falls (Jang et al. 2016)."""

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support: Any = constraints.simplex

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits), ExpTransform(), validate_args)
