"""Affine maps as one kernel call: the tiles of the product begin with the bias, which costs no pass over memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.compiler.graph.ir import Graph, Node, Value
from rushlight.compiler.lower import small
from rushlight.compiler.lower.fuse import can_fold, is_fusable
from rushlight.core.meta import below
from rushlight.core.op import prims
from rushlight.kernels.cpu import gemm


def stays_whole(graph: Graph) -> Callable[[Node], Any]:
    """Which affine maps of a graph are one kernel call. Where a loop reads the result, that loop may add the bias: only
    small ones then, for which a call less counts more.
    """
    loops = [node for node in graph.nodes if is_fusable(node) or can_fold(node)]
    read = {x for node in loops for x in node.inputs if isinstance(x, Value)}
    return lambda node: small.product(node) or (is_one_kernel(node) and node.outputs[0] not in read)


def is_one_kernel(node: Node) -> bool:
    """Is it a `linear` with a bias, of a size for which our kernel of products is the fastest?"""
    if node.op is not prims.linear or not all(isinstance(x, Value) for x in node.inputs):
        return False
    x, weight, bias = [v.meta for v in node.inputs]
    if x.ndim < 2 or weight.ndim != 2 or bias.ndim != 1 or not (x.contiguous and weight.contiguous):
        return False
    if node.outputs[0].meta.dtype not in small.PLAIN or x.device.type != "cpu":
        return False
    return not below(x.numel * weight.shape[0], gemm.WORTH) and below(x.numel + weight.numel, gemm.LARGE)
