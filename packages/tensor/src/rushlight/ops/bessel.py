"""Bessel and Airy functions. All but `i0` stand in `rushlight.special`."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.core import scalar_bessel
from rushlight.core.declare import elementwise
from rushlight.ops.gamma import from_scipy


def _declare(
    name: str, scipy_name: str, definition: Any, doc: str, domain: tuple[float, float] = (-30.0, 30.0), **options: Any
) -> Any:
    def scalar(input):
        return definition(input)

    scalar.__name__, scalar.__doc__ = name, doc
    options = {"namespace": "special", "method": False} | options
    return elementwise(promote="float", supports="float", numpy=from_scipy(scipy_name), domain=domain, **options)(
        scalar
    )


i0 = _declare(
    "i0", "i0", scalar_bessel.i0, "Modified Bessel function of the first kind and order 0.", namespace="", method=True
)
i0e = _declare("i0e", "i0e", scalar_bessel.i0e, "`exp(-abs(input)) * i0(input)`.")
i1 = _declare("i1", "i1", scalar_bessel.i1, "Modified Bessel function of the first kind and order 1.")
i1e = _declare("i1e", "i1e", scalar_bessel.i1e, "`exp(-abs(input)) * i1(input)`.")
k0 = _declare(
    "modified_bessel_k0",
    "k0",
    scalar_bessel.modified_k0,
    "Modified Bessel function of the second kind and order 0.",
    (0.0, 30.0),
)
k1 = _declare(
    "modified_bessel_k1",
    "k1",
    scalar_bessel.modified_k1,
    "Modified Bessel function of the second kind and order 1.",
    (0.0, 30.0),
)
k0e = _declare(
    "scaled_modified_bessel_k0", "k0e", scalar_bessel.k0e, "`exp(input) * modified_bessel_k0(input)`.", (0.0, 30.0)
)
k1e = _declare(
    "scaled_modified_bessel_k1", "k1e", scalar_bessel.k1e, "`exp(input) * modified_bessel_k1(input)`.", (0.0, 30.0)
)
j0 = _declare("bessel_j0", "j0", scalar_bessel.j0, "Bessel function of the first kind and order 0.")
j1 = _declare("bessel_j1", "j1", scalar_bessel.j1, "Bessel function of the first kind and order 1.")
y0 = _declare("bessel_y0", "y0", scalar_bessel.y0, "Bessel function of the second kind and order 0.", (0.0, 30.0))
y1 = _declare("bessel_y1", "y1", scalar_bessel.y1, "Bessel function of the second kind and order 1.", (0.0, 30.0))


def _airy(x: Any) -> Any:
    # scipy gives up far out, where the leading term of the asymptotic series is exact enough.
    size = np.maximum(-x, 1.0).astype(np.float64)
    wave = np.cos(size * np.sqrt(size) * (2 / 3) - np.pi / 4) / (np.sqrt(np.pi) * np.sqrt(np.sqrt(size)))
    return np.where(np.isinf(x) | (x > 1e5), 0.0, np.where(x < -1e5, wave, from_scipy("airy")(x)[0]))


@elementwise(promote="float", supports="float", numpy=_airy, namespace="special", method=False)
def airy_ai(input):
    """Airy's function Ai, a solution of `y'' = input * y`."""
    return scalar_bessel.airy_ai(input)


@elementwise(promote="float", supports="float", namespace="special", method=False)
def spherical_bessel_j0(input):
    """Spherical Bessel function of the first kind and order 0: `sin(input) / input`, 1 at 0."""
    small = s.abs(input) < 0.5  # there the quotient of two rounded numbers would be less accurate than the series
    square = input * input
    series = 1 - square / 6 * (
        1 - square / 20 * (1 - square / 42 * (1 - square / 72 * (1 - square / 110 * (1 - square / 156))))
    )
    quotient = s.sin(input) / s.select(small, s.constant(1.0, input), input)
    return s.select(small, series, s.select(s.isinf(input), s.constant(0.0, input), quotient))
