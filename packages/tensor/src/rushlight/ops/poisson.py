"""Poisson numbers."""

from __future__ import annotations

import numpy as np

from rushlight.core.declare import structured
from rushlight.core.front import function
from rushlight.core.generator import Generator, default_generator
from rushlight.core.meta import Meta, meta
from rushlight.core.op import Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import philox, pool


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
_BLOCK = 1 << 12  # elements at a time: what their rounds take stays in the cache


@kernel(poisson_op, "cpu")
def _poisson(rates: np.ndarray, seed: int, offset: int) -> np.ndarray:
    flat, result = rates.reshape(-1), np.empty(rates.size, rates.dtype)

    def blocks(low: int, high: int) -> None:
        for at in range(low * _BLOCK, min(high * _BLOCK, flat.size), _BLOCK):
            rate = flat[at : at + _BLOCK].astype(np.float64)
            if (rate < 0).any():
                raise RuntimeError("poisson: invalid Poisson rate, expected rate to be non-negative")
            drawn = np.zeros(rate.size)
            # An element takes one counter of a round.
            step = _STREAM * flat.size
            _poisson_by_product(drawn, rate, np.flatnonzero(rate < 10), seed, offset + at, step)
            _poisson_by_rejection(drawn, rate, np.flatnonzero(rate >= 10), seed, offset + at, step)
            result[at : at + _BLOCK] = drawn

    pool.parallel_for(blocks, -(-flat.size // _BLOCK), 1)
    return result.reshape(rates.shape)


def _uniforms(seed: int, offset: int, places: np.ndarray, n: int) -> np.ndarray:
    """Two uniform numbers in (0, 1) for each place of n, the same whichever other places are asked for."""
    words = philox.generate(seed, offset, 2 * n, np.dtype(np.float64), 2, philox.uniform64)
    return words.reshape(n, 2)[places] + 2.0**-54


def _poisson_by_product(
    result: np.ndarray, rate: np.ndarray, left: np.ndarray, seed: int, offset: int, step: int
) -> None:
    """How many uniform factors keep a product above exp(-rate) (Knuth)."""
    product, limit = np.ones(rate.size), np.exp(-rate)
    for turn in range(1 << 10):
        if not left.size:
            return
        for column in _uniforms(seed, offset + turn * step, left, rate.size).T:
            alive = product[left] * column > limit[left]
            product[left] *= column
            result[left[alive & (product[left] > limit[left])]] += 1
        left = left[product[left] > limit[left]]


def _poisson_by_rejection(
    result: np.ndarray, rate: np.ndarray, left: np.ndarray, seed: int, offset: int, step: int
) -> None:
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
        u, v = _uniforms(seed, offset + (turn << 10 | 1) * step, left, rate.size).T
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
