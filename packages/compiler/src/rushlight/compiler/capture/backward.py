"""Backward passes inside a captured program: `loss.backward()` and `autograd.grad`.

A backward pass is a matter of the graph: the formulas of `rushlight.autograd` run on its values and add nodes to it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.state import grad_mode
from rushlight.compiler.capture.tensors import Recorder, Tracer
from rushlight.compiler.capture.value import NONE, TensorV, Value
from rushlight.compiler.graph.ir import Node
from rushlight.compiler.graph.ir import Value as GraphValue
from rushlight.core.op import prims

if TYPE_CHECKING:
    from rushlight.compiler.capture.session import Session


def backward(session: Session, roots: list[Value], gradients: list[Value], keep: bool, create: bool,
             inputs: list[Value] | None) -> None:
    """`autograd.backward(roots, gradients)`: add the gradients of the leaves, or of `inputs`, to their `grad`."""
    from rushlight.compiler.capture.semantics import hooks  # it uses this module

    recorder = session.recorder
    wanted = None if inputs is None else {v for values in _values(recorder, inputs) for v in values}
    found = _run(session, roots, gradients, keep, create, wanted)
    with grad_mode(create):
        totals: dict[Tracer, Tracer] = {}
        for value, gradient in found.items():
            leaf = (recorder.leaf_values if value in recorder.leaf_values else recorder.by_value)[value]
            if wanted is None or value in wanted:
                totals[leaf] = totals[leaf] + gradient if leaf in totals else gradient
        for leaf, total in totals.items():
            session.gradients.add(session, leaf, hooks.of_leaf(session, leaf, total), create)


def gradient(session: Session, roots: list[Value], gradients: list[Value], inputs: list[Value], keep: bool,
             create: bool, unused: bool, zeros: bool) -> list[Value]:
    """`autograd.grad(roots, inputs, gradients)`: the gradients of `inputs`; None or zeros for those not reached."""
    from rushlight.compiler.capture.semantics import hooks  # it uses this module

    recorder = session.recorder
    wanted = _values(recorder, inputs)
    found = _run(session, roots, gradients, keep, create, {v for values in wanted for v in values})
    results: list[Value] = []
    for x, values in zip(inputs, wanted):
        parts = [found[value] for value in values if value in found]
        if parts:
            with grad_mode(create):
                total = parts[0]
                for part in parts[1:]:
                    total = total + part
                if isinstance(x, TensorV):
                    total = hooks.of_leaf(session, x.tracer, total)
            results.append(recorder.value_of(total))
        elif zeros:
            m = values[-1].meta
            results.append(recorder.value_of(recorder.handle(prims.full, (0,), (m.shape, m.dtype, m.device))))
        elif unused:
            results.append(NONE)
        else:
            raise Abort("the gradient of a tensor that the result does not depend on")
    return results


def _values(recorder: Recorder, inputs: list[Value]) -> list[list[GraphValue]]:
    """What the tensors are in the graph that gradients are asked of: a leaf has a value for each time it was changed.
    """
    found = []
    for x in inputs:
        if not isinstance(x, TensorV) or not x.tracer._meta.requires_grad:
            raise Abort("the gradient of something that requires none")
        tracer = x.tracer
        now = recorder.current(tracer)
        known = [v for table in (recorder.by_value, recorder.leaf_values) for v, t in table.items()
                 if t is tracer and v is not now and v.meta.requires_grad]
        found.append([*known, now])
    return found


def _run(session: Session, roots: list[Value], gradients: list[Value], keep: bool, create: bool,
         wanted: set[GraphValue] | None) -> dict[GraphValue, Tracer]:
    """Extend the graph by gradients: of the leaves, or of `wanted`; those with a `create` have a history themselves."""
    from rushlight.compiler.aot.joint import flow_back, gradients_of  # only programs with gradients need autograd
    from rushlight.compiler.capture.semantics import hooks  # it uses this module

    recorder = session.recorder
    if session.regions:
        raise Abort("a backward pass inside an autocast region")
    values = []
    for root in roots:
        if not isinstance(root, TensorV) or not root.tracer._meta.requires_grad:
            raise Abort("a backward pass that eager execution refuses")
        values.append(recorder.current(root.tracer))
    nodes = list(recorder.graph.nodes)
    for leaf in reached(recorder, nodes, values):
        session.gradients.watch(session, leaf)
    ends = {*recorder.leaf_values, *(wanted or ())}
    hooked = {*session.hooks, *session.retained}
    if wanted is not None and not hooked.isdisjoint(wanted):
        raise Abort("the gradient by a tensor with hooks")
    if wanted is not None:
        nodes = _on_the_way(recorder, nodes, wanted)
    with grad_mode(create):
        start: dict[GraphValue, Any] = {}
        for root, value, given in zip(roots, values, gradients, strict=True):
            first = _start(session, root.tracer, given)  # type: ignore[attr-defined]
            start[value] = start[value] + first if value in start else first
        try:
            if wanted is None and not create and not recorder.functions and not hooked:
                plain = {value: recorder.current(first) for value, first in start.items()}
                results, visited = gradients_of(recorder.graph, plain, ends)
                found = {value: recorder.tracer(g.meta, g) for value, g in results.items()}
            else:
                found = start
                visited = flow_back(nodes, found, lambda v: recorder.tracer(v.meta.with_grad(
                    create and v.meta.requires_grad), v), ends, recorder.functions,
                                    {v: partial(hooks.run, session, v) for v in hooked})
        except NotImplementedError as error:
            raise Abort(str(error)) from None
    if recorder.freed.intersection(visited):
        raise Abort("a second backward pass through the same graph")
    if any(recorder.written_over(value, node) or recorder.stages.outdated(value)
           for node, saved in visited.items() for value in saved):
        raise Abort("a backward pass that needs a value which was changed in place")
    if not keep:
        recorder.freed.update(node for node, saved in visited.items() if saved)
    return {value: g for value, g in found.items()
            if value.meta.requires_grad and (value.node is None or value in ends)}


def reached(recorder: Recorder, nodes: list[Node], roots: list[GraphValue]) -> list[Tracer]:
    """The leaves that some values were computed from."""
    live = set(roots)
    for node in reversed(nodes):
        reached = any(v in live and v.meta.requires_grad for v in node.outputs)
        if reached and node in recorder.functions:
            live.update(recorder.functions[node].wanted)
        elif reached and node.outputs[0] not in recorder.leaf_values:
            live.update(x for x in node.inputs if isinstance(x, GraphValue) and x.meta.requires_grad)
    found = [recorder.by_value[v] for v in recorder.graph.inputs if v in live and v.meta.requires_grad]
    return [*found, *(leaf for value, leaf in recorder.leaf_values.items() if value in live)]


def _on_the_way(recorder: Recorder, nodes: list[Node], goals: set[GraphValue]) -> list[Node]:
    """The nodes that have to run for gradients to reach the goals."""
    leading, needed = set(goals), []
    for node in nodes:
        operands = recorder.functions[node].wanted if node in recorder.functions else node.inputs
        if any(isinstance(x, GraphValue) and x.meta.requires_grad and x in leading for x in operands):
            leading.update(v for v in node.outputs if v.meta.requires_grad)
            needed.append(node)
    return needed


def _start(session: Session, loss: Tracer, gradient: Value) -> Tracer:
    m = loss._meta
    if isinstance(gradient, TensorV):
        if gradient.tracer._meta.shape != m.shape or gradient.tracer._meta.dtype is not m.dtype:
            raise Abort("a gradient that does not fit the tensor it starts from")
        return gradient.tracer
    if not session.is_none(gradient) or m.numel != 1 or m.dtype.is_complex:
        raise Abort("a backward pass that eager execution refuses")
    made: Any = session.recorder.handle(prims.full, (1.0,), (m.shape, m.dtype, m.device))
    return made
