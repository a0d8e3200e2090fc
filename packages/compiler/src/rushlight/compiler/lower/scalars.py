"""The scalar definition of a fused group, composed from those of its ops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rushlight.compiler.graph.ir import Node, Value
from rushlight.core import declare, dtypes
from rushlight.core import scalar as s
from rushlight.core.op import meta_of
from rushlight.core.pointwise import rounds_operands
from rushlight.kernels.cpu.elementwise import elementwise_kernel
from rushlight.kernels.half import compute_dtype, is_half, narrow, widen
from rushlight.kernels.source import is_call
from rushlight.kernels.trace import Apply, literal


@dataclass(frozen=True)
class Number:
    """A number among the arguments of a call. The text tells equal ones apart: 0.0 from -0.0, 1 from True."""

    value: Any = field(compare=False)
    dtype: np.dtype
    text: str


class Step(NamedTuple):
    """A call of a fused group. An argument is a number, None, or a place among the values and a dtype to see it in: a
    half one means float32 after rounding to it."""

    scalar: Callable
    arguments: tuple[Any, ...]
    out: dtypes.dtype


@dataclass(frozen=True)
class Fused:
    """A function on scalars, as calls: its operands are the first values, each call makes one more.

    It holds all that a kernel is made from, and no sizes, so functions are equal where the kernels are, whatever graph
    they come from: the caches of kernels find them.
    """

    steps: tuple[Step, ...]
    results: tuple[int, ...]

    def __call__(self, *elements: Any) -> tuple:
        values = list(elements)
        for scalar, arguments, out in self.steps:
            result = s.cast(scalar(*[_argument(x, values) for x in arguments]), compute_dtype(out.numpy))
            values.append(widen(narrow(result, out.numpy), out.numpy) if out in dtypes.HALF else result)
        return tuple([values[place] for place in self.results])


@dataclass(frozen=True)
class Folded:
    """What a reduction folds: the result of a fused function in the dtype of the accumulator, as its `pre` sees it."""

    inner: Fused
    accumulator: np.dtype
    pre: Callable | None

    def __call__(self, *elements: Any) -> Any:
        element = s.cast(self.inner(*elements)[0], self.accumulator)
        return element if self.pre is None else self.pre(element)


def compose(nodes: list[Node], operands: list[Value], results: list[Value]) -> Fused:
    """One function on scalars that computes `results` from `operands` as the nodes say.

    Every node computes in the dtype in which it would alone, and half results are rounded between nodes, so that fusing
    does not change them.
    """
    places = {v: i for i, v in enumerate([*operands, *[node.outputs[0] for node in nodes]])}
    return Fused(tuple([_step(node, places) for node in nodes]), tuple([places[v] for v in results]))


def _step(node: Node, places: dict[Value, int]) -> Step:
    op = node.op
    arguments: list[Any] = []
    metas = [x.meta if isinstance(x, Value) else meta_of(x) for x in node.inputs]
    common = declare.common_dtype(op, metas)
    rounds = rounds_operands(op, common)
    for i, x in enumerate(node.inputs):
        wanted = dtypes.bool.numpy if op.promote == "where" and i == 0 else compute_dtype(common.numpy)
        if isinstance(x, Value):
            arguments.append((places[x], common.numpy if rounds and x.meta.dtype is not common else wanted))
        elif x is None:
            arguments.append(None)
        else:
            x = _rounded(x, common.numpy) if rounds else x
            arguments.append(Number(x, wanted, f"{type(x).__name__} {x!r}"))
    assert op.scalar is not None
    return Step(op.scalar, tuple(arguments), node.outputs[0].meta.dtype)


def _argument(x: Any, values: list[Any]) -> Any:
    if x is None:
        return None
    if isinstance(x, Number):
        return literal(x.value, x.dtype)
    place, wanted = x
    if is_half(wanted):
        return widen(narrow(s.cast(values[place], compute_dtype(wanted)), wanted), wanted)
    return s.cast(values[place], wanted)


def _rounded(x: Any, half: np.dtype) -> float:
    with np.errstate(over="ignore"):
        return float(np.array(x).astype(half))


def is_cheap(node: Node) -> bool:
    """Does an elementwise call take little longer than loading its operands? Calls of the C library do."""
    if None in node.inputs:
        return False
    metas = [x.meta if isinstance(x, Value) else meta_of(x) for x in node.inputs]
    common = declare.common_dtype(node.op, metas).numpy
    sees = [np.dtype(bool) if node.op.promote == "where" and i == 0 else common for i in range(len(metas))]
    kernel = elementwise_kernel(node.op.scalar, sees, node.outputs[0].meta.numpy)
    return not any(isinstance(n, Apply) and is_call(n) for n in kernel.program.nodes())
