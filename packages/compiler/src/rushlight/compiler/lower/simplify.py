"""The passes that a graph goes through before its operations are grouped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.compiler.graph.ir import Graph, Node
from rushlight.compiler.graph.passes import decompose, eliminate_common, eliminate_dead
from rushlight.compiler.lower.affine import stays_whole


def simplified(graph: Graph, whole: Callable[[Node], Any] | None = None) -> Graph:
    """An equivalent graph without repeated and unused calls, and with affine maps apart where their parts fuse, but for
    those that are to stay `whole` (by default those of `affine`).
    """
    return eliminate_dead(eliminate_common(decompose(graph, whole or stays_whole(graph))))
