"""Compiled programs with gradients."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.compiler import _logs
from rushlight.compiler.aot.aliases import own_outputs, with_aliases
from rushlight.compiler.graph.functions import FUNCTION, results_of
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.ir import Copy, Graph

Compile = Callable[[Graph], Callable[[list], list]]


def differentiable(graph: Graph, compile_pure: Compile, as_tape: bool = False) -> Callable[[list], list]:
    """Compile a graph with `compile_pure`, which knows nothing of gradients, and its gradients likewise when some
    output requires them. `as_tape` says that whoever changes or frees what gradients need is to find what he would in
    eager execution.
    """
    own = own_outputs(graph)
    return with_aliases(graph, own.outputs, _compiled(own, compile_pure, as_tape))


def _compiled(graph: Graph, compile_pure: Compile, as_tape: bool) -> Callable[[list], list]:
    if not any(v.meta.requires_grad for v in graph.outputs):
        return compile_pure(without_grad(graph))
    # Only programs with gradients need rushlight-autograd.
    from rushlight.compiler.aot.joint import joint_graph
    from rushlight.compiler.aot.tape import Region

    try:
        joint = joint_graph(graph)
    except (NotImplementedError, RuntimeError) as error:  # no graph can say it, or it is an error to ask for it
        _logs.log("aborts", f"a program with gradients runs operation by operation: {type(error).__name__}: {error}")
        return lambda inputs: interpret(graph, inputs)
    return Region(graph, joint, compile_pure, as_tape).call


def without_grad(graph: Graph) -> Graph:
    """The same graph on values that do not require grad."""
    copy = Copy(graph.inputs, lambda m: m.with_grad(False))
    for node in graph.nodes:
        if node.op is FUNCTION:
            copy.values.update([(v, copy.values[x]) for v, x in zip(node.outputs, results_of(node))])
        else:
            copy.repeat(node)
    return copy.returns(graph.outputs)
