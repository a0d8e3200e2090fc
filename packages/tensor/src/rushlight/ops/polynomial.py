"""Orthogonal polynomials of `rushlight.special`, by their three-term recurrences (NIST DLMF 18.9)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core.declare import elementwise
from rushlight.core.scalar import opaque


@opaque
def chebyshev(x, n, first):
    """Chebyshev polynomials: 1, `first`, then p[k] = 2 x p[k-1] - p[k-2]. The kinds differ in the first one only."""
    before, here = 1.0, first
    if not 1.0 <= n < math.inf:
        return 1.0 if -1.0 < n < 1.0 else 0.0
    k = 2.0
    while k <= n:
        before, here = here, 2.0 * x * here - before
        k += 1.0
    return here


@opaque
def hermite(x, n, scale):
    """Hermite polynomials: physicists' for scale 2, probabilists' for scale 1."""
    before, here = 1.0, scale * x
    if not 1.0 <= n < math.inf:
        return 1.0 if -1.0 < n < 1.0 else 0.0
    k = 2.0
    while k <= n:
        before, here = here, scale * (x * here - (k - 1.0) * before)
        k += 1.0
    return here


@opaque
def laguerre(x, n):
    """Laguerre polynomials."""
    before, here = 1.0, 1.0 - x
    if not 1.0 <= n < math.inf:
        return 1.0 if -1.0 < n < 1.0 else 0.0
    k = 2.0
    while k <= n:
        before, here = here, ((2.0 * k - 1.0 - x) * here - (k - 1.0) * before) / k
        k += 1.0
    return here


@opaque
def legendre(x, n):
    """Legendre polynomials."""
    before, here = 1.0, x
    if not 1.0 <= n < math.inf:
        return 1.0 if -1.0 < n < 1.0 else 0.0
    k = 2.0
    while k <= n:
        before, here = here, ((2.0 * k - 1.0) * x * here - (k - 1.0) * before) / k
        k += 1.0
    return here


def _vectorised(first: Callable, step: Callable) -> Callable:
    """The recurrence on whole arrays, up to the largest degree among them."""

    def evaluate(x: Any, n: Any) -> Any:
        kind = np.result_type(x, n)
        x, n = np.broadcast_arrays(np.asarray(x, np.float64), np.trunc(np.asarray(n, np.float64)))
        before, here = np.ones(x.shape), first(x)
        n = np.where(np.isfinite(n), n, -1)
        result = np.where(n == 0, 1.0, np.where(n >= 1, here, 0.0))
        for k in range(2, int(np.max(n, initial=0)) + 1):
            before, here = here, step(x, k, here, before)
            result = np.where(n == k, here, result)
        return result.astype(kind)

    return evaluate


def _declare(name: str, definition: Callable, vectorised: Callable, doc: str) -> Callable:
    def scalar(input, n):
        return definition(input, n)

    scalar.__name__, scalar.__doc__ = (
        name,
        f"{doc} of degree `n`, which is rounded towards zero; 0 for a negative or infinite degree.",
    )
    return elementwise(
        promote="float",
        supports="float",
        numpy=vectorised,
        namespace="special",
        method=False,
        tensors=(),
        domain=(0.0, 4.0),
    )(scalar)


def _chebyshev(letter: str, kind: str, first: Callable) -> None:
    def step(x: Any, k: int, here: Any, before: Any) -> Any:
        return 2 * x * here - before

    plain, shifted = f"chebyshev_polynomial_{letter}", f"shifted_chebyshev_polynomial_{letter}"
    _declare(
        plain,
        lambda x, n: chebyshev(x, n, first(x)),
        _vectorised(first, step),
        f"Chebyshev polynomial of the {kind} kind",
    )
    vectorised = _vectorised(first, step)
    _declare(
        shifted,
        lambda x, n: chebyshev(2 * x - 1, n, first(2 * x - 1)),
        lambda x, n: vectorised(2 * x - 1, n),
        f"Chebyshev polynomial of the {kind} kind at `2 * input - 1`",
    )


_chebyshev("t", "first", lambda x: x)
_chebyshev("u", "second", lambda x: 2 * x)
_chebyshev("v", "third", lambda x: 2 * x - 1)
_chebyshev("w", "fourth", lambda x: 2 * x + 1)
_declare(
    "hermite_polynomial_h",
    lambda x, n: hermite(x, n, 0 * x + 2),
    _vectorised(lambda x: 2 * x, lambda x, k, here, before: 2 * (x * here - (k - 1) * before)),
    "Physicists' Hermite polynomial",
)
_declare(
    "hermite_polynomial_he",
    lambda x, n: hermite(x, n, 0 * x + 1),
    _vectorised(lambda x: x, lambda x, k, here, before: x * here - (k - 1) * before),
    "Probabilists' Hermite polynomial",
)
_declare(
    "laguerre_polynomial_l",
    laguerre,
    _vectorised(lambda x: 1 - x, lambda x, k, here, before: ((2 * k - 1 - x) * here - (k - 1) * before) / k),
    "Laguerre polynomial",
)
_declare(
    "legendre_polynomial_p",
    legendre,
    _vectorised(lambda x: x, lambda x, k, here, before: ((2 * k - 1) * x * here - (k - 1) * before) / k),
    "Legendre polynomial",
)
