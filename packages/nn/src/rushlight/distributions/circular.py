"""The normal distribution of angles."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Centered
from rushlight.distributions.utils import broadcast_all


class VonMises(Centered):
    """Angles in radians with density `exp(k * cos(x - loc)) / (2 pi I0(k))`, for the `concentration` k and the modified
    Bessel function I0.

    Samples lie in [-pi, pi) and are drawn by rejection (Best and Fisher 1979).

    Example:
        >>> import rushlight
        >>> rushlight.distributions.VonMises(0.0, 1.0).log_prob(rushlight.tensor(0.0))
        tensor(-1.0738)
    """

    arg_constraints: Any = {"loc": constraints.real, "concentration": constraints.positive}
    support: Any = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def variance(self) -> Tensor:
        """The circular variance, `1 - I1(k) / I0(k)`."""
        return 1 - rushlight.special.i1e(self.concentration) / rushlight.special.i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._check(value)
        k = self.concentration
        return k * ((value - self.loc).cos() - 1) - math.log(2 * math.pi) - rushlight.special.i0e(k).log()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw angles."""
        shape = self._extended_shape(sample_shape)
        with rushlight.no_grad():
            k = self.concentration.double().expand(shape)
            # The proposal is a wrapped Cauchy distribution of this shape; the sum replaces what cancels for small k.
            tau = 1 + (1 + 4 * k**2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = rushlight.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))
            angle, accepted = rushlight.zeros_like(r), rushlight.zeros_like(r, dtype=rushlight.bool)
            while not bool(accepted.all()):
                u = rushlight.rand((3, *shape), dtype=k.dtype, device=k.device)
                z = (math.pi * u[0]).cos()
                cosine = (1 + r * z) / (r + z)
                c = k * (r - cosine)
                taken = (c * (2 - c) > u[1]) | ((c / u[1]).log() + 1 - c >= 0)
                angle = rushlight.where(taken & ~accepted, (u[2] - 0.5).sign() * cosine.clamp(-1, 1).acos(), angle)
                accepted = accepted | taken
            return (angle + math.pi + self.loc).remainder(2 * math.pi).sub(math.pi).to(self.loc.dtype)
