"""Probability distributions: `rushlight.distributions`."""

from __future__ import annotations

from typing import Any

from rushlight.distributions import constraints, transforms
from rushlight.distributions.categorical import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
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
from rushlight.distributions.multivariate import MultivariateNormal
from rushlight.distributions.normal import Cauchy, Laplace, Normal, Uniform
from rushlight.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from rushlight.distributions.transform import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    identity_transform,
)
from rushlight.distributions.transformed import (
    HalfCauchy,
    HalfNormal,
    LogisticNormal,
    LogNormal,
    TransformedDistribution,
)
from rushlight.distributions.transformed_families import Gumbel, InverseGamma, Kumaraswamy, Pareto, Weibull
from rushlight.distributions.transforms_scalar import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from rushlight.distributions.transforms_vector import (
    CatTransform,
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
)

_MISSING = frozenset({"GeneralizedPareto", "LKJCholesky", "LowRankMultivariateNormal", "VonMises", "Wishart"})


def __getattr__(name: str) -> Any:
    if name in _MISSING:
        raise AttributeError(f"distributions.{name} is not part of rushlight")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "Weibull",
    "biject_to",
    "constraints",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "transforms",
]
