"""The table of rows: how each op is written in ONNX operators.

A row is a function `(o, *operands, **params)`: `o` is a `Builder`, operands are `Ref`s, Python numbers or None, and it
returns the `Ref` of the result, or a tuple of them. An elementwise op without a row follows from its scalar definition
(`rushlight.onnx.scalars`), an op with a decomposition from that. `refuse` states why an op has no row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.op import REGISTRY, Op
from rushlight.onnx.errors import UnsupportedOperatorError

Row = Callable[..., Any]

ROWS: dict[Op, Row] = {}
REASONS: dict[Op, str] = {}
PAIRS: dict[Op, Row] = {}  # of calls with complex operands or results


def row(*names: str) -> Callable[[Row], Row]:
    """Enter the decorated function as the row of ops."""

    def add(function: Row) -> Row:
        for name in names:
            op = REGISTRY[name]
            if op in ROWS or op in REASONS:
                raise ValueError(f"op {name!r} has two rows")
            ROWS[op] = function
        return function

    return add


def pair_row(*names: str) -> Callable[[Row], Row]:
    """Enter the decorated function as the row of ops for calls with complex numbers, see `complex_numbers`."""

    def add(function: Row) -> Row:
        for name in names:
            PAIRS[REGISTRY[name]] = function
        return function

    return add


def refuse(reason: str, *names: str) -> None:
    """State why ops have no row."""
    for name in names:
        op = REGISTRY[name]
        if op in ROWS or op in REASONS:
            raise ValueError(f"op {name!r} has two rows")
        REASONS[op] = reason


class Refused(UnsupportedOperatorError):
    """Raised by a row for a call that it cannot write; says why."""
