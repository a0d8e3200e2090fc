"""Poisson numbers."""

from __future__ import annotations

import numpy as np

from rushlight.core.declare import structured
from rushlight.core.front import function
from rushlight.core.generator import Generator, default_generator
from rushlight.core.meta import Meta, meta
from rushlight.core.op import Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu.rejection import COUNTERS, ROUNDS, Rounds, in_blocks


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

@kernel(poisson_op, "cpu")
def _poisson(rates: np.ndarray, seed: int, offset: int) -> np.ndarray:
    flat, result = rates.reshape(-1), np.empty(rates.size, rates.dtype)

    def draw(rounds: Rounds, place: slice) -> np.ndarray:
        rate = flat[place].astype(np.float64)
        if (rate < 0).any():
            raise RuntimeError("poisson: invalid Poisson rate, expected rate to be non-negative")
        drawn = np.zeros(rate.size)
        _by_product(drawn, rate, np.flatnonzero(rate < 10), rounds)
        _by_rejection(drawn, rate, np.flatnonzero(rate >= 10), rounds)
        return drawn

    in_blocks(seed, offset, result, draw)
    return result.reshape(rates.shape)


def _by_product(result: np.ndarray, rate: np.ndarray, left: np.ndarray, rounds: Rounds) -> None:
    """How many uniform factors keep a product above exp(-rate) (Knuth)."""
    product, limit = np.ones(rate.size), np.exp(-rate)
    for turn in range(ROUNDS):
        if not left.size:
            return
        for column in rounds.uniforms(turn, left):
            alive = product[left] * column > limit[left]
            product[left] *= column
            result[left[alive & (product[left] > limit[left])]] += 1
        left = left[product[left] > limit[left]]


def _by_rejection(result: np.ndarray, rate: np.ndarray, left: np.ndarray, rounds: Rounds) -> None:
    """Transformed rejection with squeeze.

    Source: W. Hormann, "The transformed rejection method for generating Poisson random variables", 1993, algorithm
    PTRS.
    """
    from scipy.special import gammaln

    for turn in range(ROUNDS):
        if not left.size:
            return
        mu = rate[left]
        b = 0.931 + 2.53 * np.sqrt(mu)
        a = -0.059 + 0.02483 * b
        u, v = rounds.uniforms(ROUNDS + turn, left)
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
    seed_offset = (generator or default_generator).take(max(input.numel(), 1) * COUNTERS)
    return poisson_op.apply((input, *seed_offset))
