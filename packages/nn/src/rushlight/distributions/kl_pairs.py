"""Kullback-Leibler divergences between different families.

`KL(p || q) = -H(p) - E[log q(x)]` with x drawn from p, so each q needs a few moments of p only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions.discrete import Bernoulli, Binomial, ContinuousBernoulli, Poisson
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.gamma import Beta, Exponential, Gamma
from rushlight.distributions.kl import register_kl
from rushlight.distributions.lowrank import LowRankMultivariateNormal
from rushlight.distributions.matrices import Wishart, mvdigamma
from rushlight.distributions.multivariate import MultivariateNormal
from rushlight.distributions.normal import Laplace, Normal, Uniform
from rushlight.distributions.transformed_families import Gumbel, Pareto
from rushlight.distributions.utils import log_diagonal_sum

# Moments


def _mean_log_uniform(low: Tensor, high: Tensor) -> Tensor:
    """`E[log x]` between two numbers that are not negative."""
    return (rushlight.xlogy(high, high) - rushlight.xlogy(low, low)) / (high - low) - 1


_MEAN_LOG: dict[type, Callable[[Any], Tensor]] = {
    Beta: lambda p: rushlight.digamma(p.concentration1) - rushlight.digamma(p.concentration1 + p.concentration0),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: _mean_log_uniform(p.low, p.high),
}

# `E[exp(-t * x)]`
_LAPLACE_TRANSFORM: dict[type, Callable[[Any, Tensor], Tensor]] = {
    Exponential: lambda p, t: p.rate / (p.rate + t),
    Gamma: lambda p, t: (p.rate / (p.rate + t)) ** p.concentration,
    Normal: lambda p, t: (-t * p.loc + (t * p.scale) ** 2 / 2).exp(),
    Uniform: lambda p, t: ((-t * p.low).exp() - (-t * p.high).exp()) / (t * (p.high - p.low)),
}


def _outside(p: Any, low: Any = -math.inf, high: Any = math.inf) -> Any:
    """Does p give values below or above these bounds? Of the families here the uniform one has bounds of its own."""
    if isinstance(p, Uniform):
        return (p.low < low) | (p.high > high)
    below, above = (0.0, 1.0) if isinstance(p, (Beta, ContinuousBernoulli)) else (0.0, math.inf)
    return rushlight.as_tensor(below < low) | rushlight.as_tensor(above > high)


def _enter(q: type, families: tuple[type, ...], cross_entropy: Callable[[Any, Any], Tensor], **bounds: Any) -> None:
    """Register `-E[log q(x)] - H(p)` for families p; infinite where p gives values outside q's bounds."""

    def divergence(p: Any, q: Any) -> Tensor:
        finite = cross_entropy(p, q) - p.entropy()
        if not bounds:
            return finite
        limits = {name: limit(q) if callable(limit) else limit for name, limit in bounds.items()}
        return rushlight.where(_outside(p, **limits), math.inf, finite)

    for family in families:
        register_kl(family, q)(divergence)


def _to_normal(p: Any, q: Normal) -> Tensor:
    spread = (p.variance + (p.mean - q.loc) ** 2) / (2 * q.scale**2)
    return spread + q.scale.log() + 0.5 * math.log(2 * math.pi)


def _to_exponential(p: Any, q: Exponential) -> Tensor:
    return q.rate * p.mean - q.rate.log()


def _to_gamma(p: Any, q: Gamma) -> Tensor:
    a = q.concentration
    return rushlight.lgamma(a) - a * q.rate.log() - (a - 1) * _MEAN_LOG[type(p)](p) + q.rate * p.mean


def _to_gumbel(p: Any, q: Gumbel) -> Tensor:
    inverse = q.scale.reciprocal()
    tail = (q.loc * inverse).exp() * _LAPLACE_TRANSFORM[type(p)](p, inverse)
    return q.scale.log() + (p.mean - q.loc) * inverse + tail


def _to_laplace(p: Normal, q: Laplace) -> Tensor:
    offset = p.loc - q.loc
    near = p.scale * math.sqrt(2 / math.pi) * (-0.5 * (offset / p.scale) ** 2).exp()
    return (2 * q.scale).log() + (near + offset * rushlight.erf(offset / (p.scale * math.sqrt(2)))) / q.scale


def _to_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    return -p.mean * q.logits - (-q.probs).log1p() - q._log_norm()


def _to_uniform(p: Any, q: Uniform) -> Tensor:
    return (q.high - q.low).log()


def _to_pareto(p: Uniform, q: Pareto) -> Tensor:
    return (q.alpha + 1) * _MEAN_LOG[Uniform](p) - q.alpha.log() - q.alpha * q.scale.log()


def _to_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    norm = rushlight.lgamma(a) + rushlight.lgamma(b) - rushlight.lgamma(a + b)
    return norm - (a - 1) * _mean_log_uniform(p.low, p.high) - (b - 1) * _mean_log_uniform(1 - p.high, 1 - p.low)


_enter(Normal, (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto), _to_normal)
_enter(Exponential, (Beta, ContinuousBernoulli, Pareto), _to_exponential)
_enter(Exponential, (Uniform,), _to_exponential, low=0.0)
_enter(Gamma, (Beta, Pareto), _to_gamma)
_enter(Gamma, (Uniform,), _to_gamma, low=0.0)
_enter(Gumbel, (Exponential, Gamma, Normal, Uniform), _to_gumbel)
_enter(Laplace, (Normal,), _to_laplace)
_enter(ContinuousBernoulli, (Beta,), _to_continuous_bernoulli)
_enter(ContinuousBernoulli, (Uniform,), _to_continuous_bernoulli, low=0.0, high=1.0)
_enter(Uniform, (Beta, ContinuousBernoulli), _to_uniform, low=lambda q: q.low, high=lambda q: q.high)
_enter(Pareto, (Uniform,), _to_pareto, low=lambda q: q.scale)
_enter(Beta, (Uniform,), _to_beta, low=0.0, high=1.0)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - p.probs * q.rate.log() - p.entropy()


# Pairs in which p always gives values that q never does.

_ON_THE_LINE = (Gumbel, Laplace, Normal)
_FROM_ZERO = (Exponential, Gamma)
_BETWEEN = (Beta, ContinuousBernoulli)
_IMPOSSIBLE = {
    Beta: (*_ON_THE_LINE, *_FROM_ZERO, Pareto),
    ContinuousBernoulli: (*_ON_THE_LINE, *_FROM_ZERO, Pareto),
    Uniform: (*_ON_THE_LINE, *_FROM_ZERO, Pareto),
    Exponential: _ON_THE_LINE,
    Gamma: _ON_THE_LINE,
    Pareto: (*_ON_THE_LINE, *_FROM_ZERO, *_BETWEEN),
    Bernoulli: (Poisson,),
    Binomial: (Poisson,),
}


def _infinite(p: Distribution, q: Distribution) -> Tensor:
    return p.mean.new_full(rushlight.broadcast_shapes(p.batch_shape, q.batch_shape), math.inf)


for _q, _families in _IMPOSSIBLE.items():
    for _p in _families:
        register_kl(_p, _q)(_infinite)


# Vectors and matrices


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _to_low_rank(p: Any, q: LowRankMultivariateNormal) -> Tensor:
    """`(log det q - log det p + trace(q^-1 @ p) + distance - n) / 2`"""
    low_rank = isinstance(p, LowRankMultivariateNormal)
    log_det = p.log_det() if low_rank else 2 * log_diagonal_sum(p.scale_tril)
    columns = p.cov_factor if low_rank else p.scale_tril
    batch = rushlight.broadcast_shapes(p.batch_shape, q.batch_shape)
    trace = q.distance(columns.expand((*batch, *columns.shape[-2:])).movedim(-1, 0)).sum(0)
    if low_rank:
        trace = trace + (p.cov_diag * q.precision_matrix.diagonal(dim1=-2, dim2=-1)).sum(-1)
    return 0.5 * (q.log_det() - log_det + trace + q.distance(q.loc - p.loc) - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _from_low_rank(p: LowRankMultivariateNormal, q: MultivariateNormal) -> Tensor:
    def squared(columns: Tensor) -> Tensor:
        return rushlight.linalg.solve_triangular(q.scale_tril, columns, upper=False).square().sum((-2, -1))

    trace = squared(p.cov_factor) + squared(rushlight.diag_embed(p.cov_diag.sqrt()))
    offset = squared((q.loc - p.loc).unsqueeze(-1))
    return 0.5 * (2 * log_diagonal_sum(q.scale_tril) - p.log_det() + trace + offset - p.event_shape[0])


@register_kl(Wishart, Wishart)
def _wishart(p: Wishart, q: Wishart) -> Tensor:
    n = p.event_shape[-1]
    log_ratio = 2 * (log_diagonal_sum(q.scale_tril) - log_diagonal_sum(p.scale_tril))
    trace = rushlight.cholesky_solve(p.covariance_matrix, q.scale_tril).diagonal(dim1=-2, dim2=-1).sum(-1)
    a, b = p.df / 2, q.df / 2
    shapes = rushlight.mvlgamma(b, n) - rushlight.mvlgamma(a, n) + (a - b) * mvdigamma(a, n)
    return b * log_ratio + a * (trace - n) + shapes
