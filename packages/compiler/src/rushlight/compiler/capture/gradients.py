"""Gradients inside a captured program: `loss.backward()`, and the `grad` of tensors that existed before the call.

A backward pass is a matter of the graph: the formulas of `rushlight.autograd` run on its values and add nodes to it.
The `grad` of a leaf is kept beside its tracer until the effects of the call are replayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.tensors import Recorder, Tracer
from rushlight.compiler.capture.value import Obj, TensorV, Value
from rushlight.compiler.graph.ir import Node
from rushlight.compiler.graph.ir import Value as GraphValue
from rushlight.core.meta import Meta
from rushlight.core.op import prims
from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.compiler.capture.session import Session


def plain_leaf(x: Tensor) -> bool:
    """Is a tensor a leaf that nobody watches: without history and hooks?"""
    state = x._auto
    if state is None:
        return True
    if type(state) is tuple:  # a view
        return False
    if state.edge is not None or state.origin is not None or state.post_hooks:
        return False
    edge = state.leaf_edge
    return edge is None or not edge[0].hooks and edge[0].extras is None


def plain_leaves(tensors: tuple) -> bool:
    """Are these all different leaves that nobody watches? The guard of programs that ask for gradients."""
    if len({id(x) for x in tensors}) != len(tensors):
        return False
    for x in tensors:
        state = x._auto
        if state is not None and (state.leaf_edge is not None or state.edge is not None or state.origin is not None or
                                  state.post_hooks) and not plain_leaf(x):
            return False
    return True


def set_grad(x: Tensor, grad: Tensor | None) -> None:
    """`x.grad = grad` for a gradient that is known to fit."""
    from rushlight.autograd.state import state_of  # only programs with gradients need rushlight-autograd

    state_of(x).grad = grad


class Gradients:
    """What the program did to the `grad` of existing tensors; `log` has the writes in order."""

    def __init__(self) -> None:
        self._now: dict[int, Value] = {}
        self._watched: dict[int, Tracer] = {}  # by the id of the tensor that it stands for
        self.log: list[tuple[Tracer, Value]] = []

    def read(self, session: Session, tracer: Tracer) -> Value:
        """`tensor.grad`."""
        if id(tracer) not in self._now:
            self._watch(session, tracer)
            state = session.recorder.real(tracer)._auto
            found = None if state is None else state.grad
            self._now[id(tracer)] = tracer._origin.read("grad", None, found)
        return self._now[id(tracer)]

    def write(self, session: Session, tracer: Tracer, value: Value) -> None:
        """`tensor.grad = value`."""
        self._watch(session, tracer)
        if isinstance(value, TensorV):
            new, old = value.tracer._meta, tracer._meta
            if value.tracer is tracer or (new.dtype, new.device, new.shape) != (old.dtype, old.device, old.shape):
                raise Abort("a gradient that does not fit its tensor")
        elif not (isinstance(value, Obj) and value.obj is None):
            raise Abort(f"a {session.type_name(value)} as gradient")
        self._now[id(tracer)] = value
        self.log.append((tracer, value))

    def add(self, session: Session, tracer: Tracer, gradient: GraphValue) -> None:
        """Add what a backward pass found for a leaf."""
        recorder = session.recorder
        fresh = recorder.tracer(gradient.meta, gradient)
        before = self.read(session, tracer)
        if isinstance(before, Obj):
            session.concrete(before)  # the program depends on there being none
            self.write(session, tracer, TensorV(_first(recorder, fresh, tracer._meta)))
            return
        have = before.tracer
        if have._meta.requires_grad:
            raise Abort("a gradient that is added to one with a history")
        have.add_(fresh)

    def _watch(self, session: Session, tracer: Tracer) -> None:
        if tracer._origin is None or tracer._parent is not None:
            raise Abort("the gradient of an intermediate")
        real = session.recorder.real(tracer)
        if not plain_leaf(real):
            raise Abort("the gradient of a tensor with a history or with hooks")
        if self._watched.setdefault(id(real), tracer) is not tracer:
            raise Abort("the gradient of a tensor by two paths")
        session.tree.leaves[tracer._origin] = None
        tracer._origin.wanted = True


def _first(recorder: Recorder, found: Tracer, leaf: Meta) -> Tracer:
    """What becomes the `grad` of a leaf that has none: a tensor with memory of its own, in the layout of the leaf."""
    node = found._node.node
    if node is not None and node.op.kind != "view" and found._meta is leaf.with_grad(False):
        return found
    if not leaf.contiguous:
        raise Abort("the gradient of a tensor that is not row-major")
    return recorder.fitted(found, leaf)


def backward(session: Session, loss: Value, gradient: Value, keep: bool) -> None:
    """`loss.backward(gradient)`: extend the graph by the gradients of the leaves, and add those to their `grad`."""
    from rushlight.autograd.modes import no_grad  # only programs with gradients need rushlight-autograd
    from rushlight.compiler.aot.joint import gradients_of  # so does this module

    recorder = session.recorder
    if not isinstance(loss, TensorV) or not loss.tracer._meta.requires_grad:
        raise Abort("a backward pass that eager execution refuses")
    if recorder.sealed:
        raise Abort("a backward pass after an optimizer's step")
    value = recorder.current(loss.tracer)
    with no_grad():
        start = recorder.current(_start(session, loss.tracer, gradient))
        places = dict(zip(recorder.graph.inputs, list(recorder.inputs)))
        try:
            found, visited = gradients_of(recorder.graph, {value: start})
        except NotImplementedError as error:
            raise Abort(str(error)) from None
        if recorder.freed.intersection(visited):
            raise Abort("a second backward pass through the same graph")
        if any(recorder.written_over(value, node) for node, saved in visited.items() for value in saved):
            raise Abort("a backward pass that needs a value which was changed in place")
        if not keep:
            _let_go(recorder, visited)
        for source, grad in found.items():
            session.gradients.add(session, places[source], grad)


def _let_go(recorder: Recorder, visited: dict[Node, tuple]) -> None:
    """Note that eager nodes would have let go what they saved, and what can be reached no more because of that."""
    recorder.freed.update(node for node, saved in visited.items() if saved)
    for node in reversed(visited):
        makers = [x.node for x in node.inputs if isinstance(x, GraphValue) and x.meta.requires_grad]
        if node in recorder.freed or all(maker in recorder.spent for maker in makers):
            recorder.spent.add(node)


def _start(session: Session, loss: Tracer, gradient: Value) -> Tracer:
    m = loss._meta
    if isinstance(gradient, TensorV):
        if gradient.tracer._meta.shape != m.shape or gradient.tracer._meta.dtype is not m.dtype:
            raise Abort("a gradient that does not fit the tensor it starts from")
        return gradient.tracer
    given = not (isinstance(gradient, Obj) and gradient.obj is None)
    if given or m.numel != 1 or m.dtype.is_complex:
        raise Abort("a backward pass that eager execution refuses")
    made: Any = session.recorder.handle(prims.full, (1.0,), (m.shape, m.dtype, m.device))
    return made
