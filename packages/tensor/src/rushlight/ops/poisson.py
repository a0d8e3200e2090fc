"""Poisson numbers."""

from __future__ import annotations

import numpy as np

from rushlight.core.declare import structured
from rushlight.core.front import function
from rushlight.core.generator import Generator, default_generator
from rushlight.core.meta import Meta, meta
from rushlight.core.op import Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import philox


def _infer_poisson(input: Meta, seed: Meta, offset: Meta) -> Meta:
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"poisson: expected a floating point tensor of rates, got {input.dtype.name}")
    return meta(input.dtype, input.shape, None, input.device)


poisson_op = structured(
    "poisson",
    _infer_poisson,
    random=True,
    doc="Poisson numbers with the rates of an operand.",
    samples=lambda: [Sample((np.array([0.5, 4, 30], np.float32), 1, 0))],
)

_STREAM = 1 << 20  # counters between the rounds of rejection, so that rounds never share one


@kernel(poisson_op, "cpu")
def _poisson(rates: np.ndarray, seed: int, offset: int) -> np.ndarray:
    rate = rates.astype(np.float64).reshape(-1)
    if (rate < 0).any():
        raise RuntimeError("poisson: invalid Poisson rate, expected rate to be non-negative")
    result = np.zeros(rate.size)
    small = np.flatnonzero(rate < 10)
    _poisson_by_product(result, rate, small, seed, offset)
    _poisson_by_rejection(result, rate, np.flatnonzero(rate >= 10), seed, offset)
    return result.reshape(rates.shape).astype(rates.dtype)


def _uniforms(seed: int, offset: int, places: np.ndarray, n: int) -> np.ndarray:
    """Two uniform numbers in (0, 1) for each place of n, the same whichever other places are asked for."""
    words = philox.generate(seed, offset, 2 * n, np.dtype(np.float64), 2, philox.uniform64)
    return words.reshape(n, 2)[places] + 2.0**-54


def _poisson_by_product(result: np.ndarray, rate: np.ndarray, left: np.ndarray, seed: int, offset: int) -> None:
    """How many uniform factors keep a product above exp(-rate) (Knuth)."""
    product, limit = np.ones(rate.size), np.exp(-rate)
    for turn in range(1 << 10):
        if not left.size:
            return
        for column in _uniforms(seed, offset + turn * _STREAM * rate.size, left, rate.size).T:
            alive = product[left] * column > limit[left]
            product[left] *= column
            result[left[alive & (product[left] > limit[left])]] += 1
        left = left[product[left] > limit[left]]


def _poisson_by_rejection(result: np.ndarray, rate: np.ndarray, left: np.ndarray, seed: int, offset: int) -> None:
    """Transformed rejection with squeeze.

    Source: W. Hormann, "The transformed rejection method for generating Poisson random variables", 1993, algorithm
    PTRS.
    """
    from scipy.special import gammaln

    for turn in range(1 << 10):
        if not left.size:
            return
        mu = rate[left]
        b = 0.931 + 2.53 * np.sqrt(mu)
        a = -0.059 + 0.02483 * b
        u, v = _uniforms(seed, offset + (turn << 10 | 1) * _STREAM * rate.size, left, rate.size).T
        u = u - 0.5
        us = 0.5 - np.abs(u)
        k = np.floor((2 * a / us + b) * u + mu + 0.43)
        inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
        quick = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
        refused = (k < 0) | ((us < 0.013) & (v > us))
        with np.errstate(all="ignore"):
            exact = np.log(v * inverse_alpha / (a / (us * us) + b)) <= k * np.log(mu) - mu - gammaln(k + 1)
        taken = quick | (~refused & exact)
        result[left[taken]] = k[taken]
        left = left[~taken]


@function(out=False)
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Numbers from Poisson distributions whose rates are the elements of `input`.

    Raises RuntimeError for negative rates.
    """
    seed_offset = (generator or default_generator).take(max(input.numel(), 1) << 32)
    return poisson_op.apply((input, *seed_offset))
