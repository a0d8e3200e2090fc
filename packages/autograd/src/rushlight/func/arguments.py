"""The arguments that a transform differentiates by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.errors import shape_text
from rushlight.core.tensor import Tensor
from rushlight.func.tree import flatten

Argnums = int | tuple[int, ...]


def chosen(name: str, argnums: Argnums, args: tuple) -> tuple[list, Callable]:
    """The tensors of the chosen arguments, and the function that puts others in their places."""
    places = argnums if isinstance(argnums, tuple) else (argnums,)
    for i in places:
        if not -len(args) <= i < len(args):
            raise RuntimeError(f"{name}: argnums={argnums}, but only {len(args)} positional inputs were given")
    places = tuple([i % len(args) for i in places])
    tree = tuple([args[i] for i in places])
    values, build = flatten(tree)

    def filled_in(others: list) -> tuple[list, Any]:
        chosen = build(others)
        arguments = list(args)
        for i, value in zip(places, chosen):
            arguments[i] = value
        return arguments, chosen if isinstance(argnums, tuple) else chosen[0]

    return values, filled_in


def check_smooth(name: str, what: str, i: int, x: Any) -> None:
    """RuntimeError for what is no tensor, ValueError for a tensor of integers."""
    if not isinstance(x, Tensor):
        raise RuntimeError(f"{name}: expected a Tensor as {what} {i}, got {type(x).__name__}")
    if not x._meta.dtype.is_inexact:
        raise ValueError(f"{name}: expected {what} {i} to be floating point or complex, got {x.dtype}")


def check_direction(name: str, i: int, x: Any, t: Any) -> None:
    """The errors of `check_smooth` for a primal and its tangent, RuntimeError when their shapes differ."""
    check_smooth(name, "primal", i, x)
    check_smooth(name, "tangent", i, t)
    if x._meta.shape != t._meta.shape:
        raise RuntimeError(
            f"{name}: expected tangent {i} to have the shape of its primal, {shape_text(x.shape)}, got "
            f"{shape_text(t.shape)}"
        )


def check_tensors(name: str, outputs: list) -> None:
    """RuntimeError unless a function has returned nothing but tensors."""
    for y in outputs:
        if not isinstance(y, Tensor):
            raise RuntimeError(f"{name}: expected the function to return only tensors, got {type(y).__name__}")
