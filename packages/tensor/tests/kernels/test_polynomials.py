"""float32 polynomials: errors in units in the last place against float64, exact special values, and that the loops
are vectors."""

import numpy as np
import pytest
import scipy.special

from rushlight.core import scalar as s
from rushlight.kernels.cpu.elementwise import elementwise_kernel
from rushlight.kernels.source import is_call

F32 = np.float32
RANDOM = np.random.default_rng(2)
EVERY_EXPONENT = RANDOM.integers(1, 0x7F800000, 300_000, dtype=np.int32).view(F32)
WIDE = np.concatenate([RANDOM.uniform(-104, 89, 300_000), RANDOM.standard_normal(100_000) * 0.01]).astype(F32)
SIGNED = np.concatenate([RANDOM.uniform(-10, 10, 300_000), RANDOM.standard_normal(100_000), WIDE[-5000:]]).astype(F32)
NEAR_ONE = RANDOM.uniform(0.5, 2, 100_000).astype(F32)
ABOVE_MINUS_ONE = np.concatenate([RANDOM.uniform(-1, 1, 200_000), EVERY_EXPONENT[:100_000]]).astype(F32)

# function, float64 reference, inputs, bound in ulp (measured on 4.5 million inputs, 2026-11: 1.00 1.00 1.43 0.84 1.42
# 1.42 0.91 1.34 1.26)
TABLE = [
    (s.exp, np.exp, WIDE, 1.05),
    (s.exp2, np.exp2, WIDE, 1.05),
    (s.expm1, np.expm1, WIDE, 1.5),
    (s.log, np.log, np.concatenate([EVERY_EXPONENT, NEAR_ONE]), 0.9),
    (s.log2, np.log2, np.concatenate([EVERY_EXPONENT, NEAR_ONE]), 1.5),
    (s.log10, np.log10, np.concatenate([EVERY_EXPONENT, NEAR_ONE]), 1.5),
    (s.log1p, np.log1p, ABOVE_MINUS_ONE, 1.0),
    (s.tanh, np.tanh, SIGNED, 1.4),
    (s.erf, scipy.special.erf, SIGNED, 1.3),
]
SPECIAL = np.array(
    [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        1e-45,
        -1e-45,
        1e-39,
        -1e-39,
        -1.0,
        3e38,
        -3e38,
        88.75,
        -103.0,
        -150.0,
        200.0,
    ],
    F32,
)


@pytest.mark.parametrize(("function", "reference", "inputs", "bound"), TABLE, ids=[row[0].name for row in TABLE])
def test_errors_and_special_values(function, reference, inputs, bound):
    kernel = elementwise_kernel(function, [F32], F32)
    out = np.empty_like(inputs)
    kernel(out, inputs)
    with np.errstate(all="ignore"):
        exact = reference(inputs.astype(np.float64))
        nearest = exact.astype(F32)
        ulps = np.abs(out - exact) / np.spacing(np.abs(nearest))
    finite = np.isfinite(nearest)
    assert ulps[finite].max() <= bound
    np.testing.assert_array_equal(out[~finite], nearest[~finite])

    special = np.empty_like(SPECIAL)
    kernel(special, SPECIAL)
    with np.errstate(all="ignore"):
        expected = reference(SPECIAL.astype(np.float64)).astype(F32)
    np.testing.assert_array_max_ulp(special, expected, 2)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(special[known]), np.signbit(expected[known]))
    edges = ~np.isfinite(expected) | (expected == 0) | (SPECIAL == 0)
    np.testing.assert_array_equal(special[edges], expected[edges])


@pytest.mark.parametrize("function", [row[0] for row in TABLE], ids=lambda function: function.name)
def test_no_call_into_libm_is_left(function):
    kernel = elementwise_kernel(function, [F32], F32)
    assert "fma(" in kernel.source()
    assert not any(map(is_call, kernel.program.nodes()))


@pytest.mark.parametrize(("name", "fn", "reference"), [
    ("sigmoid", s.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    ("gelu", lambda x: x * (1.0 + s.erf(x * 0.5**0.5)), lambda x: x * (1 + scipy.special.erf(x * 0.5**0.5))),
    ("softplus", lambda x: s.log1p(s.exp(x)), lambda x: np.log1p(np.exp(x))),
])  # fmt: skip
def test_compositions(name, fn, reference):
    x = np.linspace(-5, 20, 10_001).astype(F32)
    out = np.empty_like(x)
    elementwise_kernel(fn, [F32], F32)(out, x)
    np.testing.assert_allclose(out, reference(x.astype(np.float64)), rtol=2e-6, atol=2e-7)
