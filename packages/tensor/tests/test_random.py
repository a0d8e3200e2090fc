"""Random numbers: where they come from, that they repeat, and how they are distributed."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight
from rushlight.kernels.cpu import philox


@pytest.fixture(autouse=True)
def seeded():
    with rushlight.random.fork_rng():
        rushlight.manual_seed(0)
        yield


def test_philox_gives_the_published_words():
    # from the reference implementation's table of known answers
    assert [hex(w) for w in philox.block_words(0, 0, 1)[0]] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]


@pytest.mark.parametrize("seed", [0, 5, 2**63 + 11, 2**64 - 1])
@pytest.mark.parametrize("first", [0, 2**32 - 2, 2**64 - 3])
def test_compiled_words_are_those_of_numpy(seed, first):
    assert np.array_equal(philox.native_words(seed, first, 9), philox.block_words(seed, first, 9))


@pytest.mark.parametrize("draw", [rushlight.rand, rushlight.randn], ids=["rand", "randn"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_an_element_depends_on_seed_offset_and_place_only(draw, dtype):
    kind, threads = getattr(rushlight, dtype), rushlight.get_num_threads()
    g = rushlight.Generator()
    many = draw(150_001, dtype=kind, generator=g.manual_seed(3))
    few = draw(10, dtype=kind, generator=g.manual_seed(3))
    assert many[:10].equal(few)
    try:
        rushlight.set_num_threads(1)
        assert draw(150_001, dtype=kind, generator=g.manual_seed(3)).equal(many)
    finally:
        rushlight.set_num_threads(threads)
    assert not draw(10, dtype=kind, generator=g).equal(few)


def test_state_is_kept_and_restored():
    state = rushlight.get_rng_state()
    first = rushlight.randn(5)
    assert not rushlight.randn(5).equal(first)
    rushlight.set_rng_state(state)
    assert rushlight.randn(5).equal(first)
    with pytest.raises(RuntimeError, match="uint8 tensor of 16"):
        rushlight.set_rng_state(rushlight.zeros(3, dtype=rushlight.uint8))
    with pytest.raises(RuntimeError, match="64 bits"):
        rushlight.manual_seed(2**64)


N = 200_000
# What is drawn, its mean and its standard deviation.
DISTRIBUTIONS = {
    "uniform": (lambda: rushlight.empty(N).uniform_(2, 5), 3.5, 3 / 12**0.5),
    "normal": (lambda: rushlight.empty(N).normal_(1, 3), 1, 3),
    "complex": (lambda: rushlight.randn(N, dtype=rushlight.complex64).abs() ** 2, 1, 1),
    "exponential": (lambda: rushlight.empty(N).exponential_(2), 0.5, 0.5),
    "geometric": (lambda: rushlight.empty(N).geometric_(0.3), 1 / 0.3, 0.7**0.5 / 0.3),
    "log_normal": (lambda: rushlight.empty(N).log_normal_(0, 0.5), 1.1331, 0.6039),
    "bernoulli": (lambda: rushlight.bernoulli(rushlight.full((N,), 0.3)), 0.3, 0.21**0.5),
    "randint": (lambda: rushlight.randint(3, 9, (N,)), 5.5, (35 / 12) ** 0.5),
    "wide randint": (lambda: rushlight.randint(0, 1 << 40, (N,)).double() / (1 << 40), 0.5, 12**-0.5),
    "small poisson": (lambda: rushlight.poisson(rushlight.full((N,), 0.7)), 0.7, 0.7**0.5),
    "large poisson": (lambda: rushlight.poisson(rushlight.full((N,), 40.0)), 40, 40**0.5),
    "small binomial": (lambda: rushlight.binomial(rushlight.full((N,), 6.0), rushlight.tensor(0.3)), 1.8, 1.26**0.5),
    "large binomial": (lambda: rushlight.binomial(rushlight.full((N,), 90.0), rushlight.tensor(0.7)), 63, 18.9**0.5),
    "huge binomial": (
        lambda: rushlight.binomial(rushlight.full((N,), 1e18).double(), rushlight.tensor(4e-17).double()),
        40,
        40**0.5,
    ),
    "multinomial": (lambda: rushlight.multinomial(rushlight.tensor([1.0, 2.0, 7.0]), N, True), 1.6, 0.44**0.5),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_mean_and_deviation(name):
    draw, mean, deviation = DISTRIBUTIONS[name]
    values = draw().double().numpy()
    error = deviation / N**0.5
    assert abs(values.mean() - mean) < 5 * error
    assert abs(values.std() - deviation) < 0.02 * deviation


def test_uniform_numbers_stay_below_their_end():
    for dtype in (rushlight.float16, rushlight.bfloat16, rushlight.float32):
        assert float(rushlight.rand(100_000, dtype=dtype).max()) < 1
        assert float(rushlight.empty(100_000, dtype=dtype).uniform_(1, 3).max()) < 3


def test_permutations_and_draws_without_replacement_name_each_once():
    for n in (0, 1, 2, 1000):
        assert np.array_equal(np.sort(rushlight.randperm(n).numpy()), np.arange(n))
    drawn = rushlight.multinomial(rushlight.rand(4, 9) + 0.1, 9)
    assert np.array_equal(np.sort(drawn.numpy(), -1), np.tile(np.arange(9), (4, 1)))
    firsts = rushlight.multinomial(rushlight.tensor([[0.0, 1, 3]]).expand(20_000, 3), 1)
    assert abs(float((firsts == 2).double().mean()) - 0.75) < 0.02 and int(firsts.min()) == 1


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: rushlight.rand(2, dtype=rushlight.int64), "floating point"),
        (lambda: rushlight.randint(5, 5, (2,)), "low < high"),
        (lambda: rushlight.randint(0, 300, (2,), dtype=rushlight.uint8), "0 to 299 are out of bounds for uint8"),
        (lambda: rushlight.empty(2, dtype=rushlight.float16).random_(0, 70_000), "out of bounds for float16"),
        (lambda: rushlight.empty(2, dtype=rushlight.bool).random_(-1, 1), "out of bounds for bool"),
        (lambda: rushlight.randperm(300, dtype=rushlight.uint8), "out of bounds for uint8"),
        (lambda: rushlight.empty(2).normal_(0, -1), "std >= 0"),
        (lambda: rushlight.bernoulli(rushlight.tensor([1.5])), r"\[0, 1\]"),
        (lambda: rushlight.multinomial(rushlight.tensor([0.0, 0.0]), 1), "sum of probabilities"),
        (lambda: rushlight.multinomial(rushlight.tensor([1.0, -1.0]), 1), "element < 0"),
        (lambda: rushlight.poisson(rushlight.tensor([-1.0])), "non-negative"),
        (lambda: rushlight.empty(2).exponential_(0), "lambda > 0"),
    ],
)
def test_impossible_parameters_are_refused(call, match):
    with pytest.raises(RuntimeError, match=match):
        call()


@pytest.mark.parametrize("dtype", [rushlight.float16, rushlight.bfloat16, rushlight.float32, rushlight.float64])
@pytest.mark.parametrize("draw", [rushlight.rand, rushlight.randn])
def test_small_draws_are_parts_of_a_large_one(draw, dtype):
    each = 2 if dtype is rushlight.float64 else 4
    generator = rushlight.Generator().manual_seed(5)
    large = draw(40_000, dtype=dtype, generator=generator)
    generator.manual_seed(5)
    start = 0
    for n in (16, 3, 1, 512, 513, 100, 100):
        part = draw(n, dtype=dtype, generator=generator)
        assert rushlight.equal(part, large[start : start + n])
        part.zero_()  # what is drawn ahead is nobody's
        start += -(-n // each) * each


@pytest.mark.parametrize("dtype", [rushlight.float32, rushlight.float64, rushlight.float16, rushlight.bfloat16])
@pytest.mark.parametrize("count", [16, 100_000])
def test_ranges_and_scales_of_draws(dtype, count):
    x = rushlight.empty(count, dtype=dtype).uniform_(-3, 5)
    assert x.min() >= -3 and x.max() < 5 and not bool((x == x[0]).all())
    assert bool((rushlight.empty(count, dtype=dtype).uniform_(2, 2) == 2).all())
    y = rushlight.empty(count, dtype=dtype).normal_(10, 0.5).float()
    assert abs(y.mean() - 10) < 3 / count**0.5 + 0.01 and y.min() > 5 and y.max() < 15


def test_filling_counts_as_writing():
    x = rushlight.zeros(4)
    before = x._version
    view = x[:2]
    assert x.uniform_(1, 2) is x and x._version == before + 1 and bool((view >= 1).all())
    assert view.normal_() is view and x._version == before + 2


def test_filling_tensors_of_other_kinds():
    assert rushlight.empty(3, device="meta").uniform_().is_meta
    z = rushlight.empty(500, dtype=rushlight.complex64).uniform_(2, 3)
    assert bool((z.real >= 2).all()) and bool((z.imag < 3).all()) and not z.real.equal(z.imag)
    column = rushlight.zeros(4, 2)[:, 0]
    assert bool((column.uniform_(1, 2) >= 1).all())
    for _ in range(2):
        with pytest.raises(RuntimeError, match="range"):
            rushlight.empty(2).uniform_(2, 1)


def test_the_argument_that_is_named_from():
    assert rushlight.empty(9).uniform_(**{"from": 2, "to": 3}).min() >= 2
    assert rushlight.empty(9).random_(**{"from": 4, "to": 5}).tolist() == [4] * 9
    for fill in (rushlight.empty(2).uniform_, rushlight.empty(2).random_):
        with pytest.raises(TypeError, match="unexpected keyword argument 'form'"):
            fill(form=1)


@pytest.mark.parametrize("count", [3, 1000])
@pytest.mark.parametrize("wrong", [-0.1, 1.5, float("nan"), float("inf")])
def test_what_is_no_probability(count, wrong):
    p = rushlight.full((count,), 0.5)
    assert rushlight.bernoulli(p).shape == (count,)
    p[1] = wrong
    with pytest.raises(RuntimeError, match="outside"):
        rushlight.bernoulli(p)
