"""Compiled programs with gradients: one node on the tape for the whole program."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.ir import Graph, Value

Compile = Callable[[Graph], Callable[[list], list]]


def differentiable(graph: Graph, compile_pure: Compile) -> Callable[[list], list]:
    """Compile a graph with `compile_pure`, which knows nothing of gradients, and its gradients likewise when some output requires them."""
    if not any(v.meta.requires_grad for v in graph.outputs):
        return compile_pure(without_grad(graph))
    try:
        return _region(graph, compile_pure)
    except NotImplementedError:  # a gradient formula that no graph can say: record op by op instead
        return lambda inputs: interpret(graph, inputs)


def without_grad(graph: Graph) -> Graph:
    """The same graph on values that do not require grad."""
    made = Graph()
    copies: dict[Value, Value] = {v: made.input(v.meta.with_grad(False)) for v in graph.inputs}
    for node in graph.nodes:
        operands = tuple([copies[x] if isinstance(x, Value) else x for x in node.inputs])
        copies.update(zip(node.outputs, made.call(node.op, operands, node.params, tuple([v.meta.with_grad(False) for v in node.outputs]))))
    made.output([copies[v] for v in graph.outputs])
    return made


def _region(graph: Graph, compile_pure: Compile) -> Callable[[list], list]:
    # Only programs with gradients need rushlight-autograd, which this package does without otherwise.
    from rushlight.autograd import Function, grad
    from rushlight.compiler.aot.joint import joint_graph
    from rushlight.compiler.aot.partition import partition

    parts = partition(joint_graph(graph))
    forward = compile_pure(parts.forward)
    count = len(graph.outputs)
    differentiated = [i for i, v in enumerate(graph.outputs) if v.meta.requires_grad]
    constant = [i for i, v in enumerate(graph.outputs) if not v.meta.requires_grad]
    tangent_metas = [v.meta for v in parts.backward.inputs[len(parts.backward.inputs) - len(differentiated):]]
    lock, compiled = threading.Lock(), []

    def backward_program() -> Callable[[list], list]:
        with lock:  # compiled when first needed: inference never pays for it
            if not compiled:
                compiled.append(compile_pure(parts.backward))
        return compiled[0]

    class CompiledBackward(Function):
        """The node of a compiled program."""

        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> tuple:
            results = forward([x.detach() for x in inputs])
            outputs = tuple(results[:count])
            ctx.save_for_backward(*[_original(v, inputs) for v in results[count:]])
            ctx.inputs, ctx.versions = inputs, tuple([x._version for x in inputs])
            ctx.mark_non_differentiable(*[outputs[i] for i in constant])
            ctx.set_materialize_grads(False)
            return outputs

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> tuple:
            if all(grads[i] is None for i in differentiated):
                return (None,) * len(ctx.inputs)
            if rushlight.is_grad_enabled():
                return _again(ctx, grads)
            tangents = [_tangent(grads[i], m) for i, m in zip(differentiated, tangent_metas)]
            found = backward_program()([*ctx.saved_tensors, *tangents])
            return tuple([None if at is None else found[at] for at in parts.gradients])

    def _original(saved: Any, inputs: tuple) -> Any:
        """The input itself where its detached twin was saved, so that a later in-place change is noticed."""
        return next((x for x in inputs if x._array is saved._array and x._meta.with_grad(False) is saved._meta), saved)

    def _again(ctx: Any, grads: tuple) -> tuple:
        """Gradients that can be differentiated again: the program runs once more, eagerly, on the tape."""
        if any(x._version != version for x, version in zip(ctx.inputs, ctx.versions)):
            raise RuntimeError("one of the variables needed for gradient computation has been modified by an inplace operation: an input of a "
                               "compiled function changed before its gradients were computed with create_graph=True")
        outputs = interpret(graph, ctx.inputs)
        wanted = [i for i, x in enumerate(ctx.inputs) if x.requires_grad]
        used = [i for i in differentiated if grads[i] is not None]
        found = grad([outputs[i] for i in used], [ctx.inputs[i] for i in wanted], [grads[i] for i in used], create_graph=True, allow_unused=True)
        by_input = dict(zip(wanted, found))
        return tuple([by_input.get(i) for i in range(len(ctx.inputs))])

    return lambda inputs: list(CompiledBackward.apply(*inputs))


def _tangent(grad: Any, expected: Any) -> Any:
    """An incoming gradient as the backward program takes it: row-major, zeros where none came."""
    return rushlight.zeros(expected.shape, dtype=expected.dtype, device=expected.device) if grad is None else grad.contiguous()
