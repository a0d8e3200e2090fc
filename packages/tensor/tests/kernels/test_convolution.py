"""Native convolution gives what the numpy route gives, over all geometries and layouts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight
from rushlight.kernels.cpu import allocator, conv, depthwise, depthwise_planes, native, pool, winograd, winograd_weights


class Case(NamedTuple):
    x: np.ndarray
    w: np.ndarray
    g: np.ndarray
    out: tuple
    params: tuple  # stride, padding, dilation, groups


def laid_out(x: np.ndarray, layout: str) -> np.ndarray:
    if layout == "last":
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    return np.broadcast_to(x[:1, :1, ..., :1], x.shape) if layout == "broadcast" else x


@st.composite
def cases(draw, dtypes=(np.float32, np.float64)) -> Case:
    count = draw(st.integers(1, 3))
    each = [draw(st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 2), st.integers(0, 3)))
            for _ in range(count)]  # fmt: skip
    kernel, stride, dilation, padding = zip(*each)
    most = {1: 600, 2: 30, 3: 8}[count]
    least = [max(1, d * (k - 1) + 1 - 2 * p) for k, _, d, p in each]
    size = tuple([draw(st.integers(n, max(n, most))) for n in least])
    out = tuple([(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, (k, s, d, p) in zip(size, each)])
    groups, n = draw(st.sampled_from([1, 1, 2, 4])), draw(st.integers(1, 3))
    channels, filters = groups * draw(st.integers(1, 5)), groups * draw(st.integers(1, 11))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    dtype = draw(st.sampled_from(dtypes))
    x, w, g = (
        laid_out(random.standard_normal(shape).astype(dtype), draw(st.sampled_from(layouts)))
        for shape, layouts in (
            ((n, channels, *size), ["first", "last"]),
            ((filters, channels // groups, *kernel), ["first", "last"]),
            ((n, filters, *out), ["first", "last", "broadcast"]),
        )
    )
    return Case(x, w, g, out, (stride, padding, dilation, groups))


def poisoned(shape: tuple, dtype: type) -> np.ndarray:
    """Memory as a loop may find it: whatever it reads without having written it shows."""
    return np.full(shape, np.nan, dtype)


def routes(function, *args) -> list[np.ndarray]:
    """The results of the native and of the numpy route."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocator, "empty", poisoned)
        for worth in (1, 1 << 60):
            patch.setattr(native, "WORTH", worth)
            found.append(function(*args))
    return found


def close(pair: list[np.ndarray]) -> None:
    fast, slow = pair
    assert fast.dtype == slow.dtype
    bound = (1e-5 if fast.dtype == np.float32 else 1e-12) * max(1, np.abs(slow).max(initial=0))
    np.testing.assert_allclose(fast, slow, rtol=0, atol=bound)


@settings(max_examples=40, deadline=None)
@given(cases(), st.booleans())
def test_convolution_and_its_gradients(case, biased):
    x, w, g, out, params = case
    bias = np.arange(w.shape[0]).astype(x.dtype) if biased else None
    close(routes(conv.conv, x, w, bias, out, *params))
    close(routes(conv.conv_transpose, g, w, None, x.shape[2:], *params))
    close(routes(conv.conv_weight, x, g, w.shape[2:], *params))


@settings(max_examples=15, deadline=None)
@given(cases(dtypes=(np.float64,)))
def test_the_three_are_transposes_of_one_another(case):
    x, w, g, out, params = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "WORTH", 1)
        product = np.vdot(conv.conv(x, w, None, out, *params), g)
        by_x = np.vdot(x, conv.conv_transpose(g, w, None, x.shape[2:], *params))
        by_w = np.vdot(w, conv.conv_weight(x, g, w.shape[2:], *params))
    np.testing.assert_allclose([by_x, by_w], product, rtol=1e-9, atol=1e-9)


def in_double(function, *arrays: np.ndarray | None, **params) -> np.ndarray:
    """The result of the numpy route on float64."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "WORTH", 1 << 60)
        return function(*[x if x is None else x.astype(float) for x in arrays], **params)


def close_to_double(fast: np.ndarray, function, x: np.ndarray, y: np.ndarray, *bias: np.ndarray, **params) -> None:
    """Like the numpy route on float64, but for rounding: all elements of a tile and of a filter take part in errors."""
    summed = {conv.conv: (1, 2, 3), conv.conv_transpose: (0, 2, 3), conv.conv_weight: (0, 2, 3)}[function]
    most = np.abs(x).max() * np.abs(y).sum(summed).max() + sum([np.abs(b).max() for b in bias])
    slow = in_double(function, x, y, *bias, **params)
    np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-6 * most)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([(3, 1), (3, 1), (5, 2), (7, 2)]), st.integers(1, 3), st.sampled_from([1, 1, 3]),
    st.integers(1, 9), st.integers(1, 20), st.integers(1, 40), st.integers(1, 40), st.integers(0, 4), st.integers(0, 3),
    st.sampled_from(["first", "last", "broadcast"]), st.integers(0, 99),
)  # fmt: skip
def test_winograd(window, n, groups, channels, filters, height, width, above, beside, layout, seed):
    kernel, stride = window
    if height + 2 * above < kernel or width + 2 * beside < kernel:
        return
    random = np.random.default_rng(seed)
    x = laid_out(random.standard_normal((n, groups * channels, height, width), np.float32), layout)
    w = random.standard_normal((groups * filters, channels, kernel, kernel), np.float32)
    bias = random.standard_normal(groups * filters, np.float32)
    out = ((height + 2 * above - kernel) // stride + 1, (width + 2 * beside - kernel) // stride + 1)
    params = {"out": out, "stride": (stride,) * 2, "padding": (above, beside), "dilation": (1, 1), "groups": groups}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocator, "empty", poisoned)
        patch.setattr(winograd, "COPIED", 1)  # arrays that lie otherwise sample by sample
        fast = winograd.conv(x, w, bias, out, stride, (above, beside), groups)
    close_to_double(fast, conv.conv, x, w, bias, **params)
    if stride == 1:
        g = laid_out(random.standard_normal((n, groups * filters, *out), np.float32), layout)
        del params["out"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(allocator, "empty", poisoned)
            patch.setattr(winograd, "COPIED", 1)
            fast = winograd_weights.conv_weight(x, g, (above, beside), groups)
        close_to_double(fast, conv.conv_weight, x, g, kernel=(3, 3), **params)
        # The transpose, of an image with less padding.
        g = random.standard_normal((n, groups * filters, height, width), np.float32)
        around = (kernel - 1 - above % kernel, kernel - 1 - beside % kernel)
        out = (height + 2 * (above % kernel) - kernel + 1, width + 2 * (beside % kernel) - kernel + 1)
        if min(out) > 0:
            fast = winograd.conv(g, w, None, out, 1, (above % kernel, beside % kernel), groups, transposed=True)
            close_to_double(fast, conv.conv_transpose, g, w, **(params | {"bias": None, "out": out, "padding": around}))


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.integers(1, 3), st.integers(2, 5)), st.tuples(st.integers(1, 300), st.integers(1, 80)),
    st.sampled_from([(1, 1), (3, 3), (2, 4), (3, 1)]), st.tuples(st.integers(1, 3), st.integers(1, 2)),
    st.tuples(*[st.integers(0, 4)] * 2), st.sampled_from([(1, 1), (2, 3)]), st.booleans(),
)  # fmt: skip
def test_planes_with_a_filter_for_each_channel(planes, size, kernel, stride, padding, dilation, biased):
    out = tuple(
        [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(size, kernel, stride, padding, dilation)]
    )
    if min(out) < 1:
        return
    random = np.random.default_rng(0)
    x = random.standard_normal((*planes, *size)).astype(np.float32)
    w = random.standard_normal((planes[1], 1, *kernel)).astype(np.float32)
    g = random.standard_normal((*planes, *out)).astype(np.float32)
    bias = random.standard_normal(planes[1]).astype(np.float32) if biased else None
    assert depthwise_planes.takes(x, kernel, out, stride, padding, dilation, planes[1], planes[1])
    padded = conv.padded(x, padding)
    found = depthwise_planes.conv(x, w, bias, out, stride, padding, dilation)
    expected = depthwise.conv(padded, w, out, stride, dilation)
    if bias is not None:
        expected += bias[:, None, None]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    by_w = depthwise_planes.conv_weight(x, g, kernel, stride, padding, dilation)
    np.testing.assert_allclose(by_w, depthwise.weight(padded, g, kernel, stride, dilation), rtol=1e-4, atol=1e-3)
    around = depthwise_planes.turned(kernel, stride, padding, dilation)
    if around:
        by_x = depthwise.transpose(g, w, padded.shape[2:], stride, dilation)[conv._inside(size, padding)]
        turned = depthwise_planes.conv(g, w[..., ::-1, ::-1], None, size, stride, around, dilation)
        np.testing.assert_allclose(turned, by_x, rtol=1e-5, atol=1e-4)
    if kernel == (3, 3):
        with pytest.MonkeyPatch.context() as patch:  # planes that are asked for
            patch.setattr(depthwise_planes, "WIDE_APART", 0)
            patch.setattr(depthwise_planes, "FAR", 0)
            far = depthwise_planes.conv(x, w, bias, out, stride, padding, dilation)
        np.testing.assert_array_equal(far, found)
    x[:, 1] = np.nan  # what a row reads beyond its plane does not count
    again = depthwise_planes.conv(x, w, bias, out, stride, padding, dilation)
    np.testing.assert_array_equal(again[:, 0], found[:, 0])


@pytest.mark.parametrize("channels, kernel, stride", [(64, 3, 1), (64, 4, 1), (3, 7, 2)])
def test_the_error_of_winograd_is_a_few_times_that_of_plain_sums(channels, kernel, stride, monkeypatch):
    random = np.random.default_rng(0)
    x = random.standard_normal((2, channels, 40, 40), np.float32)
    w = random.standard_normal((64, channels, kernel, kernel), np.float32)
    out = ((40 - kernel) // stride + 1,) * 2
    params = {"out": out, "stride": (stride, stride), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    exact = in_double(conv.conv, x, w, None, **params)
    error = winograd.conv(x, w, None, out, stride, (0, 0), 1) - exact
    monkeypatch.setattr(winograd, "pays", lambda *args: False)
    plain = conv.conv(x, w, None, **params) - exact
    assert np.sqrt((error**2).mean()) < 3 * np.sqrt((plain**2).mean())
    assert np.abs(error).max() < 5 * np.abs(plain).max()


@pytest.mark.parametrize("special", [np.inf, np.nan, 3e38])
def test_a_special_value_reaches_only_its_own_windows(special):
    x, w = IMAGES.copy(), FILTERS.copy()
    x[3, 5, 20, 20] = special
    assert winograd.conv(x, w, None, (40, 40), 1, (1, 1), 1) is None
    assert winograd.pays(x, 32, 48, (3, 3), (40, 40), (1, 1), (1, 1))
    with np.errstate(over="ignore"):
        found = conv.conv(x, w, None, (40, 40), *SAME)
        exact = in_double(lambda *arrays: conv.conv(*arrays, (40, 40), *SAME), x, w, None)
        np.testing.assert_allclose(found, exact.astype(np.float32), rtol=1e-5, atol=1e-3)


def test_the_error_of_weights_by_winograd():
    random = np.random.default_rng(0)
    x, g = (random.standard_normal((4, channels, 40, 40), np.float32) for channels in (16, 24))
    exact = in_double(conv.conv_weight, x, g, kernel=(3, 3), stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1)
    error = winograd_weights.conv_weight(x, g, (1, 1), 1) - exact
    unit = np.finfo(np.float32).eps / 2 * exact.std()
    assert np.sqrt((error**2).mean()) < 20 * unit  # one float32 sum over all outputs has 40
    assert np.abs(error).max() < 120 * unit


@pytest.mark.parametrize("products", [0, 1 << 20])  # added up call after call, and in the end
def test_weights_of_single_elements_are_sums_of_products(monkeypatch, products):
    monkeypatch.setattr(conv.conv_native, "PRODUCTS", products)
    random = np.random.default_rng(0)
    x, g = (random.standard_normal((5, channels, 13, 21), np.float32) for channels in (37, 50))
    found = conv.conv_weight(x, g, (1, 1), (1, 1), (0, 0), (1, 1), 1)
    exact = np.einsum("nfhw,nchw->fc", g.astype(np.float64), x.astype(np.float64))
    np.testing.assert_allclose(found, exact[..., None, None], rtol=0, atol=1e-6 * np.abs(exact).max())


IMAGES = np.random.default_rng(0).standard_normal((16, 32, 40, 40), np.float32)
FILTERS = np.random.default_rng(1).standard_normal((48, 32, 3, 3), np.float32)
SAME = ((1, 1), (1, 1), (1, 1), 1)


def all_three() -> list[np.ndarray]:
    y = conv.conv(IMAGES, FILTERS, None, (40, 40), *SAME)
    return [y, conv.conv_transpose(y, FILTERS, None, (40, 40), *SAME), conv.conv_weight(IMAGES, y, (3, 3), *SAME)]


def test_results_do_not_depend_on_the_number_of_threads():
    threads, found = pool.get_num_threads(), []
    try:
        for count in (1, 2, 5):
            pool.set_num_threads(count)
            found.append(all_three())
    finally:
        pool.set_num_threads(threads)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_rows_behind_a_part_of_a_block_are_zero(monkeypatch):
    """Zeros behind a row are those before the next one, also where a block of samples ends early."""
    monkeypatch.setattr(allocator, "empty", poisoned)
    for samples, channels, groups in ((3, 64, 64), (9, 64, 1), (3, 300, 1)):
        x, g = IMAGES.reshape(-1)[: 2 * samples * channels * 100].reshape(2, samples, channels, 10, 10)
        w = FILTERS.reshape(-1)[: channels * 9].reshape(channels, 1, 3, 3)
        w = np.broadcast_to(w, (channels, channels // groups, 3, 3))
        params = ((1, 1), (1, 1), (1, 1), groups)
        close(routes(conv.conv, x, w, None, (10, 10), *params))
        close(routes(conv.conv_transpose, g, w, None, (10, 10), *params))
        assert np.isfinite(conv.conv_native.conv_weight(x, g, (3, 3), *params)).all()


def test_no_columns_are_made():
    threads = pool.get_num_threads()
    pool.set_num_threads(2)  # each has memory to work in
    try:
        all_three()
        allocator.empty_cache()
        before = allocator.memory_stats()["reserved"]
        kept = all_three()
        grown = allocator.memory_stats()["reserved"] - before
    finally:
        pool.set_num_threads(threads)
    results = sum([allocator.size_class(x.nbytes) for x in kept])
    assert grown - results < IMAGES.nbytes * 2, "columns would take nine times the images"


@pytest.mark.parametrize("special", [np.inf, np.nan])
def test_weights_that_a_special_value_does_not_meet_stay_finite(special):
    x, g = IMAGES.copy(), np.ones((16, 48, 38, 38), np.float32)
    x[0, 3, 5, 39] = special  # the last column meets the last tap only
    by_weight = conv.conv_weight(x, g, (3, 3), (1, 1), (0, 0), (1, 1), 1)
    assert np.isfinite(by_weight[:, 3, :, :2]).all()
    assert not np.isfinite(by_weight[:, 3, :, 2]).any()


@pytest.mark.parametrize("kernel", [1, 3])
def test_without_channels_the_bias_is_left(kernel):
    x, w = rushlight.ones(2, 0, 4, 4), rushlight.ones(3, 0, kernel, kernel)
    result = rushlight.conv2d(x, w, rushlight.tensor([1.0, 2.0, 3.0]))
    assert result.shape == (2, 3, 5 - kernel, 5 - kernel) and (result[:, 2] == 3).all()
    assert rushlight.conv_transpose2d(rushlight.ones(1, 3, 2, 2), w).shape == (1, 0, 1 + kernel, 1 + kernel)
