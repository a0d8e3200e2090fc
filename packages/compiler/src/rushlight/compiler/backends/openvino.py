"""Backend `openvino`: inference on the CPU in Intel's OpenVINO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.compiler.backends.through_onnx import Run, compiled
from rushlight.compiler.graph.ir import Graph


def compile(graph: Graph, example_metas: list, options: dict) -> Callable[[list], list]:
    """A function that runs the graph as a model of OpenVINO. Raises BackendError for what it cannot run."""
    return compiled("openvino", graph, _start)


def _start(model: bytes) -> Run:
    import openvino

    core = openvino.Core()
    # Its own choice would be bfloat16 where the processor has it.
    made = core.compile_model(core.read_model(model, b""), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    places = {name: i for i, port in enumerate(made.inputs) for name in port.names}
    outputs = [made.output(f"y{i}") for i in range(len(made.outputs))]
    free: list[Any] = []  # requests: each serves one call at a time

    def run(arrays: list[np.ndarray]) -> list[np.ndarray]:
        feeds = {places[f"x{i}"]: array for i, array in enumerate(arrays) if f"x{i}" in places}
        try:
            request = free.pop()
        except IndexError:  # every one is at work in another thread
            request = made.create_infer_request()
        found = request.infer(feeds, share_inputs=True)
        results = [np.array(found[port]) for port in outputs]  # the next call writes to the same memory
        free.append(request)
        return results

    return run
