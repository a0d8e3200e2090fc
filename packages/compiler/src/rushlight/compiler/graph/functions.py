"""Calls of `autograd.Function`s that a program defines, where gradients flow through them after the program has run.

    v5 = function(v2, v0, v3, count=1, wanted=1, own=(), backward=g1)

The first `count` operands are what the call gave, the `wanted` ones after them get gradients, and the graph computes
these from those of the results, from the remaining operands and from the results with the numbers `own`. The op is in
no registry: programs with gradients have the graph's operations instead of it, others the operands.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.ir import Graph, Node, Value
from rushlight.core.meta import Meta
from rushlight.core.op import Op


def _infer(*rest: Any) -> Meta | tuple[Meta, ...]:
    *metas, count, wanted, own, backward = rest
    if not 0 < count + wanted <= len(metas) or len(backward.outputs) != wanted or len(
            backward.inputs) != len(metas) - wanted + len(own):
        raise RuntimeError(f"function: {len(metas)} operands for {count} results and {wanted} gradients")
    results = tuple([m.with_grad(False) for m in metas[:count]])
    return results[0] if count == 1 else results


@dataclass(frozen=True, eq=False, repr=False)
class _Function(Op):
    def apply(self, operands: tuple, params: tuple = ()) -> Any:
        """The results, with a history if some operand requires grad."""
        return _replayed().apply(*params, *operands)

    def execute(self, operands: tuple, params: tuple = ()) -> Any:
        """The same."""
        return self.apply(operands, params)


FUNCTION = _Function("function", "structured", ("operands",), ("count", "wanted", "own", "backward"), _infer,
                     variadic=True, doc="What a call of an autograd.Function gave.")


@cache
def _replayed() -> Any:
    from rushlight.autograd.function import Function  # only programs with gradients have such calls

    class Replayed(Function):
        @staticmethod
        def forward(ctx: Any, count: int, wanted: int, own: tuple, backward: Graph, *operands: Any) -> Any:
            ctx.graph, ctx.rest = backward, len(operands) - count - wanted
            results = tuple([x.detach() for x in operands[:count]])
            ctx.save_for_backward(*operands[count + wanted:], *[results[i] for i in own])
            return results[0] if count == 1 else results

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            found = interpret(ctx.graph, [*grads, *ctx.saved_tensors])
            return (*[None] * (4 + len(grads)), *found, *[None] * ctx.rest)

    return Replayed


def results_of(node: Node) -> tuple[Any, ...]:
    """What a call gave."""
    return node.inputs[:node.params[0]]


def saved_by(node: Node) -> tuple[Any, ...]:
    """What the backward pass of a call needs of the program."""
    count, wanted, own, _ = node.params
    return (*node.inputs[count + wanted:], *[node.outputs[i] for i in own])


def gradients_of(node: Node, grads: list[Any], lift: Any) -> list[tuple[Value, Any]]:
    """The gradients of a call's operands from those of its results, which have all come."""
    count, wanted, _, backward = node.params
    found = interpret(backward, [*grads, *[lift(x) for x in saved_by(node)]])
    return list(zip(node.inputs[count:count + wanted], found))
