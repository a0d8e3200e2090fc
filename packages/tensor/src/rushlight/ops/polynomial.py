"""Orthogonal polynomials of `rushlight.special`, by their three-term recurrences (NIST DLMF 18.9).

A recurrence ends where it has become NaN. Those of Chebyshev have a closed form inside of [-1, 1]; Legendre's and
Laguerre's take as many steps as the degree says, 3 ns each, as in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core.declare import elementwise
from rushlight.core.scalar import opaque


@opaque
def chebyshev(x, n, first):
    """Chebyshev polynomials: 1, `first`, then p[k] = 2 x p[k-1] - p[k-2]. The kinds differ in the first one only.

    For x = cos(t), p[k] = cos(k t) + (first - x) / sin(t) * sin(k t).
    """
    before, here = 1.0, first
    if not 1.0 <= n < math.inf:
        return 1.0 if -1.0 < n < 1.0 else 0.0
    if n > 30.0 and abs(x) <= 1.0:
        degree = n - n % 1.0
        angle = degree * math.acos(abs(x))  # exact near 1; a negative x is mirrored
        sine = math.sqrt((1.0 - x) * (1.0 + x))
        wave = math.sin(angle) / sine if sine > 0.0 else degree
        value = math.cos(angle) + (first - x) * (wave if x > 0.0 else -wave)
        return -value if x < 0.0 and degree % 2.0 == 1.0 else value
    k = 2.0
    while k <= n and here == here:
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
    while k <= n and here == here:
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
    while k <= n and here == here:
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
    while k <= n and here == here:
        before, here = here, ((2.0 * k - 1.0) * x * here - (k - 1.0) * before) / k
        k += 1.0
    return here


_FEW = 64  # degrees up to which steps on whole arrays, of 10 us each, are quicker than a compiler


def _vectorised(definition: Callable, first: Callable, step: Callable) -> Callable:
    """The recurrence on whole arrays, up to the largest degree among them; beyond few degrees the compiled one."""

    def evaluate(x: Any, n: Any) -> Any:
        kind = np.result_type(x, n)
        x, n = np.broadcast_arrays(np.asarray(x, np.float64), np.trunc(np.asarray(n, np.float64)))
        n = np.where(np.isfinite(n), n, -1)
        if np.max(n, initial=0) > _FEW:
            # Brings in the code generator: only where it is needed.
            from rushlight.kernels.cpu.elementwise import elementwise_kernel

            result = np.empty(x.shape)
            elementwise_kernel(definition, [np.float64, np.float64], np.float64)(result, x, n)
            return result.astype(kind)
        before, here = np.ones(x.shape), first(x)
        result = np.where(n == 0, 1.0, np.where(n >= 1, here, 0.0))
        for k in range(2, int(np.max(n, initial=0)) + 1):
            before, here = here, step(x, k, here, before)
            result = np.where(n == k, here, result)
        return result.astype(kind)

    return evaluate


def _declare(name: str, definition: Callable, first: Callable, step: Callable, doc: str, shift: bool = False) -> None:
    """Declare a polynomial by its definition, and by the parts of its recurrence for arrays; a shifted one is taken at
    2 x - 1.
    """

    def scalar(input, n):
        return definition(2 * input - 1 if shift else input, n)

    vectorised = _vectorised(definition, first, step)
    scalar.__name__ = f"shifted_{name}" if shift else name
    scalar.__doc__ = (
        f"{doc}{' at `2 * input - 1`' if shift else ''} of degree `n`, which is rounded towards zero; 0 for a negative "
        "or infinite degree."
    )
    elementwise(
        promote="float",
        supports="float",
        numpy=(lambda x, n: vectorised(2 * x - 1, n)) if shift else vectorised,
        namespace="special",
        method=False,
        tensors=(),
        domain=(0.0, 4.0),
    )(scalar)


def _chebyshev(letter: str, kind: str, first: Callable) -> None:
    for shift in (False, True):
        _declare(
            f"chebyshev_polynomial_{letter}",
            lambda x, n: chebyshev(x, n, first(x)),
            first,
            lambda x, k, here, before: 2 * x * here - before,
            f"Chebyshev polynomial of the {kind} kind",
            shift,
        )


_chebyshev("t", "first", lambda x: x)
_chebyshev("u", "second", lambda x: 2 * x)
_chebyshev("v", "third", lambda x: 2 * x - 1)
_chebyshev("w", "fourth", lambda x: 2 * x + 1)
_declare(
    "hermite_polynomial_h",
    lambda x, n: hermite(x, n, 0 * x + 2),
    lambda x: 2 * x,
    lambda x, k, here, before: 2 * (x * here - (k - 1) * before),
    "Physicists' Hermite polynomial",
)
_declare(
    "hermite_polynomial_he",
    lambda x, n: hermite(x, n, 0 * x + 1),
    lambda x: x,
    lambda x, k, here, before: x * here - (k - 1) * before,
    "Probabilists' Hermite polynomial",
)
_declare(
    "laguerre_polynomial_l",
    laguerre,
    lambda x: 1 - x,
    lambda x, k, here, before: ((2 * k - 1 - x) * here - (k - 1) * before) / k,
    "Laguerre polynomial",
)
_declare(
    "legendre_polynomial_p",
    legendre,
    lambda x: x,
    lambda x, k, here, before: ((2 * k - 1) * x * here - (k - 1) * before) / k,
    "Legendre polynomial",
)
