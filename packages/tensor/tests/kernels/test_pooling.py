"""Native pooling gives what the numpy route gives, over all geometries and layouts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight.kernels.cpu import native, pool_window
from rushlight.ops.avg_pool import _divisors
from rushlight.ops.pool import pooled_sizes


@st.composite
def pools(draw):
    """A geometry (size, kernel, out, stride, padding, dilation) in 1 to 3 dimensions."""
    count = draw(st.integers(1, 3))
    each = [draw(st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 2))) for _ in range(count)]
    kernel, stride, dilation = zip(*each)
    padding = tuple([draw(st.integers(0, k // 2)) for k in kernel])
    most = {1: 600, 2: 40, 3: 12}[count]
    size = tuple([draw(st.integers(d * (k - 1) + 1, most)) for k, d in zip(kernel, dilation)])
    ceil_mode = draw(st.booleans())
    out = pooled_sizes("pool", size, kernel, stride, padding, dilation, ceil_mode)
    return size, kernel, out, stride, padding, dilation


def numbers(shape: tuple, seed: int, dtype: type, channels_last: bool) -> np.ndarray:
    """Few different numbers, so that there are ties, and some that are not finite."""
    random = np.random.default_rng(seed)
    x = np.round(random.standard_normal(shape) * 2).astype(dtype)
    for special in (np.nan, -np.inf):
        x[random.random(shape) < 0.05 * random.integers(2)] = special
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1) if channels_last else x


def routes(function, *args):
    """The results of the native and of the numpy route."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        for worth in (1, 1 << 60):
            patch.setattr(native, "WORTH", worth)
            found.append(function(*args))
    return found


inputs = st.tuples(st.integers(0, 99), st.sampled_from([np.float32, np.float64]), st.booleans())
channels = st.sampled_from([3, 16, 37])


@settings(max_examples=30, deadline=None)
@given(pools(), inputs, channels)
def test_max_pool(geometry, input, channels):
    size, kernel, out, stride, padding, dilation = geometry
    x = numbers((2, channels, *size), *input)
    fast, slow = routes(pool_window.max_pool, x, kernel, out, stride, padding, dilation)
    np.testing.assert_array_equal(fast[0], slow[0])
    np.testing.assert_array_equal(fast[1], slow[1])


@settings(max_examples=30, deadline=None)
@given(pools(), inputs, channels, st.booleans())
def test_average_pool_and_its_transpose(geometry, input, channels, count_include_pad):
    size, kernel, _, stride, padding, _ = geometry
    out = pooled_sizes("pool", size, kernel, stride, padding, (1,) * len(size), False)
    divisors = _divisors(size, kernel, out, stride, padding, count_include_pad, 0)
    x = np.nan_to_num(numbers((2, channels, *size), *input), neginf=-7)
    fast, slow = routes(pool_window.avg_pool, x, kernel, out, stride, padding, divisors)
    np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-6)
    grad = np.nan_to_num(numbers(fast.shape, *input), neginf=5)
    fast, slow = routes(pool_window.avg_pool_transpose, grad, size, kernel, stride, padding, divisors)
    np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-6)


def test_gradient_of_a_sum_is_read_where_it_is():
    grad = np.broadcast_to(np.float32(3), (2, 3, 20, 20))
    fast, slow = routes(
        pool_window.avg_pool_transpose, grad, (40, 40), (2, 2), (2, 2), (0, 0), [np.full(20, 2), np.full(20, 2)]
    )
    np.testing.assert_array_equal(fast, slow)


@pytest.mark.parametrize("size", [(5000,), (60, 60), (20, 90), (9, 20, 20)])
def test_windows_as_large_as_their_planes(size):
    x = numbers((2, 3, *size), 1, np.float32, False)
    one, none = (1,) * len(size), (0,) * len(size)
    assert pool_window.pool_native.Windows(size, size, one, size, none, one).blocks(), "no native loop is taken"
    fast, slow = routes(pool_window.max_pool, x, size, one, size, none, one)
    np.testing.assert_array_equal(fast[0], slow[0])
    np.testing.assert_array_equal(fast[1], slow[1])


def test_windows_too_large_for_the_buffer():
    x = numbers((1, 1, 1, 20000), 0, np.float32, False)
    values, indices = pool_window.max_pool(x, (1, 19999), (1, 2), (1, 1), (0, 0), (1, 1))
    assert values.shape == indices.shape == (1, 1, 1, 2)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 99), channels, st.booleans(), st.booleans())
def test_scatter_adds_what_comes_to_one_place(area, count, seed, channels, values_last, indices_last):
    random = np.random.default_rng(seed)
    values = numbers((2, channels, count), seed, np.float32, values_last)
    values = np.nan_to_num(values, neginf=-7)
    indices = random.integers(0, area, (2, count, channels)).transpose(0, 2, 1)
    indices = indices if indices_last else np.ascontiguousarray(indices)
    fast, slow = routes(pool_window.scatter_planes, values, indices, (area,))
    np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-5)
    indices[1, 1, 0] = area
    assert routes(pool_window.scatter_planes, values, indices, (area,)) == [None, None]


def test_pooling_of_channels_last_memory_stays_there():
    x = numbers((2, 16, 60, 50), 0, np.float32, True)
    values, indices = pool_window.max_pool(x, (2, 2), (30, 25), (2, 2), (0, 0), (1, 1))
    back = pool_window.scatter_planes(values, indices, (60, 50))
    halves = [np.full(n, 2) for n in (30, 25)]
    means = pool_window.avg_pool(x, (2, 2), (30, 25), (2, 2), (0, 0), halves)
    spread = pool_window.avg_pool_transpose(means, (60, 50), (2, 2), (2, 2), (0, 0), halves)
    for result in (values, indices, back, means, spread):
        assert np.moveaxis(result, 1, -1).flags.c_contiguous
