"""Laws and edges of the pointwise functions that samples do not reach."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

import rushlight
from rushlight.core import native, scalar_bessel, scalar_gamma
from rushlight.kernels.cpu.elementwise import COMPILE_AFTER

NAN, INF = math.nan, math.inf
LONG = 40_000  # from here on compiled loops take over from numpy

integers = st.integers(-1000, 1000)
nonzero = integers.filter(bool)


@given(st.lists(st.tuples(integers, nonzero), min_size=1, max_size=8))
def test_quotient_and_remainder_make_the_dividend(pairs):
    a, b = (rushlight.tensor(list(x)) for x in zip(*pairs))
    assert rushlight.equal(a // b * b + a % b, a)
    assert rushlight.equal(rushlight.div(a, b, rounding_mode="trunc") * b + rushlight.fmod(a, b), a)
    assert (a // b).tolist() == [x // y for x, y in pairs]


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 6)), min_size=1, max_size=8))
def test_integer_powers_round_towards_zero(pairs):
    exact = [x**y if y >= 0 or x == 0 else math.trunc(float(x) ** y) for x, y in pairs if x or y >= 0]
    kept = [p for p in pairs if p[0] or p[1] >= 0]
    if kept:
        a, b = (rushlight.tensor(list(x)) for x in zip(*kept))
        assert (a**b).tolist() == exact


def test_calls_change_over_to_the_native_loop_without_a_trace():
    x, y = (rushlight.tensor(np.linspace(-1, 1, LONG) / n) for n in (3, 7))
    assert len({(x + y).numpy().tobytes() for _ in range(COMPILE_AFTER + 2)}) == 1


@pytest.mark.parametrize("size", [3, LONG])
@pytest.mark.parametrize("dtype", [rushlight.int8, rushlight.int64, rushlight.float32, rushlight.bfloat16])
def test_multiples_are_added_in_the_dtype_of_the_operands(dtype, size):
    x, y = rushlight.full((size,), 5, dtype=dtype), rushlight.full((size,), 3, dtype=dtype)
    assert (rushlight.add(x, y, alpha=2) == 11).all() and rushlight.sub(x, y, alpha=3).dtype is dtype
    assert (x.sub_(y, alpha=-2) == 11).all() and (x.add_(y, alpha=1) == 14).all()
    if not dtype.is_floating_point:
        with pytest.raises(RuntimeError, match="alpha must be an integer"):
            x.add_(y, alpha=0.5)


@pytest.mark.parametrize("size", [3, LONG])
@pytest.mark.parametrize("number", [2.5, -3, True, 1e300, NAN, INF, -0.0])
def test_numbers_beside_tensors_of_any_size(number, size):
    x = np.linspace(-2, 2, size)
    with np.errstate(all="ignore"):
        for dtype in (np.float32, np.float64):
            expected = x.astype(dtype) * np.array(number).astype(dtype)
            np.testing.assert_array_equal((rushlight.tensor(x.astype(dtype)) * number).numpy(), expected)


@pytest.mark.parametrize("size", [5, LONG])
def test_writing_in_place_where_operands_share_memory(size):
    x = rushlight.arange(size, dtype=rushlight.float32)
    assert x.add_(x)[3] == 6 and x.mul_(x.detach())[3] == 36
    shared = np.arange(size + 1, dtype=np.float32)
    left, right = rushlight.from_numpy(shared[:-1]), rushlight.from_numpy(shared[1:])
    right.add_(left)  # two tensors that do not know of each other
    np.testing.assert_array_equal(right.numpy(), 2 * np.arange(size) + 1)


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
@pytest.mark.parametrize("largest", [10.0, 1e30])
def test_remainders_are_numpys_for_small_and_large_quotients(name, largest):
    x = np.linspace(-largest, largest, LONG)
    for other in (2.5, np.linspace(0.1, 3, LONG)):
        expected = getattr(np, name)(x, other)
        given = other if isinstance(other, float) else rushlight.from_numpy(other)
        found = getattr(rushlight, name)(rushlight.from_numpy(x), given)
        np.testing.assert_array_equal(found.numpy(), expected)
        written = getattr(rushlight.from_numpy(x.copy()), name + "_")(given)
        np.testing.assert_array_equal(written.numpy(), expected)


@pytest.mark.parametrize("size", [3, LONG])
@pytest.mark.parametrize("divide", [rushlight.floor_divide, rushlight.remainder, rushlight.fmod])
def test_integer_division_by_zero_raises_for_any_size(divide, size):
    ones = rushlight.ones(size, dtype=rushlight.int32)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        divide(ones, rushlight.zeros(size, dtype=rushlight.int32))


@pytest.mark.parametrize(
    "function",
    [rushlight.sigmoid, rushlight.erfinv, rushlight.digamma, rushlight.special.i1e, rushlight.special.bessel_y1,
     rushlight.sgn, rushlight.sinc, rushlight.special.log_ndtr, rushlight.round, rushlight.signbit],
)  # fmt: skip
def test_compiled_loops_agree_with_numpy(function):
    values = np.linspace(-0.99, 0.99, LONG, dtype=np.float32)
    long, short = function(rushlight.from_numpy(values)), function(rushlight.from_numpy(values[:500].copy()))
    np.testing.assert_allclose(long.numpy()[:500], short.numpy(), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    "ours, reference, low, high",
    [(scalar_gamma.digamma, scipy.special.digamma, -9.5, 60), (scalar_gamma.erfcx, scipy.special.erfcx, -5, 40),
     (scalar_gamma.ndtri, scipy.special.ndtri, 0, 1),
     (scalar_bessel.i0e, scipy.special.i0e, -60, 60), (scalar_bessel.i1, scipy.special.i1, -60, 60),
     (scalar_bessel.modified_k0, scipy.special.k0, 0, 60), (scalar_bessel.k1e, scipy.special.k1e, 0, 60),
     (scalar_bessel.j0, scipy.special.j0, -60, 60), (scalar_bessel.j1, scipy.special.j1, -60, 60),
     (scalar_bessel.y0, scipy.special.y0, 0, 60), (scalar_bessel.y1, scipy.special.y1, 0, 60),
     (scalar_bessel.airy_ai, lambda x: scipy.special.airy(x)[0], -30, 15)],
)  # fmt: skip
def test_scalar_definitions_agree_with_scipy(ours, reference, low, high):
    points = np.append(np.random.default_rng(0).uniform(low, high, 60), [1e-20, -1e-20 if low < 0 else 1e-9])
    found = [ours.function(float(x)) for x in points]
    np.testing.assert_allclose(found, reference(points), rtol=1e-11, atol=1e-13)


def test_two_argument_scalar_definitions_agree_with_scipy():
    a, x = np.random.default_rng(0).uniform(0.05, 30, (2, 60))
    for ours, reference in (
        (scalar_gamma.igamma, scipy.special.gammainc),
        (scalar_gamma.igammac, scipy.special.gammaincc),
    ):
        np.testing.assert_allclose([ours.function(*p) for p in zip(a, x)], reference(a, x), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(
        [scalar_gamma.zeta.function(s + 1, q) for s, q in zip(a, x)], scipy.special.zeta(a + 1, x), rtol=1e-13
    )


def test_nan_and_infinity():
    x = rushlight.tensor([NAN, INF, -INF, -0.0])
    assert rushlight.sign(x).tolist() == [0, 1, -1, 0]
    assert rushlight.signbit(x).tolist() == [False, False, True, True]
    assert np.isnan(rushlight.relu(x)[0].item()) and np.isnan(x.clamp(-1, 1)[0].item())
    assert rushlight.fmax(x, rushlight.tensor(2.0)).tolist() == [2, INF, 2, 2]
    assert rushlight.isclose(x, x).tolist() == [False, True, True, True]
    assert rushlight.isclose(x, x, equal_nan=True).all()
    assert rushlight.sigmoid(rushlight.tensor([-INF, INF])).tolist() == [0, 1]
    assert rushlight.logaddexp(x[1:3], x[1:3]).tolist() == [INF, -INF]
    assert rushlight.angle(x[3]).item() == 0


def test_numbers_stand_where_pytorch_takes_them():
    x = rushlight.tensor([1.0, 2.0])
    assert rushlight.sub(3, x).tolist() == [2, 1] and rushlight.pow(2, x).tolist() == [2, 4]
    assert rushlight.mul(2, 3).item() == 6
    for call in (lambda: rushlight.maximum(x, 1.0), lambda: rushlight.eq(1.0, x), lambda: rushlight.pow(2, 3)):
        with pytest.raises(TypeError):
            call()


def test_in_place_results_must_fit():
    whole = rushlight.tensor([1, 2])
    with pytest.raises(RuntimeError, match="can't be cast"):
        whole.mul_(0.5)
    with pytest.raises(RuntimeError, match="does not fit"):
        rushlight.ones(2).add_(rushlight.ones(3, 2))
    with pytest.raises(RuntimeError, match="negative integer powers"):
        whole**-1


def test_views_of_complex_parts_share_memory():
    z = rushlight.zeros(2, 3, dtype=rushlight.complex64)
    z.transpose(0, 1).imag[2, 1] = 5.0
    rushlight.view_as_real(z)[0, 0, 0] = 3.0
    assert z[1, 2].item() == 5j and z[0, 0].item() == 3
    assert rushlight.view_as_complex(rushlight.ones(2, 2)).tolist() == [1 + 1j, 1 + 1j]


def test_half_types_round_once():
    x = rushlight.tensor([1.0], dtype=rushlight.bfloat16)
    small = rushlight.tensor([2.0**-8], dtype=rushlight.bfloat16)
    assert (
        rushlight.addcmul(x, small, x, value=1.5).item() == 1 + 2.0**-7
    )  # 1 + 1.5 * 2**-8, not 1 + (2**-8 rounded away)


def test_the_default_dtype_is_asked_for_each_time():
    x = rushlight.tensor([1, 2])
    seen = []
    try:
        for default in (rushlight.float32, rushlight.float64, rushlight.float16, rushlight.float32):
            rushlight.set_default_dtype(default)
            seen.append({(x / x).dtype, x.exp().dtype, (x * 1.5).dtype, x.sqrt().dtype, rushlight.ones(2).dtype})
    finally:
        rushlight.set_default_dtype(rushlight.float32)
    assert seen == [{rushlight.float32}, {rushlight.float64}, {rushlight.float16}, {rushlight.float32}]


@pytest.mark.parametrize("dtype", [rushlight.float16, rushlight.bfloat16])
def test_half_types_see_numbers_and_0_dim_tensors_as_float32(dtype):
    x = rushlight.linspace(0.001, 3, 50).to(dtype)
    wide = x.float()
    for number in (0.1, 1 / 3, 1e5, 2.1):
        for other in (number, rushlight.tensor(number)):
            assert (x * other == (wide * other).to(dtype)).all() and (other / x == (other / wide).to(dtype)).all()
            assert (x / other == (wide / other).to(dtype)).all() and (x - other == (wide - other).to(dtype)).all()
            assert (x.clone().mul_(other) == (wide * other).to(dtype)).all()
            assert x.to(dtype).eq(other).equal(x == rushlight.tensor(number).to(dtype))
    assert rushlight.tensor([0.1]).to(dtype) == 0.1 and rushlight.tensor([0.1]).to(dtype) == rushlight.tensor(0.1)


def test_bounds_outside_the_range_of_integers():
    x, y = rushlight.tensor([0, 200], dtype=rushlight.uint8), rushlight.tensor([-100, 100], dtype=rushlight.int8)
    assert x.clamp(-1, 300).tolist() == x.clamp(min=-1).tolist() == x.clone().clamp_(max=300).tolist() == [0, 200]
    assert y.clamp(-300, 50).tolist() == [-100, 50] and y.clamp_max(300).equal(y) and y.clamp_min(-300).equal(y)
    for call in (
        lambda: x.clamp(300), lambda: y.clamp_max(-300), lambda: x.clamp_max(-1), lambda: y.clamp_min(300),
        lambda: rushlight.where(x > 1, x, 300), lambda: rushlight.where(x > 1, 300, x),
        lambda: rushlight.threshold(x, 1, 300), lambda: rushlight.constant_pad_nd(x, (1, 1), 300),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="overflow|than all numbers"):
            call()


@pytest.mark.skipif(not native.possible(), reason="native calls are switched off or not for this Python")
@pytest.mark.parametrize("dtype", [rushlight.bfloat16, rushlight.float16])
def test_few_half_numbers_are_rounded_once_whoever_computes(dtype):
    assert native.install()
    whole = rushlight.from_numpy(np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)).to(dtype)
    for x in (whole, whole.mT, whole[:, ::2], whole[:1].expand(4, 6), whole[0, 0], whole[:0]):
        wide = x.double().numpy()
        assert x.float().numpy().tolist() == wide.tolist() and x.float().to(dtype).tolist() == x.tolist()
        other = x[0] if x.ndim > 1 and len(x) else x
        for _ in range(3):
            made = x + other, x * 2.5, x.clone().add_(other), x.clone().mul_(2.5)
            exact = wide + other.double().numpy(), wide * 2.5
            for found, expected in zip(made, exact * 2):
                assert found.dtype is dtype and found.tolist() == rushlight.tensor(expected).to(dtype).tolist()
    assert rushlight.tensor([1e30, -1e30, NAN, 1e-30]).to(dtype).float().to(dtype).isnan().tolist() == [0, 0, 1, 0]
