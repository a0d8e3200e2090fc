"""The normal distribution of vectors."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Centered
from rushlight.distributions.utils import lazy_property, log_diagonal_sum


def given_matrix(
    covariance_matrix: Tensor | None, precision_matrix: Tensor | None, scale_tril: Tensor | None
) -> tuple[str, Tensor]:
    """The name and value of the one matrix that is given.

    Raises ValueError for none, several, or less than two dimensions.
    """
    options = {
        "covariance_matrix": covariance_matrix,
        "scale_tril": scale_tril,
        "precision_matrix": precision_matrix,
    }
    given = {name: value for name, value in options.items() if value is not None}
    if len(given) != 1:
        raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
    ((name, matrix),) = given.items()
    if matrix.dim() < 2:
        raise ValueError(f"{name} matrix must be at least two-dimensional, with optional leading batch dimensions")
    return name, matrix


def lower_factor(name: str, matrix: Tensor) -> Tensor:
    """The lower triangular factor of the covariance, from the matrix of that name."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return rushlight.linalg.cholesky(matrix)
    # The inverse of an upper factor of the precision is a lower factor of the covariance.
    upper = rushlight.linalg.cholesky(matrix.flip((-2, -1))).flip((-2, -1)).mT
    identity = rushlight.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return rushlight.linalg.solve_triangular(upper, identity, upper=False)


class MultivariateNormal(Centered):
    """Vectors `loc + L @ z` of standard normal numbers z, given by covariance `L @ L.T`, precision (its inverse) or
    `L`.

    Example:
        >>> import rushlight
        >>> normal = rushlight.distributions.MultivariateNormal(rushlight.zeros(2), rushlight.eye(2))
        >>> normal.log_prob(rushlight.zeros(2))
        tensor(-1.8379)
    """

    arg_constraints: Any = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support: Any = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = given_matrix(covariance_matrix, precision_matrix, scale_tril)
        batch = rushlight.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand((*batch, loc.shape[-1]))
        self.__dict__[name] = matrix.expand((*batch, *matrix.shape[-2:]))
        super().__init__(batch, self.loc.shape[-1:], validate_args)
        self._factor = lower_factor(name, matrix)

    def _parameter_dims(self, name: str) -> int | None:
        return {"loc": 1}.get(name, 2 if name in self.arg_constraints else None)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangular factor of the covariance."""
        return self._factor.expand(self._batch_shape + self._event_shape * 2)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return (self._factor @ self._factor.mT).expand(self._batch_shape + self._event_shape * 2)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return rushlight.cholesky_inverse(self._factor).expand(self._batch_shape + self._event_shape * 2)

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        return (self._factor**2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        z = rushlight.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._factor @ z.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._check(value)
        offset = (value - self.loc).unsqueeze(-1)
        z = rushlight.linalg.solve_triangular(self._factor, offset, upper=False).squeeze(-1)
        spread = self._event_shape[0] * math.log(2 * math.pi) + (z * z).sum(-1)
        return -0.5 * spread - log_diagonal_sum(self._factor)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        entropy = 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + log_diagonal_sum(self._factor)
        return entropy.expand(self._batch_shape)
