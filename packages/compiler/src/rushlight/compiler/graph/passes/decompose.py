"""Taking ops apart where their parts fuse with their neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.compiler.graph.ir import Copy, Graph, Node
from rushlight.core import dtypes
from rushlight.core.op import prims

_PLAIN = (dtypes.float32, dtypes.float64)


def decompose(graph: Graph, whole: Callable[[Node], Any] = lambda node: False) -> Graph:
    """The graph with `linear` as a product and an addition, which joins the loop of the activation after it.

    Calls that are to stay `whole` do.
    """
    apart = {node for node in graph.nodes if _is_affine(node) and not whole(node)}
    if not apart:
        return graph
    copy = Copy(graph.inputs)
    made = copy.graph
    for node in graph.nodes:
        if node in apart:
            x, weight, bias = copy.operands(node)
            product = made.call(prims.matmul, (x, made.call(prims.permute, (weight,), ((1, 0),))))
            copy.values[node.outputs[0]] = made.call(prims.add, (product, bias), (), node.outputs[0].meta)
        else:
            copy.repeat(node)
    return copy.returns(graph.outputs)


def _is_affine(node: Node) -> bool:
    """Is it a `linear` on the CPU whose bias may be added after rounding the product?"""
    if node.op is not prims.linear or node.inputs[2] is None:
        return False
    x, out = node.inputs[0].meta, node.outputs[0].meta
    return x.ndim > 1 and node.inputs[1].meta.ndim == 2 and out.dtype in _PLAIN and out.device.type == "cpu"
