"""Calls of the program's own `autograd.Function`s, as backward passes find them in the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.value import ContextV
from rushlight.compiler.graph.ir import Node, Value

if TYPE_CHECKING:
    from rushlight.compiler.capture.tensors import Recorder


class FunctionCall:
    """One call: what it gave and took, and how gradients go back through it.

    `values` are the graph values of its arguments (None for what is no tensor), `needs` which of them get a gradient,
    `saved` what its backward was promised to find unchanged. The call stands where its first output does.
    """

    def __init__(self, recorder: Recorder, outputs: list[Value], values: list[Value | None], needs: list[bool],
                 saved: list[Value], backward: Callable[[list], list], context: ContextV) -> None:
        self.recorder, self.outputs, self.values, self.needs, self.saved = recorder, outputs, values, needs, saved
        self.backward, self.context = backward, context

    @property
    def wanted(self) -> list[Value]:
        """The arguments that get a gradient."""
        return [v for v, need in zip(self.values, self.needs) if need and v is not None]

    def is_first(self, node: Node) -> bool:
        """Have the gradients of all outputs come when a pass that runs backwards is at this node?"""
        return node is self.outputs[0].node

    def flow(self, grads: list[Any]) -> list[tuple[Value, Any]]:
        """The gradients of the arguments."""
        found = self.backward(grads)
        results = []
        for value, need, grad in zip(self.values, self.needs, found):
            if not need or value is None or grad is None:
                continue
            a, b = grad._meta, value.meta
            if (a.shape, a.dtype, a.device) != (b.shape, b.dtype, b.device):
                raise Abort("a Function with a gradient of another form than its argument")
            results.append((value, grad))
        return results
