"""Taking ops apart where their parts fuse with their neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.compiler.graph.ir import Graph, Node, Value
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
    made = Graph()
    renamed: dict[Value, Value] = {v: made.input(v.meta) for v in graph.inputs}
    for node in graph.nodes:
        operands = tuple([renamed[x] if isinstance(x, Value) else x for x in node.inputs])
        metas = tuple([v.meta for v in node.outputs])
        if node in apart:
            x, weight, bias = operands
            product = made.call(prims.matmul, (x, made.call(prims.permute, (weight,), ((1, 0),))))
            renamed[node.outputs[0]] = made.call(prims.add, (product, bias), (), metas[0])
        else:
            renamed.update(zip(node.outputs, made.call(node.op, operands, node.params, metas)))
    made.output([renamed[v] for v in graph.outputs])
    return made


def _is_affine(node: Node) -> bool:
    """Is it a `linear` on the CPU whose bias may be added after rounding the product?"""
    if node.op is not prims.linear or node.inputs[2] is None:
        return False
    x, out = node.inputs[0].meta, node.outputs[0].meta
    return x.ndim > 1 and node.inputs[1].meta.ndim == 2 and out.dtype in _PLAIN and out.device.type == "cpu"
