"""Probability distributions: `rushlight.distributions`."""

from __future__ import annotations

from rushlight.distributions import constraints, transforms
from rushlight.distributions import kl_pairs as kl_pairs  # enters its formulas
from rushlight.distributions.categorical import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from rushlight.distributions.circular import VonMises
from rushlight.distributions.combined import Independent, MixtureSameFamily
from rushlight.distributions.constraint_registry import biject_to, transform_to
from rushlight.distributions.discrete import (
    Bernoulli,
    Binomial,
    ContinuousBernoulli,
    Geometric,
    NegativeBinomial,
    Poisson,
)
from rushlight.distributions.distribution import Distribution, ExponentialFamily
from rushlight.distributions.gamma import Beta, Chi2, Dirichlet, Exponential, FisherSnedecor, Gamma, StudentT
from rushlight.distributions.kl import kl_divergence, register_kl
from rushlight.distributions.lowrank import LowRankMultivariateNormal
from rushlight.distributions.matrices import LKJCholesky, Wishart
from rushlight.distributions.multivariate import MultivariateNormal
from rushlight.distributions.normal import Cauchy, Laplace, Normal, Uniform
from rushlight.distributions.pareto import GeneralizedPareto
from rushlight.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from rushlight.distributions.transformed import (
    HalfCauchy,
    HalfNormal,
    LogisticNormal,
    LogNormal,
    TransformedDistribution,
)
from rushlight.distributions.transformed_families import Gumbel, InverseGamma, Kumaraswamy, Pareto, Weibull
from rushlight.distributions.transforms import *  # noqa: F403

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ContinuousBernoulli",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "StudentT",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "constraints",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "transforms",
    *transforms.__all__,
]
