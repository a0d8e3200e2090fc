"""Backend `eager`: runs the captured graph op by op."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.compiler.graph.interpret import Interpreter
from rushlight.compiler.graph.ir import Graph


def compile(graph: Graph, example_metas: list, options: dict) -> Callable[[list], list]:
    """A function that interprets the graph."""
    return Interpreter(graph)
