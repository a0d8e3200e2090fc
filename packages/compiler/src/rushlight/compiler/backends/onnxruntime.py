"""Backend `onnxruntime`: inference on the CPU in Microsoft's ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rushlight.compiler.backends.through_onnx import Run, compiled
from rushlight.compiler.graph.ir import Graph
from rushlight.onnx import runtime


def compile(graph: Graph, example_metas: list, options: dict) -> Callable[[list], list]:
    """A function that runs the graph in a session of onnxruntime. Raises BackendError for what it cannot run."""
    return compiled("onnxruntime", graph, _start)


def _start(model: bytes) -> Run:
    session = runtime.session(model, "compile(backend='onnxruntime')")
    names = [x.name for x in session.get_inputs()]
    outputs = [x.name for x in session.get_outputs()]

    def run(arrays: list[np.ndarray]) -> list[np.ndarray]:
        return session.run(outputs, dict(zip(names, arrays)))

    return run
