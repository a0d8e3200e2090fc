"""Kullback-Leibler divergence of pairs of distributions, by formulas registered for pairs of classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions.categorical import Categorical, OneHotCategorical
from rushlight.distributions.combined import Independent
from rushlight.distributions.discrete import Bernoulli, Binomial, ContinuousBernoulli, Geometric, Poisson
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.gamma import Beta, Dirichlet, Exponential, Gamma
from rushlight.distributions.multivariate import MultivariateNormal
from rushlight.distributions.normal import Cauchy, Laplace, Normal, Uniform
from rushlight.distributions.transformed import HalfNormal, LogNormal, TransformedDistribution
from rushlight.distributions.transformed_families import EULER, Gumbel, Pareto
from rushlight.distributions.utils import sum_last

_FORMULAS: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable], Callable]:
    """Decorates the formula `fn(p, q)` for a pair of classes; that of the closest classes is used.

    Raises TypeError for something else than distributions.
    """
    for given in (type_p, type_q):
        if not isinstance(given, type) or not issubclass(given, Distribution):
            raise TypeError(f"Expected a Distribution subclass but got {given}")

    def add(formula: Callable) -> Callable:
        _FORMULAS[type_p, type_q] = formula
        return formula

    return add


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """`sum(p * log(p / q))` in nats. Raises NotImplementedError when no formula is known for the pair.

    Example:
        >>> import rushlight
        >>> D = rushlight.distributions
        >>> D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(1.0, 1.0))
        tensor(0.5000)
    """
    formula = _FORMULAS.get((type(p), type(q))) or _closest(p, q)
    return formula(p, q)


def _closest(p: Distribution, q: Distribution) -> Callable[[Any, Any], Tensor]:
    """The formula for the classes that are the fewest steps above those of the pair."""
    fitting = [(left, right) for left, right in _FORMULAS if isinstance(p, left) and isinstance(q, right)]
    if not fitting:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    above_p, above_q = type(p).__mro__, type(q).__mro__
    return _FORMULAS[min(fitting, key=lambda pair: above_p.index(pair[0]) + above_q.index(pair[1]))]


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
def _log_normal(p: LogNormal, q: LogNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("No KL(p || q) is implemented for distributions with different transforms")
    extra = len(p.event_shape) - len(p.base_dist.event_shape)
    return sum_last(kl_divergence(p.base_dist, q.base_dist), extra)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, offset, start = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    moment = (offset - start + rushlight.lgamma(1 + ratio)).exp()
    return -ratio.log() - offset + start + ratio * EULER + moment - (1 + EULER)


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio, shapes = p.scale / q.scale, q.alpha / p.alpha
    result = q.alpha * ratio.log() - shapes.log() + shapes - 1
    return rushlight.where(p.scale < q.scale, math.inf, result)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    slope = p.mean * (p.logits - q.logits)
    return slope + p._log_norm() - q._log_norm() + (-p.probs).log1p() - (-q.probs).log1p()


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, offset = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + offset / q.scale + ratio * (-offset / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    together = (p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2
    return together.log() - (4 * p.scale * q.scale).log()


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return rushlight.where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Tensor:
    width = p.high - p.low
    spread = (width**2 / 12 + ((p.high + p.low - 2 * q.loc) / 2) ** 2) / (2 * q.scale**2)
    return (math.sqrt(2 * math.pi) * q.scale / width).log() + spread


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    norm = b * (p.rate / q.rate).log() + rushlight.lgamma(b) - rushlight.lgamma(a)
    return norm + (a - b) * rushlight.digamma(a) + (q.rate - p.rate) * (a / p.rate)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    return _gamma(Gamma(rushlight.ones_like(p.rate), p.rate), q)


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Gamma, q: Exponential) -> Tensor:
    return _gamma(p, Gamma(rushlight.ones_like(q.rate), q.rate))


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norm = rushlight.lgamma(total) - rushlight.lgamma(b.sum(-1)) - (rushlight.lgamma(a) - rushlight.lgamma(b)).sum(-1)
    return norm + ((a - b) * (rushlight.digamma(a) - rushlight.digamma(total).unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    a, b = p.probs, q.probs
    result = rushlight.xlogy(a, a / b) + rushlight.xlogy(1 - a, (1 - a) / (1 - b))
    impossible = ((b == 0) & (a > 0)) | ((b == 1) & (a < 1))
    return rushlight.where(impossible, math.inf, result.nan_to_num(0.0))


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    result = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return rushlight.where(p.total_count > q.total_count, math.inf, result)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = rushlight.where((q.probs == 0).expand_as(terms), math.inf, terms)
    return rushlight.where((p.probs == 0).expand_as(terms), 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    a, b = p.scale_tril, q.scale_tril
    log_det = (b.diagonal(dim1=-2, dim2=-1).log() - a.diagonal(dim1=-2, dim2=-1).log()).sum(-1)
    spread = rushlight.linalg.solve_triangular(b, a, upper=False).square().sum((-2, -1))
    offset = rushlight.linalg.solve_triangular(b, (q.loc - p.loc).unsqueeze(-1), upper=False).square().sum((-2, -1))
    return log_det + 0.5 * (spread + offset - p.event_shape[0])


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL between Independents with different reinterpreted_batch_ndims is not implemented")
    return sum_last(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
