"""The histories of results: what a backward pass inside the program left of them, and one outside may rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.graph.ir import Node, Value

if TYPE_CHECKING:
    from rushlight.compiler.capture.tensors import Recorder


def spent_nodes(recorder: Recorder) -> set[Node]:
    """The nodes that no gradient can pass any more: every way back leads through nodes that were freed."""
    spent: set[Node] = set()
    for node in recorder.graph.nodes:
        makers = [x.node for x in node.inputs if isinstance(x, Value) and x.meta.requires_grad]
        if node in recorder.freed or makers and all(maker in spent for maker in makers):
            spent.add(node)
    return spent


def check(recorder: Recorder, outputs: list[Value]) -> None:
    """Leave to eager execution results whose gradients are an error, or end at a leaf that is no input."""
    if recorder.freed or not (recorder.leaf_values or recorder.stale or recorder.functions):
        return
    from rushlight.compiler.aot.joint import saved_by  # only programs with gradients need rushlight-autograd

    live = {v for v in outputs if v.meta.requires_grad}
    for node in reversed(recorder.graph.nodes):
        if not any(v in live for v in node.outputs):
            continue
        if node in recorder.functions:
            raise Abort("a result with gradients through a Function that the program defines")
        if node.outputs[0] in recorder.leaf_values:
            raise Abort("a result with gradients for a leaf that the program made or changed")
        if any(recorder.written_over(value, node) for value in saved_by(node)):
            raise Abort("a result whose gradients need a value that was changed in place")
        live.update(x for x in node.inputs if isinstance(x, Value) and x.meta.requires_grad)
