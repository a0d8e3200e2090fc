"""Functions of complex numbers in compiled loops: their errors, their cuts, and where plain formulas overflow."""

import numpy as np
import pytest

from rushlight.core import scalar as s
from rushlight.kernels.complex_functions import FUNCTIONS, LIBRARY
from rushlight.kernels.cpu.elementwise import elementwise_kernel

NUMPY = {f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}
UNARY = sorted([f.name for f in (LIBRARY | FUNCTIONS) if f.name not in ("divide", "pow")])
PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1e-3, -1e-3, 0.99, -1.01, 3.0, -7.0, 20.0, -20.0]


def computed(name: str, z: np.ndarray) -> np.ndarray:
    out = z.real.dtype if name == "abs" else z.dtype
    result = np.empty(z.shape, out)
    elementwise_kernel(getattr(s, name), [z.dtype], out)(result, z)
    return result


def reference(name: str, z: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return getattr(np, NUMPY.get(name, name))(z)


def errors(got: np.ndarray, want: np.ndarray, smallest: float) -> np.ndarray:
    """In units of the last place of the modulus."""
    return np.abs(got - want) / np.maximum(np.abs(want), smallest) / np.finfo(got.dtype).eps


@pytest.mark.parametrize("name", UNARY)
def test_errors_and_signs_of_zeros(name):
    rng = np.random.default_rng(0)
    grid = np.array([complex(a, b) for a in PARTS for b in PARTS])
    drawn = (rng.standard_normal(1500) + 1j * rng.standard_normal(1500)) * np.exp(rng.normal(0, 2, 1500))
    z = np.concatenate([grid, drawn]).astype(np.complex64)
    want = reference(name, z.astype(np.complex128))
    fits = np.isfinite(want) & (np.abs(want) < 1e38)
    got = computed(name, z)[fits]
    # The angle of exp2 is rounded; numpy's log1p cancels by itself.
    assert errors(got, want[fits], 1e-3 if name == "log1p" else 1e-30).max() < {"exp2": 100}.get(name, 3)
    wide = computed(name, z.astype(np.complex128))
    assert errors(wide[fits], want[fits], 1.0 if name == "log1p" else 0.1).max() < {"exp2": 100}.get(name, 5)
    if name not in ("log1p", "expm1", "sin", "sinh", "abs"):  # numpy's zeros of those have other signs
        cells = slice(0, len(grid))
        np.testing.assert_array_equal(
            np.signbit(wide[cells].imag)[fits[cells]], np.signbit(want[cells].imag)[fits[cells]]
        )


def test_large_and_small_numbers_do_not_overflow_on_the_way():
    z = np.array([1e300 + 1e300j, -1e300 + 1j, 3e-320 + 1e-310j, 1e-200j, 1 + 1e-200j, 700 - 800j])
    for name in ("sqrt", "log", "asin", "acos", "asinh", "acosh", "atan", "tanh", "abs"):
        np.testing.assert_allclose(computed(name, z), reference(name, z), rtol=1e-13, err_msg=name)
    near_the_pole = 100 * np.log(10) + 0.5 * np.log(2) + 0.25j * np.pi
    np.testing.assert_allclose(computed("atanh", z[4:5]), near_the_pole, rtol=1e-14)


def test_quotients_and_powers():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 200)) * np.exp(rng.normal(0, 5, (2, 200))) + 1j * rng.standard_normal((2, 200))
    out = np.empty_like(a)
    elementwise_kernel(lambda x, y: x / y, [np.complex128] * 2, np.complex128)(out, a, b)
    np.testing.assert_allclose(out, a / b, rtol=1e-14)
    a, b = np.array([0, 0, 2 + 1j, -1, 1e-3j, 0, 0]), np.array([0, 2 + 1j, 0, 0.5, 3, -1, 1j])
    out = np.empty(7, np.complex128)
    nan = complex(np.nan, np.nan)
    elementwise_kernel(lambda x, y: x**y, [np.complex128] * 2, np.complex128)(out, a, b.astype(np.complex128))
    np.testing.assert_allclose(out, [1, 0, 1, 1j, -1e-9j, nan, nan], atol=1e-15)
