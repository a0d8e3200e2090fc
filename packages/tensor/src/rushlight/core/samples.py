"""Test inputs of every op: those that its declaration states, or a default per kind."""

from __future__ import annotations

import numpy as np

from rushlight.core.op import Op, Sample

_WHOLE = frozenset({"integer", "integral"})


def samples_of(op: Op) -> list[Sample]:
    """The samples of an op. Elementwise ops that state none get arrays from their domain: equal shapes, broadcast,
    0-dim, empty.
    """
    stated = op.samples()
    if stated or op.kind != "elementwise":
        return stated
    count = len(op.operands)
    shapes = [
        ((3, 4),) * count,
        ((3, 4), *[((4,), (3, 1))[i % 2] for i in range(count - 1)]),
        ((),) * count,
        ((0, 3),) * count,
    ]
    return [Sample(tuple([elements(op, shape, seed=i) for i, shape in enumerate(some)])) for some in shapes]


def elements(op: Op, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Values of an operand of an elementwise op, inside its domain and away from its ends."""
    rng = np.random.default_rng([seed, *shape, len(op.name)])
    if op.promote == "where" and seed == 0:
        return np.asarray(rng.random(shape) < 0.5)
    if op.supports in _WHOLE:
        return np.asarray(rng.integers(1, 7, shape))
    low, high = op.domain or (-2.5, 2.5)
    low, high = max(low, -1e3), min(high, 1e3)
    inset = 0.05 * (high - low)
    values = rng.uniform(low + inset, high - inset, shape)
    if low < 0 < high:  # kinks lie at 0: finite differences across one say nothing
        values = np.where(np.abs(values) < 0.1, 0.3, values)
    return np.asarray(values, np.float32)
