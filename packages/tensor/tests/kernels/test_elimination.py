"""LU, systems of equations and Cholesky factors of large matrices."""

import numpy as np
import pytest
import scipy.linalg

from rushlight.core.errors import LinAlgError
from rushlight.kernels.cpu import elimination, pool
from rushlight.ops.linalg_factor import _cholesky
from rushlight.ops.linalg_solve import inv_op, solve_op

_EDGE = elimination.WIDTH


def _random(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("shape", [(128, 128), (131, 131), (200, 140), (140, 200), (6 * _EDGE + 1, 6 * _EDGE + 1)])
def test_lu_is_that_of_lapack(shape):
    a = _random(*shape)
    factors, swaps, info = elimination.lu(a)
    expected, pivots = scipy.linalg.lu_factor(a)
    assert info == 0
    assert (swaps == pivots).all()
    np.testing.assert_allclose(factors, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_was_eliminated_multiplies_back(dtype):
    a = _random(300, 300, dtype=dtype)
    factors, swaps, _ = elimination.lu(a)
    lower, upper = np.tril(factors.astype(float), -1) + np.eye(300), np.triu(factors.astype(float))
    assert abs(lower).max() <= 1
    for i, other in enumerate(swaps):
        a[[i, other]] = a[[other, i]]
    # The backward error of elimination with row swaps: a few roundings of the largest number.
    assert abs(lower @ upper - a).max() <= 300 * np.finfo(dtype).eps * abs(upper).max()


@pytest.mark.parametrize("columns", [1, 17, 64, 130])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_solutions_solve(columns, dtype):
    a, b = _random(150, 150, dtype=dtype), _random(150, columns, dtype=dtype, seed=1)
    results = []
    for threads in (1, 2):
        before = pool.get_num_threads()
        pool.set_num_threads(threads)
        results.append(elimination.solve(a.T, b))
        pool.set_num_threads(before)
    assert (results[0] == results[1]).all()
    rest = abs(a.T.astype(float) @ results[0] - b)
    size = abs(a.T.astype(float)) @ abs(results[0]) + abs(b)
    assert (rest <= 150 * np.finfo(dtype).eps * size).all()


def test_singular_matrices_are_refused():
    a = _random(140, 140)
    a[:, 70] = 0
    assert elimination.lu(a)[2] == 71
    assert elimination.solve(a, a) is None
    with pytest.raises(LinAlgError, match="singular"):
        solve_op.kernels["cpu"](a, a)
    with pytest.raises(LinAlgError, match="singular"):
        inv_op.kernels["cpu"](np.stack([np.eye(140), a]))


def test_nan_stays_nan():
    a = _random(140, 140)
    a[5, 5] = np.nan
    assert np.isnan(elimination.solve(a, np.eye(140))).any()


def test_batches():
    a, b = _random(2, 3, 130, 130), _random(3, 130, 2, seed=1)
    np.testing.assert_allclose(solve_op.kernels["cpu"](a, b), np.linalg.solve(a, np.broadcast_to(b, (2, 3, 130, 2))))
    np.testing.assert_allclose(inv_op.kernels["cpu"](a), np.linalg.inv(a), atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cholesky_reads_the_lower_triangle(dtype):
    x = _random(3, 100, 100, dtype=dtype)
    a = x @ x.swapaxes(1, 2) + 100 * np.eye(100, dtype=dtype)
    lower, info = _cholesky(np.tril(a) + np.triu(x, 1), True)
    assert not info.any()
    assert (np.triu(lower, 1) == 0).all()
    np.testing.assert_allclose(lower, np.linalg.cholesky(a.astype(float)), atol=2e3 * np.finfo(dtype).eps)
    a[1, 40, 40] = -1
    assert _cholesky(a, False)[1].tolist() == [0, 41, 0]
    with pytest.raises(LinAlgError, match="order 41"):
        _cholesky(a, True)
