"""The engine: runs the graph backwards from some outputs.

Nodes are run youngest first. Since every edge leads to an older node, all gradients for a node have come by the time it is the youngest that
is left; nothing has to be counted beforehand, and nothing recurses.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from rushlight.autograd.modes import mode, set_enabled
from rushlight.autograd.node import AccumulateGrad, Edge, Node
from rushlight.core.tensor import Tensor


def run(roots: list[tuple[Edge, Tensor]], keep_graph: bool, create_graph: bool) -> None:
    """Send gradients from the roots to the leaves and add them to their `grad`."""
    before = mode.enabled
    set_enabled(create_graph)
    try:
        _run(roots, keep_graph)
    finally:
        set_enabled(before)


def _run(roots: list[tuple[Edge, Tensor]], keep_graph: bool) -> None:
    pending: dict[Node, list] = {}
    heap: list[tuple[int, Node]] = []

    def deliver(edge: Edge, grad: Any) -> None:
        node, index = edge
        buffer = pending.get(node)
        if buffer is None:
            buffer = pending[node] = [None] * node.outputs
            heappush(heap, (node.order, node))
        have = buffer[index]
        buffer[index] = grad if have is None else have + grad

    for edge, grad in roots:
        deliver(edge, grad)
    while heap:
        _, node = heappop(heap)
        grads = pending.pop(node)
        if type(node) is AccumulateGrad:
            accumulate(node, grads[0])
            continue
        for edge, grad in zip(node.edges, node.apply(grads, keep_graph)):
            if grad is not None:
                deliver(edge, grad)


def accumulate(node: AccumulateGrad, grad: Tensor) -> None:
    """Add to the `grad` of a leaf."""
    state = node.variable._auto
    state.grad = grad if state.grad is None else state.grad + grad
