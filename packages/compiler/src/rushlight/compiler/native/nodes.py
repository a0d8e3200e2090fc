"""The records of native nodes: see `node_code`. Only programs with gradients import this."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from rushlight.compiler.native.programs import ready as ready

__all__ = ["builtin", "ready"]


def builtin(node: Any, edges: int, saved: int, inputs: int) -> Callable:
    """`leave(*tensors)` for nodes of a class: so many with an edge, so many saved, so many only read again."""
    # Machine code: it needs llvmlite.
    from rushlight.autograd.tape_native import tape_table
    from rushlight.core import records

    slots = [records.slot(_owner(node, name), name) for name in ("saved", "versions", "inputs", "input_versions")]
    return _code().function(0, _never, (tape_table().ctypes.data, edges, saved, inputs, *slots), node)


def _owner(node: type, name: str) -> type:
    return next(cls for cls in node.__mro__ if name in vars(cls))


def _never(*tensors: Any) -> None:
    raise AssertionError("a node that Python is asked for")


@cache
def _code() -> Any:
    # Machine code: it needs llvmlite.
    from rushlight.compiler.native import node_code
    from rushlight.core import records

    records.fill_table()
    return records.Code(node_code.answer)
