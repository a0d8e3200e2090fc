"""Numbers that are computed from open sizes, among the operands of elementwise calls: tensors, to their loops.

A number in a loop's code would mean other machine code for each size.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rushlight.compiler.graph.ir import Copy, Graph, Node, Value
from rushlight.compiler.graph.symbolic import SYMBOLS
from rushlight.compiler.graph.values import Values
from rushlight.core import declare, dtypes
from rushlight.core.meta import Meta, meta
from rushlight.core.op import meta_of
from rushlight.core.quiet import quiet
from rushlight.core.tensor import Tensor, wrap

_PLAIN = (dtypes.float32, dtypes.float64, dtypes.int64)


def numbers_apart(graph: Graph) -> tuple[Graph, list[tuple[Any, Meta]]]:
    """The graph with more inputs, which take the place of such numbers, and the symbols that they are."""
    if not any(type(x) in SYMBOLS for node in graph.nodes if node.op.kind == "elementwise" for x in node.inputs):
        return graph, []
    copy = Copy(graph.inputs)
    numbers: dict[tuple[Any, Meta], Value] = {}

    def tensor(x: Any, m: Meta | None) -> Any:
        if m is None or type(x) not in SYMBOLS:
            return x
        if (x, m) not in numbers:
            numbers[x, m] = copy.graph.input(m)
        return numbers[x, m]

    for node in graph.nodes:
        m = _seen_in(node)
        copy.repeat(node, copy.operands(node, partial(tensor, m=m)))
    return copy.returns(graph.outputs), [*numbers]


def tensors_at(numbers: list[tuple[Any, Meta]], values: Values) -> list[Tensor]:
    """The tensors for some sizes."""
    return [wrap(quiet(np.array, values.value(x), m.numpy), m) for x, m in numbers]


def _seen_in(node: Node) -> Meta | None:
    """The metadata of tensors that make no difference in the place of the numbers of a call; None where they would."""
    if node.op.kind != "elementwise" or node.op.name.startswith("pow"):  # whole exponents are multiplied out
        return None
    metas = [x.meta if isinstance(x, Value) else meta_of(x) for x in node.inputs]
    common = declare.common_dtype(node.op, metas)
    if common not in _PLAIN or any(m is not None and not m.weak and m.device.type != "cpu" for m in metas):
        return None
    found = meta(common, ())
    given = [found if type(x) in SYMBOLS else m for x, m in zip(node.inputs, metas)]
    inferred = node.op.infer(*given, *node.params)
    same = isinstance(inferred, Meta) and inferred.with_grad(False) is node.outputs[0].meta.with_grad(False)
    return found if same else None
