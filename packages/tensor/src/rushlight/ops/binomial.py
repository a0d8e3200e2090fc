"""Binomial numbers."""

from __future__ import annotations

import numpy as np

from rushlight.core.declare import broadcast_shapes_of, structured
from rushlight.core.front import function
from rushlight.core.generator import Generator, default_generator
from rushlight.core.meta import Meta, meta
from rushlight.core.op import Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu.rejection import COUNTERS, ROUNDS, Rounds, in_blocks
from rushlight.ops.view import broadcast_shapes


def _infer_binomial(count: Meta, prob: Meta, seed: Meta, offset: Meta) -> Meta:
    if not count.dtype.is_floating_point:
        raise ValueError(f"binomial: expected a floating point tensor of counts, got {count.dtype.name}")
    if prob.dtype is not count.dtype:
        raise RuntimeError(f"binomial: expected prob to be {count.dtype.name} as count is, got {prob.dtype.name}")
    return meta(count.dtype, broadcast_shapes_of("binomial", (count, prob)), None, count.device)


binomial_op = structured(
    "binomial",
    _infer_binomial,
    random=True,
    doc="How many of `count` trials succeed, each with the chance `prob`.",
    samples=lambda: [Sample((np.array([0, 3, 200], np.float32), np.array([[0.1], [0.7]], np.float32), 1, 0))],
)


@kernel(binomial_op, "cpu")
def _binomial(count: np.ndarray, prob: np.ndarray, seed: int, offset: int) -> np.ndarray:
    shape = np.broadcast_shapes(count.shape, prob.shape)
    counts, probs = np.broadcast_to(count, shape).flat, np.broadcast_to(prob, shape).flat
    result = np.empty(len(counts), count.dtype)

    def draw(rounds: Rounds, place: slice) -> np.ndarray:
        n, p = counts[place].astype(np.float64), probs[place].astype(np.float64)
        rare = np.minimum(p, 1 - p)  # of successes or failures, what is drawn
        drawn = np.where(np.isnan(n + p), np.nan, 0.0)
        possible = (n > 0) & (rare > 0)
        few = n * rare < 10
        _by_gaps(drawn, n, rare, np.flatnonzero(possible & few), rounds)
        _by_rejection(drawn, n, rare, np.flatnonzero(possible & ~few), rounds)
        return np.where(p > 0.5, np.maximum(n, 0) - drawn, drawn)

    in_blocks(seed, offset, result, draw)
    return result.reshape(shape)


def _by_gaps(result: np.ndarray, n: np.ndarray, p: np.ndarray, left: np.ndarray, rounds: Rounds) -> None:
    """How many geometric gaps between successes fit into the trials (Devroye 1986)."""
    at = np.zeros(n.size)
    for turn in range(ROUNDS):
        if not left.size:
            return
        for column in rounds.uniforms(turn, left):
            at[left] += np.floor(np.log(column) / np.log1p(-p[left])) + 1
            result[left] += at[left] <= n[left]
        left = left[at[left] <= n[left]]


def _by_rejection(result: np.ndarray, n: np.ndarray, p: np.ndarray, left: np.ndarray, rounds: Rounds) -> None:
    """Transformed rejection with squeeze, for p up to a half and n p from 10 on.

    Source: W. Hormann, "The generation of binomial random variates", 1993, algorithm BTRS.
    """
    for turn in range(ROUNDS):
        if not left.size:
            return
        trials, chance = n[left], p[left]
        spread = np.sqrt(trials * chance * (1 - chance))
        b = 1.15 + 2.53 * spread
        a = -0.0873 + 0.0248 * b + 0.01 * chance
        u, v = rounds.uniforms(ROUNDS + turn, left)
        u = u - 0.5
        us = 0.5 - np.abs(u)
        k = np.floor((2 * a / us + b) * u + trials * chance + 0.5)
        quick = (us >= 0.07) & (v <= 0.92 - 4.2 / b)
        with np.errstate(all="ignore"):
            exact = np.log(v * (2.83 + 5.1 / b) * spread / (a / (us * us) + b)) <= _log_ratio(k, trials, chance)
        taken = quick | ((k >= 0) & (k <= trials) & exact)
        result[left[taken]] = k[taken]
        left = left[~taken]


def _log_ratio(k: np.ndarray, n: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The logarithm of k's probability over that of the mode.

    Factorials by Stirling's formula, whose large terms are subtracted by hand: log n! itself has no digits left for
    the difference from n = 1e14 on.
    """
    mode = np.floor((n + 1) * p)
    away = k - mode
    return (
        away * np.log(p / (1 - p) * (n - k + 1) / (k + 1))
        - (mode + 0.5) * np.log1p(away / (mode + 1))
        - (n - mode + 0.5) * np.log1p(-away / (n - mode + 1))
        + (_tail(mode) + _tail(n - mode) - _tail(k) - _tail(n - k))
    )


def _tail(x: np.ndarray) -> np.ndarray:
    """What log x! has beyond (x + 1/2) log(x + 1) - (x + 1) + log(2 pi) / 2."""
    from scipy.special import gammaln

    y = x + 1
    series = (1 / 12 - (1 / 360 - 1 / 1260 / (y * y)) / (y * y)) / y
    return np.where(y < 16, gammaln(y) - (x + 0.5) * np.log(y) + y - 0.5 * np.log(2 * np.pi), series)


@function(method=False, out=False)
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Numbers from binomial distributions: how many of `count` trials succeed, each with the chance `prob`.

    Counts and chances broadcast; a NaN among them gives NaN. Raises ValueError for counts that are not of a floating
    point dtype, RuntimeError for chances of another one.

    Example:
        >>> import rushlight
        >>> rushlight.binomial(rushlight.tensor([3., 5.]), rushlight.tensor([0., 1.]))
        tensor([0., 5.])
    """
    elements = broadcast_shapes(count.shape, prob.shape).numel()
    seed_offset = (generator or default_generator).take(max(elements, 1) * COUNTERS)
    return binomial_op.apply((count, prob, *seed_offset))
