"""Nested tuples, lists and dicts of values, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.tensor import Tensor

Build = Callable[[list], Any]


def flatten(tree: Any) -> tuple[list, Build]:
    """The values at the ends of a nested structure, and the function that puts others in their places.

    Example:
        >>> from rushlight.func.tree import flatten
        >>> values, build = flatten({"a": 1, "b": (2, 3)})
        >>> values, build([10, 20, 30])
        ([1, 2, 3], {'a': 10, 'b': (20, 30)})
    """
    values: list = []
    build = _take_apart(tree, values)
    return values, lambda others: build(iter(others))


def _take_apart(tree: Any, values: list) -> Callable:
    if isinstance(tree, dict):
        parts = [(key, _take_apart(value, values)) for key, value in tree.items()]
        kind = type(tree)
        return lambda source: kind([(key, part(source)) for key, part in parts])
    if isinstance(tree, (tuple, list)) and not isinstance(tree, Tensor):
        parts = [_take_apart(value, values) for value in tree]
        kind = type(tree)
        if hasattr(tree, "_fields"):
            return lambda source: kind(*[part(source) for part in parts])
        return lambda source: kind([part(source) for part in parts])
    values.append(tree)
    return next


def spread(name: str, prefix: Any, tree: Any) -> list:
    """One value of `prefix` per value of `tree`: `prefix` may name a whole part of the structure by one value.

    Raises ValueError when the structures do not fit.
    """
    if isinstance(tree, (tuple, list)) and isinstance(prefix, (tuple, list)):
        if len(prefix) != len(tree):
            raise ValueError(f"{name}: expected {len(tree)} entries, got {len(prefix)}")
        return [one for p, t in zip(prefix, tree) for one in spread(name, p, t)]
    if isinstance(tree, dict) and isinstance(prefix, dict):
        if prefix.keys() != tree.keys():
            raise ValueError(f"{name}: expected the keys {list(tree)}, got {list(prefix)}")
        return [one for key in tree for one in spread(name, prefix[key], tree[key])]
    if isinstance(prefix, (tuple, list, dict)):
        raise ValueError(f"{name}: {prefix!r} does not fit a {type(tree).__name__}")
    return [prefix] * len(flatten(tree)[0])
