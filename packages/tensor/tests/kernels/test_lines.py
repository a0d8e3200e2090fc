"""Line programs in all their loops, and what is made of them: extremes, scans, the first k."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import rushlight
from rushlight.kernels.cpu import extreme, lines, native, pool, scan, select
from rushlight.kernels.line_source import LineProgram, Pass

RNG = np.random.default_rng(0)
# Sums, a result that is read back, operands and results with one element for a line.
PROGRAM = LineProgram(
    ("y", "total"),
    ("x", "w"),
    (("top", "C(-inf)"), ("all", "W(0.0)"), ("middle", "C(0.0)")),
    (
        Pass("top = fmax(top, x)"),
        Pass("all += x * w\ny = x - top", "total = C(all)\nmiddle = C(all / W(n))"),
        Pass("y = y + middle"),
    ),
    each=("total", "w"),
)


@pytest.fixture(scope="module", autouse=True)
def everything_is_large():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "WORTH", 1)
        yield


@pytest.mark.parametrize("shape, dim", [
    ((5, 200), 1), ((5, 64), 1), ((3, 37, 19), 1), ((70, 10), 1), ((70, 3), 0), ((30, 500), 1), ((9, 2100), 1),
    ((1, 1), 1), ((0, 4), 1), ((4, 1), 0),
])  # fmt: skip
def test_every_loop_does_what_the_program_says(shape, dim):
    plain = RNG.standard_normal(shape, np.float32)
    w = RNG.standard_normal([1 if d == dim else size for d, size in enumerate(shape)], np.float32)
    layouts = [plain]
    if len(shape) == 3:
        layouts += [np.flip(plain)]
    if plain.size > 10_000:
        layouts += [np.asfortranarray(plain), np.repeat(plain, 2, axis=-1)[..., ::2]]
        layouts += [np.broadcast_to(plain[:1], shape), np.broadcast_to(plain[:, :1], shape)]
    for x in layouts:
        y, total = np.empty(shape, np.float32), np.empty(w.shape, np.float32)
        lines.run(PROGRAM, (dim,), (y, total), (x, w), x.dtype)
        expected = (x * w).sum(dim, keepdims=True, dtype=np.float64)
        np.testing.assert_allclose(total, expected, rtol=1e-5, atol=1e-5)
        if x.size:
            middle = expected / shape[dim]
            np.testing.assert_allclose(y, x - x.max(dim, keepdims=True) + middle, rtol=1e-5, atol=1e-5)


def test_half_types_compute_in_float32():
    x, dim = rushlight.from_numpy(RNG.standard_normal((200, 300))).to(rushlight.bfloat16), 1
    exact = x.double().softmax(dim)
    assert (x.softmax(dim).double() / exact - 1).abs().max() < 2.0**-8
    sums = x.double().cumsum(dim)
    assert ((x.cumsum(dim).double() - sums).abs() <= 2.0**-8 * sums.abs()).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [0, 1])
def test_logarithms_of_sums_of_special_rows(dtype, dim):
    rows = RNG.standard_normal((12, 100)).astype(dtype) * 5
    rows[1, 5], rows[2], rows[3, 7], rows[4, ::3] = np.inf, -np.inf, np.nan, -np.inf
    rows[5, 0] = 900  # beside it all others vanish
    rows[6] -= 1e30
    rows[7, 3] = np.array([-1], f"i{rows.itemsize}").view(dtype)[0]  # a NaN of other bits
    rows[8, 1], rows[8, 2] = np.inf, np.nan
    x = rushlight.from_numpy(np.ascontiguousarray(rows if dim else rows.T))
    with np.errstate(all="ignore"):
        top = rows.max(1, keepdims=True)
        base = np.where(np.isfinite(top), top, 0)
        sums = np.log(np.exp((rows - base).astype(np.longdouble)).sum(1, keepdims=True))
        logs = (rows - top) - np.where(np.isfinite(top), sums, np.nan)
    close = {"rtol": 8 * np.finfo(dtype).eps, "atol": 8 * np.finfo(dtype).eps}
    np.testing.assert_allclose(x.logsumexp(dim), (sums + base)[:, 0], **close)
    np.testing.assert_allclose(x.log_softmax(dim), logs if dim else logs.T, **close)


numbers = st.one_of(st.floats(-4, 4, width=32), st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0]))
matrices = arrays.arrays(
    np.float32, arrays.array_shapes(min_dims=2, max_dims=2, min_side=8, max_side=14), elements=numbers
)


@given(matrices, st.sampled_from([0, 1]), st.booleans())
def test_extremes_are_the_first_of_equals_and_nan_wins(x, dim, largest):
    expected = (np.argmax if largest else np.argmin)(x, axis=dim, keepdims=True)
    assert np.array_equal(extreme.position(x, dim, largest), expected)
    values = rushlight.from_numpy(x).sort(dim).values.numpy()
    found = np.take_along_axis(x, expected, dim)
    assert not largest or np.array_equal(found, np.take(values, [-1], dim), equal_nan=True)


@pytest.mark.parametrize("shape, dim", [((50_000,), 0), ((40_000, 2), 0)])
def test_long_lines_are_searched_in_chunks(shape, dim):
    x = RNG.integers(0, 200, shape)
    assert np.array_equal(extreme.position(x, dim, True), np.argmax(x, axis=dim, keepdims=True))


@given(matrices, st.sampled_from([0, 1]), st.booleans(), st.data())
def test_the_first_k_are_those_of_a_stable_sort(x, dim, largest, data):
    k = data.draw(st.integers(1, x.shape[dim]))
    order = np.where(np.isnan(x), np.inf, x)  # NaN is the largest number, after infinity
    keys = (~np.isnan(x), -order) if largest else (np.isnan(x), order)
    ranks = np.lexsort(keys, axis=dim)
    found = np.take_along_axis(x, select.first(x, k, dim, largest), dim)
    assert np.array_equal(found, np.take(np.take_along_axis(x, ranks, dim), range(k), dim), equal_nan=True)
    places = np.sort(select.first(x, k, dim, largest), axis=dim)
    assert (np.diff(places, axis=dim) > 0).all(), "a position is taken once"


@given(matrices)
def test_running_extremes(x):
    found = scan.extreme_positions(x, 0, True)
    assert np.array_equal(np.take_along_axis(x, found, 0), np.maximum.accumulate(x, axis=0), equal_nan=True)
    assert (np.diff(found, axis=0) >= 0).all()


def test_results_do_not_depend_on_the_number_of_threads():
    x = rushlight.from_numpy(RNG.standard_normal((301, 307), np.float32))
    results = []
    for threads in (1, 2):
        before = pool.get_num_threads()
        pool.set_num_threads(threads)
        try:
            results.append([f(0).numpy() for f in (x.var, x.logsumexp, x.cumsum)])
        finally:
            pool.set_num_threads(before)
    for one, two in zip(*results, strict=True):
        assert np.array_equal(one, two)
