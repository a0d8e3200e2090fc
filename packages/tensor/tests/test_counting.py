"""Histograms and counts at the edges: numbers on the edges of bins, nothing to count, ranges as wide as the dtype."""

import numpy as np
import pytest

import rushlight
from rushlight import tensor


def test_a_number_on_an_edge_belongs_to_the_bin_above_but_for_the_last():
    tenths = tensor([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    assert tenths.histc(10, 0, 1).tolist() == [1.0] * 9 + [2.0]  # rounded in float32, as the numbers are
    assert tensor([1.0, 2.0, 3.0]).histc(3, 0, 3).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("dtype", [rushlight.float16, rushlight.bfloat16, rushlight.float32, rushlight.float64])
def test_the_widest_range_counts_all(dtype):
    most = rushlight.finfo(dtype).max
    assert tensor([-most, 0.0, most, most], dtype=dtype).histc(2).tolist() == [1.0, 3.0]


def test_outside_and_nan_do_not_count():
    assert tensor([1.0, float("nan"), 3.0, 9.0, float("inf")]).histc(3, 0, 4).tolist() == [1.0, 0.0, 1.0]
    with pytest.raises(RuntimeError, match="not finite"):
        tensor([1.0, float("nan")]).histc(3)


def test_nothing_to_count():
    empty = rushlight.empty(0)
    assert empty.histc(3).tolist() == [0.0] * 3
    hist, edges = rushlight.histogram(empty, 2)
    assert (hist.tolist(), edges.tolist()) == ([0.0, 0.0], [0.0, 0.5, 1.0])
    assert rushlight.histogramdd(rushlight.empty(0, 2), 1).bin_edges[1].tolist() == [0.0, 1.0]
    counts = rushlight.bincount(empty.long(), empty, minlength=2)
    assert counts.tolist() == [0, 0] and counts.dtype is rushlight.int64


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(RuntimeError, match="edges of bins must increase"):
        rushlight.histogram(rushlight.ones(2), tensor([3.0, 1.0]))
    with pytest.raises(RuntimeError, match="weights must be real"):
        rushlight.bincount(tensor([0, 1]), tensor([1j, 2.0]))


def test_degrees_of_polynomials_may_be_large():
    x, degree = rushlight.tensor([-1.0, -0.5, 0.0, 0.5, 1.0, 1.5]).double(), 1_000_000_002
    assert rushlight.special.chebyshev_polynomial_t(x[1:5], degree).tolist() == pytest.approx([1, -1, 1, 1], abs=1e-5)
    assert rushlight.special.chebyshev_polynomial_u(x[[0, 4]], degree).tolist() == [degree + 1, degree + 1]
    for name in ("chebyshev_polynomial_w", "hermite_polynomial_h", "legendre_polynomial_p"):
        assert not getattr(rushlight.special, name)(x[5:], degree).isfinite().any()
    for name in ("chebyshev_polynomial_v", "shifted_chebyshev_polynomial_u", "laguerre_polynomial_l"):
        function, points = getattr(rushlight.special, name), np.linspace(-1.2, 2.0, 9)
        steps = function(tensor(points), 40)  # on arrays; beside a larger degree compiled
        together = function(tensor([*points, 0.5]), tensor([40.0] * 9 + [70.0]))
        rushlight.testing.assert_close(together[:9], steps, rtol=1e-9, atol=1e-9)
