"""Backend `inductor`, the default: gradients ahead of time, then fused loops compiled to native code."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.compiler.aot.runtime import differentiable
from rushlight.compiler.codegen.program import compile_program
from rushlight.compiler.graph.ir import Graph


def compile(graph: Graph, example_metas: list, options: dict) -> Callable[[list], list]:
    """A function that runs the graph as one program of fused kernels, and its backward likewise."""
    return differentiable(graph, compile_program, options.get("as_tape", False))
