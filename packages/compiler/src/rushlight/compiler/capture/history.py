"""The histories of results: what a backward pass inside the program left of them, and one outside may rely on."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.graph.ir import Node, Value, root

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


def check(recorder: Recorder, outputs: list[Value], changed: set[Value], hooked: Set[Value]) -> list[Any]:
    """Leave to eager execution results whose gradients are an error, or end at a leaf that is no input; or need an
    output whose version is set afterwards (`changed`), or run hooks (`hooked`). Returns the calls of
    Functions that these gradients flow through.
    """
    if recorder.stages.changes and not recorder.freed and any(v.meta.requires_grad for v in outputs):
        # Compiled, all results have one node: it would find that the step has changed what one of them needs.
        raise Abort("a result with a history beside an optimizer's step")
    if recorder.freed or not (recorder.leaf_values or recorder.stale or recorder.functions or hooked):
        return []
    from rushlight.compiler.aot.joint import saved_by  # only programs with gradients need rushlight-autograd

    found: list[Any] = []
    live = {v for v in outputs if v.meta.requires_grad}
    for node in reversed(recorder.graph.nodes):
        if not any(v in live for v in node.outputs):
            continue
        if not hooked.isdisjoint(node.outputs):
            raise Abort("a result with gradients through a tensor with hooks")
        if node in recorder.functions:
            call = recorder.functions[node]
            found.append(call)
            _check_saved(recorder, node, call.saved, changed)
            live.update(call.wanted)
            continue
        if recorder.leaf_values.get(node.outputs[0]) in recorder.inner_leaves:
            continue
        if node.outputs[0] in recorder.leaf_values:
            raise Abort("a result with gradients for a leaf that the program made or changed")
        _check_saved(recorder, node, saved_by(node), changed)
        live.update(x for x in node.inputs if isinstance(x, Value) and x.meta.requires_grad)
    return found


def _check_saved(recorder: Recorder, node: Node, saved: list[Any], changed: set[Value]) -> None:
    if any(recorder.written_over(value, node) for value in saved):
        raise Abort("a result whose gradients need a value that was changed in place")
    if any(isinstance(value, Value) and root(value) in changed for value in saved):
        raise Abort("a result whose gradients need one that was written, at a version that it has not yet")
