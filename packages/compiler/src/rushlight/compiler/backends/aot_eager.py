"""Backend `aot_eager`: gradients ahead of time, both graphs run op by op. Tells errors of differentiation from errors
of code generation.
"""

from __future__ import annotations

from collections.abc import Callable

import rushlight
from rushlight.compiler.aot.runtime import differentiable
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.ir import Graph


def compile(graph: Graph, example_metas: list, options: dict) -> Callable[[list], list]:
    """A function that interprets the graph, and its backward graph when gradients are asked for."""
    return differentiable(graph, lambda pure: lambda inputs: _run(pure, inputs), options.get("as_tape", False))


def _run(graph: Graph, inputs: list) -> list:
    with rushlight.no_grad():  # the graph says what gradients there are, the tape must not record them too
        return interpret(graph, inputs)
