"""The distribution of what lies above a high threshold."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all


class GeneralizedPareto(Distribution):
    """Survival function `(1 + c * z) ** (-1 / c)` with `z = (x - loc) / scale` for the `concentration` c, `exp(-z)` for
    c = 0.

    Values lie above `loc` and, for negative c, below `loc - scale / c`.

    Example:
        >>> import rushlight
        >>> rushlight.distributions.GeneralizedPareto(0.0, 1.0, 0.5).cdf(rushlight.tensor(2.0))
        tensor(0.7500)
    """

    arg_constraints: Any = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        """The set of values."""
        above = rushlight.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, above)

    def _shape(self) -> tuple[Tensor, Tensor]:
        """Where the tail is exponential, and the concentration with 1 in these places."""
        flat = rushlight.isclose(self.concentration, rushlight.zeros_like(self.concentration))
        return flat, rushlight.where(flat, 1.0, self.concentration)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of larger values."""
        self._check(value)
        z = (value - self.loc) / self.scale
        flat, c = self._shape()
        return rushlight.where(flat, -z, -(c * z).log1p() / c)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        flat, c = self._shape()
        return self.log_survival_function(value) * rushlight.where(flat, 1.0, 1 + c) - self.scale.log()

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of values up to the given one."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to the given one."""
        return -self.log_survival_function(value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """The value up to which lies the given probability."""
        flat, c = self._shape()
        survival = (-value).log1p()
        return self.loc + self.scale * rushlight.where(flat, -survival, (-c * survival).expm1() / c)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        return self.icdf(
            rushlight.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        )

    @property
    def mean(self) -> Tensor:
        """The mean, infinite for `concentration >= 1`."""
        c = self.concentration
        return rushlight.where(c < 1, self.loc + self.scale / (1 - c), math.inf)

    @property
    def mode(self) -> Tensor:
        """The likeliest value: the location."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance, infinite for `concentration >= 1 / 2`."""
        c = self.concentration
        return rushlight.where(c < 0.5, self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c)), math.inf)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return self.scale.log() + self.concentration + 1
