"""Reductions against float64 numpy: every order of axes, accuracy of long sums, nan, thread counts, special shapes."""

import ml_dtypes
import numpy as np
import pytest

from rushlight.core import scalar as s
from rushlight.kernels.cpu import pool
from rushlight.kernels.cpu.reduce import reduce_kernel

F32 = np.float32
RANDOM = np.random.default_rng(1)


@pytest.fixture(scope="module")
def mean():
    return reduce_kernel(
        lambda a, b: a + b, 0.0, [F32], F32, finish=lambda total, n: total / s.cast(n, s.dtype_of(total))
    )


@pytest.fixture(scope="module")
def largest():
    return reduce_kernel(s.maximum, -np.inf, [F32], F32)


def apply(kernel, x, axes, dtype=F32):
    out = np.empty(tuple(n for d, n in enumerate(x.shape) if d not in axes), dtype)
    assert kernel(out, x, axes=axes) is out
    return out


CASES = [
    ((7,), (0,)), ((1,), (0,)), ((40, 30), (0,)), ((40, 30), (1,)), ((40, 30), (0, 1)), ((6, 5, 4, 9), (1, 2)),
    ((6, 5, 4, 9), (0, 2, 3)), ((6, 5, 4, 9), (0, 3)), ((1, 5, 1, 9), (0, 1)), ((3, 2100), (0,)), ((200_000,), (0,)),
    ((30_000, 20), (0,)), ((30_000, 3), (0,)), ((7, 23, 5, 12), (0, 2)), ((2, 3, 2500), (0, 2)), ((3, 1025), (1,)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "axes"), CASES)
def test_every_order_of_axes(mean, largest, shape, axes):
    x = RANDOM.standard_normal(shape).astype(F32)
    for array in (x, x.transpose(), x[::2, ...], x[..., ::-1]):
        np.testing.assert_allclose(apply(mean, array, axes), array.mean(axes, dtype=np.float64), rtol=1e-6, atol=2e-7)
        np.testing.assert_array_equal(apply(largest, array, axes), array.max(axes))


@pytest.mark.parametrize("axes", [(0,), (1,)])
def test_long_sums_do_not_drift(mean, axes):
    x = np.full((2_000_000, 3), 0.48, F32)
    array = x if axes == (0,) else x.T
    np.testing.assert_allclose(apply(mean, array, axes), 0.48, rtol=1e-7)


def test_strided_result(largest):
    x = RANDOM.standard_normal((20, 30, 40)).astype(F32)
    out = np.empty((40, 20), F32).T
    largest(out, x, axes=(1,))
    np.testing.assert_array_equal(out, x.max(1))


@pytest.mark.parametrize("shape", [(1000,), (64, 50), (50, 64)])
def test_nan_wins(largest, shape):
    x = RANDOM.standard_normal(shape).astype(F32)
    x.flat[517] = np.nan
    for axes in [(0,), tuple(range(len(shape)))]:
        np.testing.assert_array_equal(apply(largest, x, axes), x.max(axes))
    assert np.isnan(apply(largest, x, tuple(range(len(shape))))[()])


def test_empty_and_zero_dimensional(mean, largest):
    assert apply(largest, np.empty((3, 0), F32), (1,)).tolist() == [-np.inf] * 3
    assert apply(mean, np.empty((0, 3), F32), (1,)).shape == (0,)
    assert np.isnan(apply(mean, np.empty((0,), F32), (0,)))
    assert apply(mean, np.array(2.5, F32), ())[()] == 2.5
    np.testing.assert_array_equal(apply(largest, np.eye(3, dtype=F32), ()), np.eye(3))


@pytest.mark.parametrize(("shape", "axes"), [((1_000_003,), (0,)), ((40_000, 20), (0,)), ((5, 300_000), (1,))])
def test_thread_count_changes_nothing(mean, shape, axes, monkeypatch):
    x = RANDOM.standard_normal(shape).astype(F32)
    results = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(pool, "_num_threads", threads)
        results.append(apply(mean, x, axes).tobytes())
    assert len(set(results)) == 1


def test_second_operand_is_broadcast_along_the_folded_axis():
    x = RANDOM.standard_normal((50, 70)).astype(F32)
    m = x.max(1, keepdims=True)
    kernel = reduce_kernel(
        lambda a, b: a + b, 0.0, [F32, F32], F32, pre=lambda x, m: s.exp(x - m), finish=lambda t, n: s.log(t)
    )
    out = np.empty(50, F32)
    kernel(out, x, m, axes=(1,))
    np.testing.assert_allclose(out, np.log(np.exp(x.astype(np.float64) - m).sum(1)), rtol=1e-6)


def test_integers_bools_and_halves():
    x = RANDOM.integers(0, 255, (30, 40)).astype(np.uint8)
    total = reduce_kernel(lambda a, b: a + b, 0, [np.uint8], np.int64, arg_dtypes=[np.int64])
    np.testing.assert_array_equal(apply(total, x, (0,), np.int64), x.sum(0))
    smallest = reduce_kernel(s.minimum, None, [np.uint8], np.uint8)
    np.testing.assert_array_equal(apply(smallest, x, (1,), np.uint8), x.min(1))
    every = reduce_kernel(lambda a, b: a & b, True, [np.uint8], bool, pre=lambda x: x > 3)
    np.testing.assert_array_equal(apply(every, x, (1,), bool), (x > 3).all(1))
    half = (x / 16).astype(ml_dtypes.bfloat16)
    total = reduce_kernel(lambda a, b: a + b, 0.0, [half.dtype], half.dtype)
    expected = half.astype(np.float64).sum(1).astype(F32).astype(half.dtype)
    np.testing.assert_array_equal(apply(total, half, (1,), half.dtype), expected)


def test_refuses_wrong_arrays(mean):
    with pytest.raises(TypeError, match="float64"):
        mean(np.empty(3, F32), np.zeros((3, 3)), axes=(0,))
    with pytest.raises(TypeError, match="of shape"):
        mean(np.empty(4, F32), np.zeros((3, 3), F32), axes=(0,))
