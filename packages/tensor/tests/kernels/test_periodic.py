"""Sine, cosine and tangent of large arrays: errors in units in the last place, special values, and huge arguments."""

import numpy as np
import pytest

import rushlight

RANDOM = np.random.default_rng(3)
LONG = 40_000
HALF_TURNS = RANDOM.integers(-63_000, 63_000, LONG) * (np.pi / 2)  # where least is left of the argument
ANGLES = np.concatenate([RANDOM.uniform(-8, 8, LONG), RANDOM.uniform(-1e5, 1e5, LONG), HALF_TURNS])
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-20, -1e-20, 1e-310, 2.5])


# measured beside 60 digits, 2026-11
@pytest.mark.parametrize(("name", "dtype", "bound"), [
    ("sin", np.float32, 1.5), ("cos", np.float32, 1.6), ("tan", np.float32, 3.7),
    ("sin", np.float64, 1.0), ("cos", np.float64, 1.0), ("tan", np.float64, 2.6),
])  # fmt: skip
def test_errors_and_special_values(name, dtype, bound):
    wide = np.longdouble if dtype is np.float64 else np.float64
    x = ANGLES.astype(dtype)
    found = getattr(rushlight, name)(rushlight.from_numpy(x)).numpy()
    exact = getattr(np, name)(x.astype(wide))
    ulps = np.abs(found - exact) / np.spacing(np.abs(exact.astype(dtype)))
    assert ulps.max() <= bound + (np.finfo(wide).nmant == np.finfo(dtype).nmant)

    x = np.resize(SPECIAL, LONG).astype(dtype)
    found = getattr(rushlight, name)(rushlight.from_numpy(x)).numpy()[: SPECIAL.size]
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(SPECIAL.astype(dtype))
    np.testing.assert_array_max_ulp(found, expected, 2)
    np.testing.assert_array_equal(np.signbit(found[3:]), np.signbit(expected[3:]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_huge_arguments(name, dtype):
    huge = np.array([2e5, -1e7, 1e22, 3e38, 0.5], dtype)
    x = np.resize(huge, LONG)
    expected = getattr(np, name)(huge.astype(np.float64)).astype(dtype)
    found = getattr(rushlight, name)(rushlight.from_numpy(x)).numpy()
    np.testing.assert_array_max_ulp(found[:5], expected, 2)
    tensor = rushlight.from_numpy(x.copy())
    getattr(tensor, name + "_")()
    np.testing.assert_array_equal(tensor.numpy(), found)
