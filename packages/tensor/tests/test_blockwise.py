"""Operations that work on a large operand block by block give what they give on the whole."""

import subprocess
import sys

import numpy as np
import pytest

import rushlight
from rushlight.kernels.cpu import fourier

RNG = np.random.default_rng(5)
X = RNG.standard_normal((60, 1500))
X[3, 7] = X[40, 0] = np.nan


@pytest.mark.parametrize("kind", [np.complex64, np.complex128])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms(kind, norm):
    z = (RNG.standard_normal((30, 1201)) + 1j * RNG.standard_normal((30, 1201))).astype(kind)
    t, wide = rushlight.from_numpy(z), z.astype(np.complex128)
    real, bound = rushlight.from_numpy(np.ascontiguousarray(z.real)), 1e-5 if kind is np.complex64 else 1e-11
    for got, want in (
        (rushlight.fft.fft(t, norm=norm), np.fft.fft(wide, norm=norm)),
        (rushlight.fft.ifft(t, dim=0, norm=norm), np.fft.ifft(wide, axis=0, norm=norm)),
        (rushlight.fft.fft2(t, norm=norm), np.fft.fft2(wide, norm=norm)),
        (rushlight.fft.rfft2(real, norm=norm), np.fft.rfft2(wide.real, norm=norm)),
        (rushlight.fft.irfft(t, norm=norm), np.fft.irfft(wide, norm=norm)),
        (rushlight.fft.irfft2(t, norm=norm), np.fft.irfft2(wide, norm=norm)),
    ):
        assert got.dtype is (t.dtype if np.iscomplexobj(want) else real.dtype)
        assert np.abs(got.numpy() - want).max() <= bound * np.abs(want).max()


def test_transforms_where_scipy_keeps_its_module_elsewhere(monkeypatch):
    t = rushlight.from_numpy(RNG.standard_normal((30, 1201)))
    for transform in (rushlight.fft.fft2, rushlight.fft.rfft2, rushlight.fft.irfft2):
        found = transform(t)
        with monkeypatch.context() as patch:
            patch.setattr(fourier, "scipy_transforms", lambda: None)
            assert found.allclose(transform(t))


def test_large_transforms_import_no_scipy_fft_and_leave_it_whole():
    program = (
        "import sys, rushlight; x = rushlight.ones(1 << 15, dtype=rushlight.complex64); y = rushlight.fft.fft(x); "
        "from rushlight.kernels.cpu import fourier; "
        "print('scipy.fft' in sys.modules, fourier.scipy_transforms() is not None); "
        "import scipy.fft; print((scipy.fft.fft(x.numpy()) == y.numpy()).all())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True"]


@pytest.mark.parametrize("dim", [0, 1])
def test_orders(dim):
    t = rushlight.from_numpy(X)
    assert np.array_equal(t.median(dim).values, np.where(
        np.isnan(X).any(dim), np.nan, np.sort(X, dim).take((X.shape[dim] - 1) // 2, dim)), equal_nan=True)  # fmt: skip
    assert np.array_equal(t.kthvalue(9, dim).values, np.sort(X, dim).take(8, dim))
    largest = t.nan_to_num(-9).topk(20, dim)
    assert np.array_equal(largest.values, -np.sort(-np.nan_to_num(X, nan=-9), dim).take(range(20), dim))
    assert largest.values.equal(t.nan_to_num(-9).gather(dim, largest.indices))


def test_modes():
    x = RNG.integers(0, 9, (40, 900))
    found = rushlight.from_numpy(x).mode(1)
    for row, value, place in zip(x, found.values.tolist(), found.indices.tolist()):
        assert value == np.bincount(row).argmax() and place == np.flatnonzero(row == value)[-1]


def test_modes_of_long_lines():
    for x in (RNG.integers(0, 300, 20_000), np.repeat([5, 3, 9], [4096, 8192, 8192]), np.arange(9000)):
        values, counts = np.unique(x, return_counts=True)
        most, x = values[counts.argmax()], RNG.permutation(x)
        found = rushlight.from_numpy(x).mode()
        assert found.values == most and found.indices == np.flatnonzero(x == most)[-1]
    nans = rushlight.full((3, 5000), np.nan)
    nans[1, 7:9] = 2.0
    assert nans.mode(1).indices.tolist() == [0, 8, 0] and nans.mode(1).values[1] == 2.0


@pytest.mark.parametrize("shape", [(300, 400), (2, 70_000), (70_000, 2), (3, 50, 900)])
def test_the_first_extreme_of_all_in_any_layout(shape):
    x = RNG.integers(-9, 9, shape).astype(np.float32)
    for dims in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        y = x.transpose([d for d in dims if d < x.ndim])
        t = rushlight.from_numpy(x).permute([d for d in dims if d < x.ndim])
        assert t.argmax() == y.argmax() and t.argmin() == y.argmin() and t[1:].argmax() == y[1:].argmax()
    x[-1, ..., 1] = np.nan
    assert rushlight.from_numpy(x).transpose(0, 1).argmin() == x.swapaxes(0, 1).argmin()


def test_sets_of_other_dtypes_and_layouts():
    x = RNG.integers(0, 90, (300, 200))
    for dtype in (np.int64, np.uint8, np.float32, np.float16):
        t = rushlight.from_numpy(x.astype(dtype)).t()
        for among in (np.array([3, 7, 80], dtype), np.array([2.5, 7.0, np.nan]), np.zeros(0, np.float32)):
            assert np.array_equal(rushlight.isin(t, rushlight.from_numpy(among)), np.isin(x.T, among))
        assert np.array_equal(rushlight.isin(t, 7, invert=True), x.T != 7)
    nans = rushlight.full((40_000,), np.nan)
    assert not rushlight.isin(nans, nans[:2]).any() and rushlight.isin(nans, nans[:2], invert=True).all()


def test_sets_and_counts():
    x = RNG.integers(-50, 50, (200, 500))
    t, among = rushlight.from_numpy(x), np.array([-3, 0, 7, 99])
    assert np.array_equal(rushlight.isin(t, rushlight.from_numpy(among), invert=True), np.isin(x, among, invert=True))
    values, inverse, counts = t.unique(return_inverse=True, return_counts=True)
    assert np.array_equal(values[inverse], x) and np.array_equal(counts, np.bincount(x.ravel() + 50))
    y = RNG.random(70_000)
    assert np.array_equal(rushlight.from_numpy(y).histc(30), np.histogram(y, 30)[0])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "bool"])
@pytest.mark.parametrize("shape", [(), (3, 50), (70_000,)])
def test_sets_of_integers_are_numpys(dtype, shape):
    kind = np.dtype(dtype)
    low = -128 if kind.kind == "i" else 0
    x = np.array(RNG.integers(low, low + 256, shape)).astype(kind)
    if dtype == "uint64":
        x = np.asarray(x + np.uint64(2**64 - 256))
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    t = rushlight.from_numpy(x)
    found = t.unique(return_inverse=True, return_counts=True)
    assert [part.dtype for part in found] == [t.dtype, rushlight.int64, rushlight.int64]
    for got, want in zip(found, (values, inverse.reshape(shape), counts), strict=True):
        assert np.array_equal(got, want)
    assert np.array_equal(t.unique(), values) and np.array_equal(t.unique(return_counts=True)[1], counts)


def test_sets_of_integers_far_apart():
    x = np.array([2**63 - 1, -(2**63), 0, -(2**63)] * 2000)
    assert rushlight.from_numpy(x).unique().tolist() == [-(2**63), 0, 2**63 - 1]


@pytest.mark.parametrize("repeated", [False, True])
def test_combinations_are_counted_before_they_are_made(repeated):
    for n in (0, 1, 5):
        for r in (1, 2, 3):
            got = rushlight.combinations(rushlight.arange(n), r, with_replacement=repeated)
            assert got.shape[1] == r and len({tuple(row) for row in got.tolist()}) == got.shape[0]
    assert rushlight.combinations(rushlight.tensor([4, 5]), 2, with_replacement=True)[1].tolist() == [4, 5]


def test_poisson_numbers_do_not_depend_on_threads():
    rates = rushlight.from_numpy(RNG.uniform(0, 25, 30_000))
    draws = []
    before = rushlight.get_num_threads()
    try:
        for threads in (1, 2):
            rushlight.set_num_threads(threads)
            draws.append(rushlight.poisson(rates, rushlight.Generator().manual_seed(4)))
    finally:
        rushlight.set_num_threads(before)
    assert draws[0].equal(draws[1]) and abs((draws[0] - rates).mean()) < 0.1
    with pytest.raises(RuntimeError, match="non-negative"):
        rushlight.poisson(-rates)
