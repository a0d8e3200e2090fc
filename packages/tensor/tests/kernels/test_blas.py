"""Products by the fastest route: both give the same values, whole or in pieces."""

import numpy as np
import pytest

import rushlight
from rushlight.kernels.cpu import blas, gemm_kernels

RANDOM = np.random.default_rng(5)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_large_products_by_both_routes(monkeypatch, layout, threads):
    a = RANDOM.standard_normal((300, 90)).astype(np.float32)
    b = RANDOM.standard_normal((90, 131)).astype(np.float32)
    a = a if layout == "rows" else np.asfortranarray(a)
    out, bias = np.empty((300, 131), np.float32), RANDOM.standard_normal(131).astype(np.float32)
    expected = a.astype(np.float64) @ b
    before = rushlight.get_num_threads()
    rushlight.set_num_threads(threads)
    try:
        for large in (False, True):
            monkeypatch.setattr(blas, "_is_large", lambda a, b, work, large=large: large)
            np.testing.assert_allclose(blas.matmul(a, b), expected, rtol=1e-4, atol=1e-4)
            assert blas.matmul(a, b, out) is out
            np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(blas.matmul(a, b, added=bias), expected + bias, rtol=1e-4, atol=1e-4)
    finally:
        rushlight.set_num_threads(before)


def test_what_is_large(monkeypatch):
    wide, narrow = np.empty((1024, 1024), np.float32), np.empty((400, 400), np.float32)
    for rows, expected in ((6, [True, True, False, False]), (14, [False] * 4)):
        monkeypatch.setattr(gemm_kernels, "tile_shape", lambda dtype, rows=rows: (rows, 16))
        cases = [(wide, wide), (narrow.T, narrow), (narrow, narrow), (wide[None], wide)]
        assert [blas._is_large(a, b, a.size * b.shape[-1]) for a, b in cases] == expected
