"""Where in the program each operation of a captured graph comes from, for messages."""

from __future__ import annotations

import dis
from collections.abc import Sequence
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary

import rushlight
from rushlight.compiler.graph.ir import Graph, Node
from rushlight.core.meta import Meta
from rushlight.core.op import Op

_places: WeakKeyDictionary[Node, tuple[CodeType, int]] = WeakKeyDictionary()


class PlacedGraph(Graph):
    """A graph that notes for each node where the interpreted frames stand; those of the framework do not count."""

    def __init__(self, frames: Sequence[Any]) -> None:
        super().__init__()
        self.frames = frames

    def call(self, op: Op, operands: tuple, params: tuple = (), metas: Meta | tuple[Meta, ...] | None = None) -> Any:
        """Append an op call."""
        made = super().call(op, operands, params, metas)
        own = tuple(rushlight.__path__)
        frame = next((f for f in reversed(self.frames) if not f.code.co_filename.startswith(own)), None)
        if frame is not None:
            _places[self.nodes[-1]] = frame.code, frame.instruction.offset
        return made

    def moved(self, node: Node, to: Node) -> None:
        """A node of another graph stands for one of this."""
        if node in _places:
            _places[to] = _places[node]


def place_of(node: Node) -> str | None:
    """File, line and function of the program that made a node; None when it is not known."""
    found = _places.get(node)
    if found is None:
        return None
    code, offset = found
    lines = [number for start, number in dis.findlinestarts(code) if start <= offset and number is not None]
    return f'File "{code.co_filename}", line {lines[-1] if lines else code.co_firstlineno}, in {code.co_name}'
