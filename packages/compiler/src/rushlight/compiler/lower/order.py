"""The order in which groups run: large results are made right before they are read, where that takes less memory.

A gradient that is computed early and read late lies in memory beside all that is made meanwhile: in the backward pass
of a layer of a transformer, next to the activations that are computed again.
"""

from __future__ import annotations

from typing import Any

from rushlight.compiler.graph.ir import Graph, Value, root
from rushlight.compiler.lower.fuse import Group, is_fusable
from rushlight.core.meta import below
from rushlight.core.op import prims
from rushlight.kernels.cpu import allocator

LARGE = allocator.LARGE  # bytes; less lies in the blocks of native calls


def late(graph: Graph, groups: list[Group]) -> list[Group]:
    """The groups, with products and loops moved down to the first that reads their results, unless that keeps as much
    else in memory. What they pass does not read them, and they cannot fail, so nothing else changes.
    """
    order, kept = list(groups), set(map(root, graph.outputs))
    reads = {group: set(map(root, group.operands())) for group in groups}
    read: set[Value] = set().union(*reads.values())
    for place in reversed(range(len(order) - 1)):
        group = order[place]
        made = {v for node in group.nodes for v in node.outputs} & read
        size = _nbytes(made)
        if not _is_movable(group) or below(size, LARGE):
            continue
        moved, passed, end = [group], [], place + 1
        while end < len(order) and (order[end].nodes[0].op.kind == "view" or not made & reads[order[end]]):
            (moved if made & reads[order[end]] else passed).append(order[end])
            end += 1
        if not passed or end == len(order):
            continue
        longer = reads[group] - kept.union(*[reads[other] for other in order[end:]])
        if below(_nbytes(longer), size):
            order[place:end] = [*passed, *moved]
    return order


def _is_movable(group: Group) -> bool:
    node = group.nodes[0]
    product = node.op in (prims.matmul, prims.linear, prims.linear_weight_grad)
    return not group.reduces and (product or is_fusable(node)) and node.outputs[0].meta.device.type == "cpu"


def _nbytes(values: set[Value]) -> Any:
    """The memory of some values."""
    return sum(v.meta.numel * v.meta.dtype.itemsize for v in values)
