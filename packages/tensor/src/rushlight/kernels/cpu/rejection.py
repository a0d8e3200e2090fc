"""Draws that try again until they accept: blocks of elements, each with counters of its own for every round."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rushlight.kernels.cpu import philox, pool

ROUNDS = 1 << 10  # per way of drawing; the chance that one is not enough is below that of a fault of the machine
COUNTERS = 1 << 32  # that a draw takes for each of its elements
_STREAM = 1 << 20  # counters between the rounds, so that rounds never share one
_BLOCK = 1 << 12  # elements at a time: what their rounds take stays in the cache


class Rounds:
    """The uniform numbers of one block of elements."""

    def __init__(self, seed: int, offset: int, start: int, total: int) -> None:
        self.seed, self.offset, self.total = seed, offset + start, total

    def uniforms(self, turn: int, places: np.ndarray) -> np.ndarray:
        """Two numbers in (0, 1) for each place, in two rows, the same whichever other places are asked for."""
        first = self.offset + turn * _STREAM * self.total  # an element takes one counter of a round
        count = int(places[-1]) + 1
        words = philox.generate(self.seed, first, 2 * count, np.dtype(np.float64), 2, philox.uniform64)
        return words.reshape(count, 2)[places].T + 2.0**-54


def in_blocks(seed: int, offset: int, result: np.ndarray, draw: Callable[[Rounds, slice], np.ndarray]) -> None:
    """Fill a one-dimensional array with `draw(rounds, place)` for the places of its blocks, on all threads."""

    def blocks(low: int, high: int) -> None:
        for start in range(low * _BLOCK, min(high * _BLOCK, result.size), _BLOCK):
            place = slice(start, start + _BLOCK)
            result[place] = draw(Rounds(seed, offset, start, result.size), place)

    pool.parallel_for(blocks, -(-result.size // _BLOCK), 1)
