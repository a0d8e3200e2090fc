"""Distributions: densities that integrate to 1, moments of samples, gradients, divergences, transforms."""

from __future__ import annotations

import math

import pytest

import rushlight
from rushlight import distributions as D
from rushlight import tensor

CONTINUOUS = {
    "Normal": (D.Normal(0.5, 2.0), -20, 20),
    "Laplace": (D.Laplace(0.5, 1.0), -20, 20),
    "Cauchy": (D.Cauchy(0.0, 0.1), -200, 200),
    "Uniform": (D.Uniform(-1.0, 2.0), -1, 1.9999),
    "Gamma": (D.Gamma(2.5, 1.5), 0, 20),
    "Chi2": (D.Chi2(tensor(4.0)), 0, 60),
    "Exponential": (D.Exponential(2.0), 0, 15),
    "Beta": (D.Beta(2.0, 3.0), 0, 1),
    "FisherSnedecor": (D.FisherSnedecor(8.0, 12.0), 0.001, 60),
    "StudentT": (D.StudentT(5.0, 0.5, 2.0), -80, 80),
    "ContinuousBernoulli": (D.ContinuousBernoulli(0.3), 0, 1),
    "LogNormal": (D.LogNormal(0.0, 0.5), 0.001, 20),
    "HalfNormal": (D.HalfNormal(2.0), 0, 20),
    "HalfCauchy": (D.HalfCauchy(0.1), 0, 200),
    "Gumbel": (D.Gumbel(0.5, 1.0), -8, 25),
    "Pareto": (D.Pareto(1.0, 5.0), 1, 60),
    "Weibull": (D.Weibull(1.5, 2.0), 0.001, 10),
    "Kumaraswamy": (D.Kumaraswamy(2.0, 3.0), 0.0001, 0.9999),
    "InverseGamma": (D.InverseGamma(5.0, 2.0), 0.01, 60),
    "RelaxedBernoulli": (D.RelaxedBernoulli(tensor(1.5), tensor(0.4)), 0.0001, 0.9999),
    "Mixture": (D.MixtureSameFamily(D.Categorical(tensor([0.3, 0.7])), D.Normal(tensor([-2.0, 2.0]), 1.0)), -12, 12),
}
DISCRETE = {
    "Bernoulli": (D.Bernoulli(0.3), 1),
    "Geometric": (D.Geometric(0.4), 80),
    "Binomial": (D.Binomial(6, 0.3), 6),
    "NegativeBinomial": (D.NegativeBinomial(3.0, 0.4), 100),
    "Poisson": (D.Poisson(4.0), 60),
    "Categorical": (D.Categorical(tensor([0.2, 0.5, 0.3])), 2),
}


def moments_agree(distribution, samples):
    try:
        mean, variance = distribution.mean, distribution.variance
    except NotImplementedError:
        return
    if bool(rushlight.isfinite(mean).all()) and bool(rushlight.isfinite(variance).all()):
        error = (samples.mean(0) - mean).abs() / (variance / samples.shape[0]).sqrt()
        assert error.max().item() < 6


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities_integrate_to_one_and_samples_follow_them(name):
    distribution, low, high = CONTINUOUS[name]
    x = rushlight.linspace(low, high, 40_001, dtype=rushlight.float64)
    density = distribution.log_prob(x).exp().nan_to_num(0, 0, 0)
    assert rushlight.trapezoid(density, x).item() == pytest.approx(1, abs=0.01)
    rushlight.manual_seed(1)
    samples = distribution.sample((4000,))
    moments_agree(distribution, samples)
    below = (samples < samples.median()).double().mean().item()
    inside = rushlight.where(x < samples.median().double(), density, 0.0)
    assert rushlight.trapezoid(inside, x).item() == pytest.approx(below, abs=0.04)


@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities_sum_to_one_and_samples_follow_them(name):
    distribution, most = DISCRETE[name]
    values = rushlight.arange(most + 1.0)
    probs = distribution.log_prob(values).exp()
    assert probs.sum().item() == pytest.approx(1, abs=1e-4)
    rushlight.manual_seed(1)
    samples = distribution.sample((4000,)).float()
    moments_agree(distribution, samples)
    found = rushlight.stack([(samples == v).float().mean() for v in range(min(most + 1, 6))])
    assert (found - probs[:6]).abs().max().item() < 0.04


@pytest.mark.parametrize(
    "name", ["Normal", "Laplace", "Cauchy", "Uniform", "Exponential", "Gumbel", "Weibull", "Pareto"]
)
def test_icdf_undoes_cdf(name):
    distribution = CONTINUOUS[name][0]
    p = tensor([0.1, 0.5, 0.8])
    assert rushlight.allclose(distribution.cdf(distribution.icdf(p)), p, atol=1e-4)


@pytest.mark.parametrize("name", ["Normal", "Gamma", "Beta", "Exponential", "StudentT", "Gumbel", "Uniform", "Laplace"])
def test_entropy_is_the_mean_of_minus_log_prob(name):
    distribution, low, high = CONTINUOUS[name]
    x = rushlight.linspace(low, high, 40_001, dtype=rushlight.float64)
    log_density = distribution.log_prob(x)
    terms = (log_density.exp() * -log_density).nan_to_num(0, 0, 0)
    assert distribution.entropy().item() == pytest.approx(rushlight.trapezoid(terms, x).item(), abs=0.01)


@pytest.mark.parametrize("alpha", [0.4, 1.0, 3.0, 40.0])
def test_gamma_samples_have_the_gradient_of_their_mean(alpha):
    a = tensor(alpha, requires_grad=True)
    rushlight.manual_seed(0)
    samples = D.Gamma(a, 2.0).rsample((4000,))
    (slope,) = rushlight.autograd.grad(samples.mean(), a)
    assert slope.item() == pytest.approx(0.5, rel=0.1)  # the mean is a / 2


@pytest.mark.parametrize(
    "p, q",
    [
        (D.Normal(0.0, 1.0), D.Normal(1.0, 2.0)),
        (D.Gamma(2.0, 1.0), D.Gamma(3.0, 2.0)),
        (D.Beta(2.0, 3.0), D.Beta(1.5, 1.5)),
        (D.Laplace(0.0, 1.0), D.Laplace(0.5, 2.0)),
        (D.Exponential(2.0), D.Gamma(2.0, 1.0)),
        (D.Gumbel(0.0, 1.0), D.Gumbel(0.5, 1.5)),
        (D.Uniform(0.0, 1.0), D.Normal(0.0, 1.0)),
        (D.ContinuousBernoulli(0.3), D.ContinuousBernoulli(0.6)),
        (D.LogNormal(0.0, 1.0), D.LogNormal(0.3, 1.0)),
    ],
)
def test_divergence_is_the_mean_log_ratio(p, q):
    rushlight.manual_seed(0)
    x = p.sample((20_000,))
    ratio = p.log_prob(x) - q.log_prob(x)
    error = ratio.std().item() / math.sqrt(20_000)
    assert D.kl_divergence(p, q).item() == pytest.approx(ratio.mean().item(), abs=5 * error + 1e-3)


def test_unknown_divergences_and_registered_ones():
    class Mine(D.Normal):
        pass

    with pytest.raises(NotImplementedError, match="Normal"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Cauchy(1.0, 1.0))

    @D.register_kl(Mine, Mine)
    def formula(p, q):
        return tensor(7.0)

    assert D.kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0)).item() == 7
    assert D.kl_divergence(Mine(0.0, 1.0), D.Normal(0.0, 1.0)).item() == 0


def test_multivariate_normal_agrees_with_its_three_parameters():
    covariance = tensor([[2.0, 0.5], [0.5, 1.0]])
    x, loc = rushlight.randn(5, 2), tensor([1.0, -1.0])
    ways = [
        D.MultivariateNormal(loc, covariance),
        D.MultivariateNormal(loc, precision_matrix=covariance.inverse()),
        D.MultivariateNormal(loc, scale_tril=rushlight.linalg.cholesky(covariance)),
    ]
    for way in ways:
        assert rushlight.allclose(way.log_prob(x), ways[0].log_prob(x), atol=1e-5)
        assert rushlight.allclose(way.covariance_matrix, covariance, atol=1e-5)
    rushlight.manual_seed(0)
    assert rushlight.allclose(ways[0].sample((5000,)).t().cov(), covariance, atol=0.15)
    assert D.kl_divergence(ways[0], ways[1]).item() == pytest.approx(0, abs=1e-5)


def test_shapes_expand_and_become_independent():
    normal = D.Normal(rushlight.zeros(2, 3), 1.0)
    assert normal.sample((4,)).shape == (4, 2, 3) and normal.expand((5, 2, 3)).batch_shape == (5, 2, 3)
    vector = D.Independent(normal, 1)
    assert vector.event_shape == (3,) and vector.log_prob(rushlight.zeros(2, 3)).shape == (2,)
    assert D.Dirichlet(rushlight.ones(2, 3)).sample((4,)).sum(-1).allclose(rushlight.ones(4, 2))
    assert D.Multinomial(5, rushlight.ones(3)).sample((2,)).sum(-1).tolist() == [5, 5]
    assert D.OneHotCategorical(rushlight.ones(3)).expand((4,)).sample().sum(-1).tolist() == [1] * 4


@pytest.mark.parametrize(
    "make",
    [lambda: D.Normal(0.0, -1.0), lambda: D.Bernoulli(1.5), lambda: D.Bernoulli(), lambda: D.Uniform(1.0, 0.0)],
)
def test_bad_parameters_are_refused(make):
    with pytest.raises(ValueError, match="Expected parameter|must be specified|low >= high"):
        make()


def test_values_outside_the_support_are_refused_unless_told_otherwise():
    with pytest.raises(ValueError, match="within the support"):
        D.Gamma(1.0, 1.0).log_prob(tensor(-1.0))
    assert D.Bernoulli(0.5, validate_args=False).log_prob(tensor(0.5)).item() == pytest.approx(math.log(0.5))


TRANSFORMS = {
    "exp": (D.ExpTransform(), (3,)),
    "power": (D.ComposeTransform([D.ExpTransform(), D.PowerTransform(2.0)]), (3,)),
    "sigmoid": (D.SigmoidTransform(), (3,)),
    "softplus": (D.SoftplusTransform(), (3,)),
    "tanh": (D.TanhTransform(), (3,)),
    "affine": (D.AffineTransform(1.0, -2.0), (3,)),
    "cdf": (D.CumulativeDistributionTransform(D.Normal(0.0, 1.0)), (3,)),
    "stick breaking": (D.StickBreakingTransform(), (3,)),
    "correlation": (D.CorrCholeskyTransform(), (3,)),
    "cat": (D.CatTransform([D.ExpTransform(), D.TanhTransform()], -1, [1, 2]), (3,)),
    "stack": (D.StackTransform([D.ExpTransform(), D.TanhTransform()], -1), (2,)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_invert_and_know_their_jacobian(name):
    transform, shape = TRANSFORMS[name]
    x = rushlight.randn(shape, dtype=rushlight.float64)
    y = transform(x)
    assert rushlight.allclose(transform.inv(y), x, atol=1e-6) and bool(transform.codomain.check(y).all())
    jacobian = rushlight.autograd.functional.jacobian(transform, x)
    if name == "stick breaking":
        jacobian = jacobian[:-1]  # the last probability follows from the others
    if name == "correlation":
        rows, columns = rushlight.tril_indices(3, 3, -1)
        jacobian = jacobian[rows, columns]
    found = transform.log_abs_det_jacobian(x, y).sum()
    assert found.item() == pytest.approx(jacobian.det().abs().log().item(), abs=1e-6)


def test_registered_transforms_lead_to_their_sets():
    c = D.constraints
    for constraint in (c.positive, c.unit_interval, c.simplex, c.interval(-1.0, 3.0), c.less_than(2.0), c.real_vector):
        for registry in (D.transform_to, D.biject_to):
            assert bool(constraint.check(registry(constraint)(rushlight.randn(4))).all())
    factor = D.transform_to(c.lower_cholesky)(rushlight.randn(3, 3))
    assert bool(c.lower_cholesky.check(factor)) and bool(c.positive_definite.check(factor @ factor.mT))
    with pytest.raises(NotImplementedError, match="no transform"):
        D.biject_to(c.boolean)


POINTS = {
    "LowRank": lambda D, t: (
        D.LowRankMultivariateNormal(t([1.0, 2.0]), t([[1.0], [0.5]]), t([[1.0, 2.0], [0.5, 3.0]])), t([0.5, 1.0])),
    "Wishart": lambda D, t: (D.Wishart(t([3.5, 6.0]), t([[2.0, 0.3], [0.3, 1.0]])), t([[3.0, 0.1], [0.1, 2.0]])),
    "LKJ": lambda D, t: (D.LKJCholesky(2, t([0.5, 2.0])), t([[1.0, 0.0], [0.6, 0.8]])),
    "VonMises": lambda D, t: (D.VonMises(t([0.1, 1.0]), t([0.5, 200.0])), t([0.3, 1.1])),
    "GeneralizedPareto": lambda D, t: (
        D.GeneralizedPareto(t([0.0, 1.0, 0.0]), t([1.0, 2.0, 1.0]), t([0.3, -0.4, 0.0])), t([0.5, 1.5, 0.7])),
}  # fmt: skip
MOMENTS = ("mean", "mode", "variance", "covariance_matrix", "precision_matrix", "scale_tril")


@pytest.mark.parametrize("name", POINTS)
def test_densities_and_moments_are_those_of_torch(name):
    torch = pytest.importorskip("torch")

    def found(lib):
        distribution, point = POINTS[name](lib.distributions, lib.tensor)
        one = distribution.expand((2, *distribution.batch_shape))
        values = [distribution.log_prob(point), one.log_prob(point)]
        if lib is rushlight:
            assert one.sample((4,)).shape == (4, *one.batch_shape, *one.event_shape)
        if name != "LKJ":
            values += [getattr(distribution, moment) for moment in MOMENTS if hasattr(type(distribution), moment)]
        return [*values, distribution.entropy()] if name in ("LowRank", "Wishart", "GeneralizedPareto") else values

    for theirs, ours in zip(found(torch), found(rushlight), strict=True):
        theirs = rushlight.from_numpy(theirs.detach().numpy())
        assert rushlight.allclose(theirs, ours, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_generalised_pareto_is_exponential_in_the_limit_and_inverts():
    p = rushlight.rand(50, dtype=rushlight.float64)
    for c in (-0.7, 0.0, 0.4, 2.0):
        d = D.GeneralizedPareto(tensor(1.0, dtype=p.dtype), tensor(2.0, dtype=p.dtype), tensor(c, dtype=p.dtype))
        assert rushlight.allclose(d.cdf(d.icdf(p)), p) and bool(d.support.check(d.icdf(p)).all())
    near = D.GeneralizedPareto(0.0, 1.0, 1e-12).log_prob(tensor(2.0))
    assert near.item() == pytest.approx(D.Exponential(1.0).log_prob(tensor(2.0)).item())
    with pytest.raises(ValueError, match="support"):
        D.GeneralizedPareto(0.0, 1.0, -0.5).log_prob(tensor(2.5))


@pytest.mark.parametrize("concentration", [1e-6, 0.5, 30.0])
def test_angles_follow_their_density(concentration):
    d = D.VonMises(tensor(2.0, dtype=rushlight.float64), tensor(concentration, dtype=rushlight.float64))
    x = rushlight.linspace(-math.pi, math.pi, 4001, dtype=rushlight.float64)
    density = d.log_prob(x).exp()
    assert rushlight.trapezoid(density, x).item() == pytest.approx(1, abs=1e-4)
    rushlight.manual_seed(0)
    samples = d.sample((8000,))
    assert samples.min().item() >= -math.pi and samples.max().item() < math.pi
    assert 1 - (samples - 2).cos().mean().item() == pytest.approx(d.variance.item(), abs=0.04)


def test_matrices_follow_their_moments():
    rushlight.manual_seed(0)
    wishart = D.Wishart(5.0, tensor([[2.0, 0.3], [0.3, 1.0]]))
    samples = wishart.sample((6000,))
    assert rushlight.allclose(samples.mean(0), wishart.mean, rtol=0.05, atol=0.05)
    assert rushlight.allclose(samples.var(0), wishart.variance, rtol=0.15)
    for c in (0.5, 1.0, 4.0):
        factors = D.LKJCholesky(3, c).sample((4000,))
        assert bool(D.constraints.corr_cholesky.check(factors).all())
        correlation = (factors @ factors.mT)[:, [0, 0, 1], [1, 2, 2]]
        # Each is 2 b - 1 for a beta number b with both parameters c - 1 + dim / 2.
        expected = 1 / (2 * (c + 0.5) + 1)
        assert rushlight.allclose(correlation.var(0), tensor(expected), rtol=0.12)
    low_rank = D.LowRankMultivariateNormal(tensor([1.0, 2.0]), tensor([[1.0], [0.5]]), tensor([1.0, 2.0]))
    assert rushlight.allclose(low_rank.sample((6000,)).T.cov(), low_rank.covariance_matrix, rtol=0.1, atol=0.1)
    with pytest.warns(UserWarning, match="singular"):
        D.Wishart(1.5, rushlight.eye(2))
    for bad in (lambda: D.Wishart(0.5, rushlight.eye(2)), lambda: D.LKJCholesky(1), lambda: D.Wishart(3.0)):
        with pytest.raises(ValueError):
            bad()


FAMILIES = {
    "Beta": lambda D, t: D.Beta(t([2.0, 0.7]), t([3.0, 1.2])),
    "ContinuousBernoulli": lambda D, t: D.ContinuousBernoulli(t([0.3, 0.8])),
    "Exponential": lambda D, t: D.Exponential(t([2.0, 0.5])),
    "Gamma": lambda D, t: D.Gamma(t([2.0, 3.5]), t([1.0, 2.0])),
    "Gumbel": lambda D, t: D.Gumbel(t([0.1, 0.5]), t([1.0, 2.0])),
    "Laplace": lambda D, t: D.Laplace(t([0.1, 0.5]), t([1.0, 2.0])),
    "Normal": lambda D, t: D.Normal(t([0.1, 0.5]), t([1.0, 2.0])),
    "Pareto": lambda D, t: D.Pareto(t([1.0, 0.5]), t([3.0, 4.0])),
    "inner": lambda D, t: D.Uniform(t([0.1, 0.6]), t([0.5, 0.8])),
    "outer": lambda D, t: D.Uniform(t([-1.0, 0.2]), t([0.5, 2.8])),
    "Bernoulli": lambda D, t: D.Bernoulli(t([0.3, 0.6])),
    "Poisson": lambda D, t: D.Poisson(t([2.0, 0.5])),
    "Binomial": lambda D, t: D.Binomial(3, t([0.3, 0.6])),
    "low rank": lambda D, t: D.LowRankMultivariateNormal(t([1.0, 2.0]), t([[1.0], [0.5]]), t([[1.0, 2.0], [0.5, 3.0]])),
    "full": lambda D, t: D.MultivariateNormal(t([0.0, 1.0]), t([[2.0, 0.3], [0.3, 1.0]])),
}


def test_divergences_between_families_are_those_of_torch():
    torch = pytest.importorskip("torch")
    known = 0
    for p in FAMILIES.values():
        for q in FAMILIES.values():
            pair = [(p(lib.distributions, lib.tensor), q(lib.distributions, lib.tensor)) for lib in (torch, rushlight)]
            try:
                expected = torch.distributions.kl_divergence(*pair[0])
            except NotImplementedError:
                with pytest.raises(NotImplementedError):
                    D.kl_divergence(*pair[1])
                continue
            except RuntimeError:  # PyTorch does not broadcast all pairs of batches of low-rank normal vectors
                continue
            known += 1
            ours = D.kl_divergence(*pair[1])
            assert rushlight.allclose(rushlight.from_numpy(expected.numpy()), ours, rtol=1e-4, atol=1e-5), pair[1]
    assert known > 80


def test_the_divergence_of_wishart_matrices_is_the_mean_of_the_log_ratio():
    rushlight.manual_seed(0)
    p, q = D.Wishart(5.0, tensor([[2.0, 0.3], [0.3, 1.0]])), D.Wishart(4.0, tensor([[1.0, -0.2], [-0.2, 1.5]]))
    samples = p.sample((8000,))
    ratio = p.log_prob(samples) - q.log_prob(samples)
    assert D.kl_divergence(p, q).item() == pytest.approx(ratio.mean().item(), abs=0.06)
    assert D.kl_divergence(p, p).item() == pytest.approx(0, abs=1e-5)


def test_checks_leave_batches_of_samples_alone():
    def density(mean, scale):
        return D.Normal(mean, scale).log_prob(mean)

    scales = tensor([0.5, 2.0])
    assert rushlight.equal(rushlight.vmap(density)(rushlight.zeros(2), scales), density(rushlight.zeros(2), scales))


def test_triangles_become_vectors_and_back():
    from rushlight.distributions import utils  # not reachable from the namespace

    m = rushlight.randn(2, 3, 3)
    for diagonal in (-1, 0, 1):
        vector = utils.tril_matrix_to_vec(m, diagonal)
        assert rushlight.equal(utils.vec_to_tril_matrix(vector, diagonal), m.tril(diagonal))
    with pytest.raises(ValueError, match="lower triangle"):
        utils.vec_to_tril_matrix(rushlight.ones(2))
