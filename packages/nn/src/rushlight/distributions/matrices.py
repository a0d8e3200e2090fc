"""Distributions of covariances and of the factors of correlations."""

from __future__ import annotations

import math
import warnings
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution, ExponentialFamily
from rushlight.distributions.gamma import Beta, Chi2
from rushlight.distributions.multivariate import given_matrix, lower_factor
from rushlight.distributions.utils import lazy_property, log_diagonal_sum


def mvdigamma(x: Tensor, n: int) -> Tensor:
    """The derivative of `mvlgamma`."""
    return rushlight.digamma(x.unsqueeze(-1) - rushlight.arange(n, dtype=x.dtype, device=x.device) / 2).sum(-1)


class Wishart(ExponentialFamily):
    """Covariances `(n, n)`: the sum of `z @ z.T` over `df` normal vectors z of mean 0, whose own covariance `L @ L.T`
    is given as such, by its inverse (precision), or by L.

    Samples are drawn by Bartlett's decomposition. Raises ValueError unless `df > n - 1`.

    Example:
        >>> import rushlight
        >>> rushlight.distributions.Wishart(3.0, rushlight.eye(2)).mean
        tensor([[3., 0.],
                [0., 3.]])
    """

    support: Any = constraints.positive_definite
    has_rsample = True

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = given_matrix(covariance_matrix, precision_matrix, scale_tril)
        n = matrix.shape[-1]
        df = rushlight.as_tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch = rushlight.broadcast_shapes(matrix.shape[:-2], df.shape)
        self.df = df.expand(batch)
        self.__dict__[name] = matrix.expand((*batch, n, n))
        if bool((df <= n - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        if bool((df < n).any()):
            warnings.warn("Wishart: for df < ndim samples are likely to be singular", stacklevel=2)
        super().__init__(batch, (n, n), validate_args)
        self._factor = lower_factor(name, matrix)
        degrees = self.df.unsqueeze(-1) - rushlight.arange(n, dtype=df.dtype, device=df.device)
        self._chi2 = Chi2(degrees, validate_args=False)

    @property
    def arg_constraints(self) -> Any:
        """The set of each parameter."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def _parameter_dims(self, name: str) -> int | None:
        return {"df": 0}.get(name, 2 if name in self.arg_constraints else None)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangular factor of the covariance of the vectors."""
        return self._factor.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance of the vectors."""
        return (self._factor @ self._factor.mT).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance of the vectors."""
        return rushlight.cholesky_inverse(self._factor).expand(self._batch_shape + self._event_shape)

    def _of_matrices(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self._of_matrices(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """The likeliest value, NaN for `df <= n + 1`."""
        factor = self.df - self._event_shape[-1] - 1
        factor = rushlight.where(factor <= 0, math.nan, factor)
        return self._of_matrices(factor) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self._of_matrices(self.df) * (v**2 + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        shape = self._extended_shape(sample_shape)
        below = rushlight.randn(shape, dtype=self.df.dtype, device=self.df.device).tril(-1)
        factor = self._factor @ (below + rushlight.diag_embed(self._chi2.rsample(sample_shape).sqrt()))
        return factor @ factor.mT

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        self._check(value)
        n = self._event_shape[-1]
        spread = rushlight.cholesky_solve(value, self._factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        norm = self.df * (n * math.log(2) / 2 + log_diagonal_sum(self._factor)) + rushlight.mvlgamma(self.df / 2, n)
        return (self.df - n - 1) / 2 * rushlight.linalg.slogdet(value).logabsdet - spread / 2 - norm

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        n = self._event_shape[-1]
        scale = (n + 1) * (n * math.log(2) / 2 + log_diagonal_sum(self._factor))
        half = self.df / 2
        shape = rushlight.mvlgamma(half, n) - (half - (n + 1) / 2) * mvdigamma(half, n)
        return scale + shape + half * n


class LKJCholesky(Distribution):
    """Lower factors L `(dim, dim)` of correlation matrices C = `L @ L.T` with density `det(C) ** (concentration - 1)`.

    With concentration 1 all correlation matrices are alike; above, they gather at the identity. Samples are drawn row
    by row by the onion method (Lewandowski, Kurowicka and Joe 2009).

    Example:
        >>> import rushlight
        >>> L = rushlight.distributions.LKJCholesky(3).sample()
        >>> rushlight.allclose((L @ L.T).diagonal(), rushlight.ones(3))
        True
    """

    arg_constraints: Any = {"concentration": constraints.positive}
    support: Any = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if not isinstance(dim, int) or dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        self.concentration = rushlight.as_tensor(concentration)
        if not self.concentration.is_floating_point():
            self.concentration = self.concentration.to(rushlight.get_default_dtype())
        super().__init__(self.concentration.shape, (dim, dim), validate_args)
        # Row i lies in a ball of i dimensions; its squared length has this distribution.
        c = self.concentration.unsqueeze(-1) + (dim - 2) / 2
        before = rushlight.arange(dim, dtype=c.dtype, device=c.device).sub(1).clamp(min=0)
        self._squared_lengths = Beta((before + 1) / 2, c - before / 2, validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw factors."""
        with rushlight.no_grad():
            shape, c = self._extended_shape(sample_shape), self.concentration
            length = self._squared_lengths.sample(sample_shape).sqrt().unsqueeze(-1)
            direction = rushlight.randn(shape, dtype=c.dtype, device=c.device).tril(-1)
            direction = direction / direction.norm(dim=-1, keepdim=True)
            rows = length * rushlight.cat((rushlight.zeros_like(direction[..., :1, :]), direction[..., 1:, :]), -2)
            rest = (1 - rows.square().sum(-1)).clamp(min=rushlight.finfo(c.dtype).tiny)
            return rows + rushlight.diag_embed(rest.sqrt())

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density of the factor."""
        self._check(value)
        c, n = self.concentration, self.dim - 1
        row = rushlight.arange(2, self.dim + 1, dtype=c.dtype, device=c.device)
        order = 2 * (c - 1).unsqueeze(-1) + self.dim - row
        density = (order * value.diagonal(dim1=-2, dim2=-1)[..., 1:].log()).sum(-1)
        alpha = c + n / 2
        norm = n / 2 * math.log(math.pi) + rushlight.mvlgamma(alpha - 0.5, n) - n * rushlight.lgamma(alpha)
        return density - norm
