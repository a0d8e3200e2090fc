"""Graphs from formulas that are written in ops, such as gradients and decompositions: they run on tracers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from rushlight.compiler.graph.ir import Graph, Value
from rushlight.core import eager
from rushlight.core.op import Op
from rushlight.core.tensor import Tensor


class GraphTensor(Tensor):
    """A tensor during the making of a graph: metadata and a value of the graph, no memory."""

    __slots__ = ("_value",)


def _refuse(name: str) -> Callable:
    def refuse(self: GraphTensor, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"a formula asks for {name} of a tensor, which a graph cannot say")

    return refuse


for _name in (
    "requires_grad_",
    "backward",
    "numpy",
    "item",
    "tolist",
    "storage",
    "storage_offset",
    "data_ptr",
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
):
    setattr(GraphTensor, _name, _refuse(_name))


def tracer(value: Value) -> GraphTensor:
    """The tensor that stands for a value; it has no history."""
    made = object.__new__(GraphTensor)
    made._array = made._storage = made._auto = None
    made._meta, made._value = value.meta.with_grad(False), value
    return made


class GraphBuilder:
    """The handler that appends op calls on tracers to a graph.

    NotImplementedError for what a graph cannot say: in-place ops, tensors from outside, shapes that depend on data.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        """Append one call."""
        operands = tuple([eager.operand(op, i, x) for i, x in enumerate(operands)])
        if op.mutates:
            raise NotImplementedError(f"{op.name}: a formula writes in place, which graphs cannot say")
        if any(isinstance(x, Tensor) and not isinstance(x, GraphTensor) for x in operands):
            raise NotImplementedError(f"{op.name}: a formula uses a tensor from outside the graph")
        values = self.graph.call(op, tuple([x._value if isinstance(x, GraphTensor) else x for x in operands]), params,
                                 self.metas(op, operands, params))
        return self.tensor(values) if isinstance(values, Value) else tuple([self.tensor(v) for v in values])

    def metas(self, op: Op, operands: tuple, params: tuple) -> Any:
        """The metadata of the results of a call."""
        metas = op.infer_metas(operands, params)
        if metas is None:
            raise NotImplementedError(f"{op.name}: a formula has a shape that depends on data")
        return metas

    def tensor(self, value: Value) -> GraphTensor:
        """The tensor that stands for a value."""
        return tracer(value)
