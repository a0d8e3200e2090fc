"""The joint graph: a program and its gradients as one graph, made by running autograd's formulas on tracers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.autograd.modes import no_grad
from rushlight.autograd.recipe import Recipe, node_class
from rushlight.autograd.rules.registry import row_of
from rushlight.autograd.shield import PASSED, without_poison
from rushlight.compiler.graph import functions
from rushlight.compiler.graph.builder import GraphBuilder, tracer
from rushlight.compiler.graph.functions import FUNCTION, results_of
from rushlight.compiler.graph.ir import Copy, Graph, Node, Value, root
from rushlight.core import dispatch
from rushlight.core.meta import Meta, meta
from rushlight.core.op import Op, meta_of, prims
from rushlight.core.tensor import Tensor
from rushlight.ops.arithmetic import add
from rushlight.ops.create import filled

NO_FUNCTIONS: Mapping[Node, Any] = {}
NO_HOOKS: Mapping[Value, Callable[[Tensor], Tensor]] = {}


@dataclass
class Joint:
    """The joint graph: first the `forward_nodes` of the program, then its gradients.

    `graph.inputs` are the program's inputs and then one tangent per differentiable output (its number in `tangents`);
    `gradients` has the gradient of each input, None where there is none. `kept` are the values whose memory the tape
    would keep: others may change before the backward pass.
    """

    graph: Graph
    forward_nodes: int
    outputs: list[Value]
    needs_grad: list[bool]
    tangents: list[int]
    gradients: list[Value | None]
    kept: set[Value]


def joint_graph(program: Graph, tangents: list[int] | None = None) -> Joint:
    """Differentiate a program, or only the outputs with some numbers. NotImplementedError when a formula cannot be put
    into a graph.
    """
    copy = Copy(program.inputs, lambda m: m.with_grad(False))
    graph, copies = copy.graph, copy.values
    for node in program.nodes:
        if node.op is FUNCTION:
            for v, x in zip(node.outputs, results_of(node)):
                copies[v] = graph.call(prims.detach, (copies[x],))
        else:
            copy.repeat(node)
    forward_nodes = len(graph.nodes)
    if tangents is None:
        tangents = [i for i, v in enumerate(program.outputs) if v.meta.requires_grad]
    gradients: dict[Value, Any] = {}
    with no_grad(), dispatch.push(GraphBuilder(graph)):  # as in a backward pass that is not differentiated again
        for i in tangents:
            value = program.outputs[i]
            incoming = tracer(graph.input(_tangent_meta(value.meta)))
            gradients[value] = incoming if value not in gradients else add(gradients[value], incoming)
        visited = flow_back(program.nodes, gradients, lambda v: tracer(copies[v]))
    found = [gradients.get(v) if v.meta.requires_grad else None for v in program.inputs]
    return Joint(
        graph,
        forward_nodes,
        [copies[v] for v in program.outputs],
        [v.meta.requires_grad for v in program.inputs],
        tangents,
        [None if g is None else g._value for g in found],
        {copies[root(x)] for saved in visited.values() for x in saved if isinstance(x, Value)},
    )


def gradients_of(
    graph: Graph, start: dict[Value, Value], ends: Collection[Value] = ()
) -> tuple[dict[Value, Value], dict[Node, tuple]]:
    """Differentiate inside a graph: append to it the gradients of its inputs and of the values `ends`, which are
    returned.

    `start` has the gradients of some of its values. Also returned are the nodes that gradients flowed through, the last
    one first, and what eager nodes would have saved for that. NotImplementedError when a formula cannot
    be put into a graph.
    """
    gradients: dict[Value, Any] = {value: tracer(grad) for value, grad in start.items()}
    with no_grad(), dispatch.push(GraphBuilder(graph)):
        visited = flow_back(list(graph.nodes), gradients, tracer, ends)
    found = {v: g._value for v, g in gradients.items() if v.meta.requires_grad and (v.node is None or v in ends)}
    return found, visited


def flow_back(
    nodes: list[Node],
    gradients: dict[Value, Tensor],
    lift: Callable[[Value], Tensor],
    ends: Collection[Value] = (),
    functions: Mapping[Node, Any] = NO_FUNCTIONS,
    hooks: Mapping[Value, Callable[[Tensor], Tensor]] = NO_HOOKS,
) -> dict[Node, tuple]:
    """Take gradients through nodes, the last one first; formulas compute with the tensors that `lift` makes of values.

    Left in `gradients` are those of graph inputs and of `ends`. `functions` are calls that say themselves how gradients
    flow through them, by the nodes of their outputs; `hooks` change the gradients of values. Returns which nodes they
    went through, and what of their operands and results the formulas need.
    """
    visited: dict[Node, tuple] = {}
    shielded: set[Node] = set()  # what the tape marks, see `rushlight.autograd.shield`
    for node in reversed(nodes):
        if hooks:
            gradients.update([(v, hooks[v](gradients[v])) for v in node.outputs if v in hooks and v in gradients])
        if node in functions:
            _through(functions[node], node, gradients, visited)
            continue
        if node.op is FUNCTION:
            _through_function(node, gradients, lift, visited)
            continue
        grads = [gradients.get(v) if v in ends else gradients.pop(v, None) for v in node.outputs]
        if any(g is not None for g in grads):
            recipe = _differentiate(node, grads, lift, gradients, node in shielded)
            if recipe is not None:
                visited[node] = tuple([_saved(node, kind, i) for kind, i in recipe.saves])
                if recipe.selects or node in shielded:
                    makers = [node.inputs[i].node for i in recipe.wanted]
                    shielded.update([maker for maker in makers if maker is not None and maker.op.kind in PASSED])
    return visited


def _through(call: Any, node: Node, gradients: dict[Value, Tensor], visited: dict[Node, tuple]) -> None:
    """Take gradients through a call that says itself how, when those of all its outputs have come."""
    grads = [gradients.get(v) for v in call.outputs]
    if not call.is_first(node) or all(g is None for g in grads):
        return
    visited[node] = tuple(call.saved)
    for value, grad in call.flow(grads):
        gradients[value] = grad if value not in gradients else add(gradients[value], grad)


def _through_function(node: Node, gradients: dict[Value, Tensor], lift: Callable[[Value], Tensor],
                      visited: dict[Node, tuple]) -> None:
    """Take gradients through a call of a Function: those that have not come are zeros."""
    grads: list[Any] = [gradients.pop(v, None) for v in node.outputs]
    if all(g is None for g in grads):
        return
    visited[node] = functions.saved_by(node)
    grads = [filled(v.meta.shape, 0, v.meta.dtype, v.meta.device) if g is None else g
             for g, v in zip(grads, node.outputs)]
    for value, grad in functions.gradients_of(node, grads, lift):
        gradients[value] = grad if value not in gradients else add(gradients[value], grad)


def saved_by(node: Node) -> list[Any]:
    """What an eager node would save of a call's operands and results."""
    if node.op is FUNCTION:
        return list(functions.saved_by(node))
    recipe = _recipe(node)
    return [] if recipe is None else [_saved(node, kind, i) for kind, i in recipe.saves]


def _recipe(node: Node) -> Recipe | None:
    row = row_of(node.op)
    if row is None:
        return None
    metas = tuple([x.meta if isinstance(x, Value) else meta_of(x) for x in node.inputs])
    recipe = Recipe(node.op, metas, node.params, len(node.outputs), row)
    return recipe if recipe.wanted else None


def _saved(node: Node, kind: str, i: int) -> Any:
    return node.inputs[i] if kind == "operand" else node.outputs[i]


def _tangent_meta(m: Meta) -> Meta:
    """Gradients come row-major: one program serves them all."""
    return meta(m.dtype, m.shape, None, m.device)


class _Named:
    """Stands for the tape's node where `Recipe.gradients` wants a name for its errors, or nodes before it to mark."""

    edges = ()

    def __init__(self, op: Op) -> None:
        self.op = op

    def name(self) -> str:
        return node_class(self.op).__name__


def _differentiate(
    node: Node, grads: list, lift: Callable[[Value], Tensor], gradients: dict[Value, Tensor], shielded: bool
) -> Recipe | None:
    """Add what flows back through one call to the gradients of its operands; returns how."""
    recipe = _recipe(node)
    if recipe is None:
        return None

    def given(x: Any) -> Any:
        return lift(x) if isinstance(x, Value) else x

    named: Any = _Named(node.op)
    found = recipe.gradients(named, grads, tuple([given(_saved(node, kind, i)) for kind, i in recipe.saves]))
    if shielded:
        found = without_poison(found, grads[0])
    for i, grad in zip(recipe.wanted, found):
        if grad is not None:
            value = node.inputs[i]
            gradients[value] = grad if value not in gradients else add(gradients[value], grad)
    return recipe
