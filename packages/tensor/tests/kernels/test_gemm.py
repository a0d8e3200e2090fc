"""Products of matrices by our own kernels, beside numpy in double precision."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushlight.kernels.cpu import blas, gemm, gemv, pool
from rushlight.kernels.cpu.gemm_kernels import DEPTH, tile_shape

_ROWS, _COLUMNS = tile_shape(np.dtype(np.float32))
_EDGES = [_ROWS - 1, _ROWS, _ROWS + 1, _COLUMNS // 2, _COLUMNS - 1, _COLUMNS, _COLUMNS + 1]
_SIDES = st.sampled_from([0, 1, 2, 75, *_EDGES])
_DEPTHS = st.sampled_from([0, 1, 15, 16, 17, 64, DEPTH - 1, DEPTH, DEPTH + 1])
_LAYOUTS = st.sampled_from(["rows", "columns", "sliced", "reversed", "repeated"])
_DTYPES = st.sampled_from([np.float32, np.float64])


@pytest.fixture(autouse=True)
def threads_as_before():
    before = pool.get_num_threads()
    yield
    pool.set_num_threads(before)


def _matrix(shape, layout, dtype, seed):
    rng = np.random.default_rng(seed)
    if layout == "repeated":
        return np.broadcast_to(rng.standard_normal((*shape[:-2], 1, shape[-1])).astype(dtype), shape)
    *batch, rows, columns = shape
    if layout == "columns":
        return rng.standard_normal((*batch, columns, rows)).astype(dtype).swapaxes(-1, -2)
    if layout == "sliced":
        return rng.standard_normal((*batch, 2 * rows, 3 * columns)).astype(dtype)[..., ::2, 1::3]
    x = rng.standard_normal(shape).astype(dtype)
    return x[..., ::-1, ::-1] if layout == "reversed" else x


def _check(result, a, b, added=0.0, alpha=1.0, beta=1.0):
    """The error of a sum of k products is at most about k roundings of the sum of their sizes."""
    a, b, added = (np.ascontiguousarray(x, np.float64) for x in (a, b, added))
    exact = alpha * (a @ b) + beta * added
    size = abs(alpha) * (abs(a) @ abs(b)) + abs(beta * added)
    assert result.shape == (a @ b).shape
    assert (abs(result - exact) <= (a.shape[-1] + 4) * np.finfo(result.dtype).eps * size).all()


@given(_SIDES, _SIDES, _DEPTHS, _LAYOUTS, _LAYOUTS, _DTYPES)
def test_any_size_and_layout(m, n, k, left, right, dtype):
    a, b = _matrix((m, k), left, dtype, 0), _matrix((k, n), right, dtype, 1)
    _check(gemm.multiply(a, b), a, b)


@given(
    st.sampled_from([(), (3,), (2, 3), (2, 1, 3), (2, 3, 2)]), st.booleans(), _LAYOUTS, _DTYPES,
    st.sampled_from([(0.0, 0.0), (1.0, 1.0), (-2.0, 0.5)]),
)  # fmt: skip
def test_batches_and_what_is_added(batch, one_factor, layout, dtype, scales):
    a = _matrix((*batch, 17, 20), layout, dtype, 0)
    b = _matrix((20, 35) if one_factor else (*batch, 20, 35), layout, dtype, 1)
    alpha, beta = scales
    for shape in ((35,), (17, 1), (*batch, 17, 35)):
        added = np.random.default_rng(2).standard_normal(shape).astype(dtype)
        _check(gemm.multiply(a, b, None, added, alpha, beta), a, b, added, alpha, beta)


@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("shape", [(1100, 40, 1030), (60, 1100, 700), (530, 900, 520)])
def test_large_matrices_are_packed_in_chunks(shape, layout):
    m, n, k = shape
    a, b = _matrix((m, k), layout, np.float32, 0), _matrix((k, n), layout, np.float32, 1)
    added = np.arange(n, dtype=np.float32)
    _check(gemm.multiply(a, b, None, added), a, b, added)
    total = np.ones((m, n), np.float32)
    _check(gemm.multiply(a, b, total, total, -1.0), a, b, 1.0, -1.0)


def test_results_do_not_depend_on_threads():
    rng = np.random.default_rng(0)
    cases = [(130, 150, 700), (64, 2000, 512), (900, 900, 900)]
    for m, n, k in cases:
        a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        results = []
        for threads in (1, 2, 5):
            pool.set_num_threads(threads)
            results.append(gemm.multiply(a, b))
        assert all((result == results[0]).all() for result in results)
        part = gemm.multiply(a[7:90].copy(), np.asfortranarray(b))  # neither on neighbours nor on the layout
        assert (part == results[0][7:90]).all()


def test_nan_and_infinity_go_through():
    a, b = np.zeros((20, 40), np.float32), np.ones((40, 50), np.float32)
    b[3, 7], b[4, 8] = np.nan, np.inf
    result = gemm.multiply(a, b)
    bad = np.zeros((20, 50), bool)
    bad[:, 7:9] = True  # 0 times NaN, 0 times infinity
    assert (np.isnan(result) == bad).all()
    hidden = np.full((20, 50), np.nan, np.float32)
    clean = gemm.multiply(a, np.ones((40, 50), np.float32), hidden.copy(), hidden, 1.0, 0.0)
    assert (clean == 0).all()  # with beta 0 what would be added is not read


@pytest.mark.parametrize("turn", [lambda x: x, np.transpose, lambda x: x[::-1], lambda x: np.repeat(x, 2, 1)[:, ::2]])
def test_results_of_any_layout(turn):
    a, b = _matrix((40, 33), "rows", np.float32, 0), _matrix((33, 40), "rows", np.float32, 1)
    out = turn(np.zeros((40, 40), np.float32))
    assert gemm.multiply(a, b, out) is out
    _check(out, a, b)


def test_nothing_beside_the_result_is_written():
    frame = np.full((60, 80), 7.0)
    a, b = _matrix((31, 20), "rows", np.float64, 0), _matrix((20, 37), "rows", np.float64, 1)
    gemm.multiply(a, b, frame[10:41, 20:57])
    _check(frame[10:41, 20:57], a, b)
    frame[10:41, 20:57] = 7.0
    assert (frame == 7.0).all()


def test_two_threads_at_once():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((300, 300)), rng.standard_normal((300, 300))
    expected, wrong = gemm.multiply(a, b), []

    def work():
        for _ in range(20):
            if not (gemm.multiply(a, b) == expected).all():
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, 60_001), (60_001, 3), (401, 333)])
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_products_with_a_vector(shape, layout, dtype):
    a, x = _matrix(shape, layout, dtype, 0), _matrix((1, 2 * shape[1]), "rows", dtype, 1)[0, ::2]
    assert gemv.takes(a, x)
    results = []
    for threads in (1, 3):
        pool.set_num_threads(threads)
        results.append(gemv.multiply(a, x))
    _check(results[0], a, x)
    assert (results[0] == results[1]).all()
    assert (blas.matmul(a, x[:, None])[:, 0] == results[0]).all()
    assert (blas.matmul(x, a.T) == results[0]).all()
