"""Causal masks for `scaled_dot_product_attention` where queries and keys differ in number."""

from __future__ import annotations

import rushlight
from rushlight import Tensor

__all__ = ["causal_lower_right", "causal_upper_left"]


def causal_upper_left(*size: int) -> Tensor:
    """The mask `(l, s)` with which query i sees the keys up to i.

    Example:
        >>> causal_upper_left(2, 3)
        tensor([[ True, False, False],
                [ True,  True, False]])
    """
    length, keys = _two(size)
    return rushlight.ones(length, keys, dtype=rushlight.bool).tril()


def causal_lower_right(*size: int) -> Tensor:
    """The mask `(l, s)` with which the last query sees all keys, and each one before it one less.

    Example:
        >>> causal_lower_right(2, 3)
        tensor([[ True,  True, False],
                [ True,  True,  True]])
    """
    length, keys = _two(size)
    return rushlight.ones(length, keys, dtype=rushlight.bool).tril(keys - length)


def _two(size: tuple[int, ...]) -> tuple[int, ...]:
    if len(size) != 2:
        raise RuntimeError(f"causal masks have two sizes, of queries and of keys, got {size}")
    return size
