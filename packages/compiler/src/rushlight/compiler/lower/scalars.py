"""The scalar definition of a fused group, composed from those of its ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.compiler.graph.ir import Node, Value
from rushlight.core import declare, dtypes
from rushlight.core import scalar as s
from rushlight.core.op import meta_of
from rushlight.kernels.cpu.elementwise import elementwise_kernel
from rushlight.kernels.half import compute_dtype, narrow, widen
from rushlight.kernels.source import is_call
from rushlight.kernels.trace import Apply, literal


def compose(nodes: list[Node], operands: list[Value], results: list[Value]) -> Callable[..., tuple]:
    """One function on scalars that computes `results` from `operands` as the nodes say.

    Every node computes in the dtype in which it would alone, and half results are rounded between nodes, so that fusing
    does not change them.
    """

    def fused(*elements: Any) -> tuple:
        known: dict[Value, Any] = dict(zip(operands, elements))
        for node in nodes:
            known[node.outputs[0]] = _apply(node, known)
        return tuple([known[v] for v in results])

    return fused


def _apply(node: Node, known: dict[Value, Any]) -> Any:
    op = node.op
    metas = [x.meta if isinstance(x, Value) else meta_of(x) for x in node.inputs]
    common = compute_dtype(declare.common_dtype(op, metas).numpy)
    arguments = []
    for i, x in enumerate(node.inputs):
        wanted = dtypes.bool.numpy if op.promote == "where" and i == 0 else common
        if isinstance(x, Value):
            arguments.append(s.cast(known[x], wanted))
        else:
            arguments.append(x if x is None else literal(x, wanted))
    out = node.outputs[0].meta.dtype
    result = s.cast(op.scalar(*arguments), compute_dtype(out.numpy))
    return widen(narrow(result, out.numpy), out.numpy) if out in dtypes.HALF else result


def is_cheap(node: Node) -> bool:
    """Does an elementwise call take little longer than loading its operands? Calls of the C library do."""
    if None in node.inputs:
        return False
    metas = [x.meta if isinstance(x, Value) else meta_of(x) for x in node.inputs]
    common = declare.common_dtype(node.op, metas).numpy
    sees = [np.dtype(bool) if node.op.promote == "where" and i == 0 else common for i in range(len(metas))]
    kernel = elementwise_kernel(node.op.scalar, sees, node.outputs[0].meta.numpy)
    return not any(isinstance(n, Apply) and is_call(n) for n in kernel.program.nodes())
