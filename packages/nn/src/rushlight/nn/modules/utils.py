"""Sizes per dimension from one number: what custom layers import from here."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple]:
    """A function that makes an `n`-tuple of a value, or a tuple of an iterable."""

    def parse(x: Any) -> tuple:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Sequence, n: int) -> tuple:
    """Each element `n` times, the last element first: padding in the order of `F.pad`."""
    return tuple(x for x in reversed(t) for _ in range(n))


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix such as `module.` off the names of a state, in place.

    Example:
        >>> state = {"module.weight": 1, "bias": 2}
        >>> consume_prefix_in_state_dict_if_present(state, "module.")
        >>> state
        {'bias': 2, 'weight': 1}
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", {})
    for key in [key for key in metadata if key.startswith(prefix) or key == prefix[:-1]]:
        if key:
            metadata[key.removeprefix(prefix) if key.startswith(prefix) else ""] = metadata.pop(key)


def position(index: Any, length: int) -> int:
    """An index counted from the front; IndexError when out of range."""
    at = operator.index(index)
    if not -length <= at < length:
        raise IndexError(f"index {at} is out of range for {length} entries")
    return at % length
