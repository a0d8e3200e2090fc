"""The normal distribution of vectors whose covariance has few directions beside a diagonal."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Centered
from rushlight.distributions.utils import lazy_property, log_diagonal_sum


class LowRankMultivariateNormal(Centered):
    """Normal vectors `(n)` with covariance `W @ W.T + diag(d)`, for `cov_factor` W `(n, m)` and `cov_diag` d `(n)`.

    By Woodbury's identity densities need a factor of an `m` by `m` matrix only, the capacitance
    `1 + W.T @ diag(1/d) @ W`.

    Example:
        >>> import rushlight
        >>> W, d = rushlight.tensor([[1.0], [0.0]]), rushlight.ones(2)
        >>> rushlight.distributions.LowRankMultivariateNormal(rushlight.zeros(2), W, d).covariance_matrix
        tensor([[2., 0.],
                [0., 1.]])
    """

    arg_constraints: Any = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support: Any = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        n = loc.shape[-1]
        if cov_factor.dim() < 2 or cov_factor.shape[-2] != n:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {n} x m, got {cov_factor.size()}")
        if cov_diag.dim() < 1 or cov_diag.shape[-1] != n:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {n}, got {cov_diag.size()}")
        batch = rushlight.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc, self.cov_diag = loc.expand((*batch, n)), cov_diag.expand((*batch, n))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self._factor, self._diag = cov_factor, cov_diag
        super().__init__(batch, (n,), validate_args)

    def _parameter_dims(self, name: str) -> int | None:
        return {"loc": 1, "cov_factor": 2, "cov_diag": 1}.get(name)

    @lazy_property
    def _capacitance_tril(self) -> Tensor:
        scaled = self._factor.mT / self._diag.unsqueeze(-2)
        identity = rushlight.eye(scaled.shape[-2], dtype=scaled.dtype, device=scaled.device)
        return rushlight.linalg.cholesky(scaled @ self._factor + identity)

    def _full(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape * 2)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangular factor of the covariance."""
        root = self._diag.sqrt().unsqueeze(-1)
        scaled = self._factor / root
        identity = rushlight.eye(scaled.shape[-2], dtype=scaled.dtype, device=scaled.device)
        return self._full(root * rushlight.linalg.cholesky(scaled @ scaled.mT + identity))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self._full(self._factor @ self._factor.mT + rushlight.diag_embed(self._diag))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        a = self._whitened(self._factor / self._diag.unsqueeze(-1))
        return self._full(rushlight.diag_embed(self._diag.reciprocal()) - a.mT @ a)

    def _whitened(self, scaled: Tensor) -> Tensor:
        """`L^-1 @ scaled.T` for the factor L of the capacitance."""
        return rushlight.linalg.solve_triangular(self._capacitance_tril, scaled.mT, upper=False)

    def distance(self, offset: Tensor) -> Tensor:
        """The squared length of an offset `(*, n)` in units of the covariance."""
        scaled = offset / self._diag
        inner = self._whitened((self._factor.mT @ scaled.unsqueeze(-1)).mT).squeeze(-1)
        return (offset * scaled).sum(-1) - inner.square().sum(-1)

    def log_det(self) -> Tensor:
        """The logarithm of the covariance's determinant."""
        return 2 * log_diagonal_sum(self._capacitance_tril) + self._diag.log().sum(-1)

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        return (self._factor.square().sum(-1) + self._diag).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        shape, like = self._extended_shape(sample_shape), {"dtype": self.loc.dtype, "device": self.loc.device}
        common = rushlight.randn((*shape[:-1], self.cov_factor.shape[-1], 1), **like)
        own = rushlight.randn(shape, **like)
        return self.loc + (self._factor @ common).squeeze(-1) + self._diag.sqrt() * own

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._check(value)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self.log_det() + self.distance(value - self.loc))

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        entropy = 0.5 * (self._event_shape[0] * (1 + math.log(2 * math.pi)) + self.log_det())
        return entropy.expand(self._batch_shape)
