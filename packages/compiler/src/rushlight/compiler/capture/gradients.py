"""The `grad` of leaves inside a captured program: kept beside their tracers until the effects are replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.compiler.capture import leaves
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.tensors import Recorder, Tracer
from rushlight.compiler.capture.value import NONE, Obj, TensorV, Value
from rushlight.core.meta import Meta

if TYPE_CHECKING:
    from rushlight.compiler.capture.session import Session


class Gradients:
    """What the program did to the `grad` of existing tensors; `log` has the writes in order."""

    def __init__(self) -> None:
        self._now: dict[int, Value] = {}
        self.kept: set[Tracer] = set()  # intermediates with a `grad`
        self._watched: dict[int, Tracer] = {}  # by the id of the tensor that it stands for
        self.log: list[tuple[Tracer, Value]] = []
        self.forgotten: list[Tracer] = []  # leaves whose `grad` the program sets to None before all else

    def read(self, session: Session, tracer: Tracer) -> Value:
        """`tensor.grad`."""
        if id(tracer) not in self._now and self.watch(session, tracer):
            return NONE
        if id(tracer) not in self._now:
            state = session.recorder.real(tracer)._auto
            found = None if state is None else state.grad
            self._now[id(tracer)] = tracer._origin.read("grad", None, found)
        return self._now[id(tracer)]

    def keep(self, tracer: Tracer) -> None:
        """`tensor.retain_grad()`."""
        self.kept.add(tracer)
        self._now.setdefault(id(tracer), NONE)

    def now(self, tracer: Tracer) -> Value:
        """The `grad` of a leaf that the program made."""
        return self._now.get(id(tracer), NONE)

    def write(self, session: Session, tracer: Tracer, value: Value) -> None:
        """`tensor.grad = value`."""
        self.watch(session, tracer)
        if isinstance(value, TensorV):
            new, old = value.tracer._meta, tracer._meta
            if value.tracer is tracer or (new.dtype, new.device, new.shape) != (old.dtype, old.device, old.shape):
                raise Abort("a gradient that does not fit its tensor")
        elif not session.is_none(value):
            raise Abort(f"a {session.type_name(value)} as gradient")
        self._now[id(tracer)] = value
        begun = session.recorder.graph.nodes or session.deferred or session.decisions.taken
        if tracer._origin is not None and not (isinstance(value, TensorV) or begun):
            self.forgotten.append(tracer)
        self.log.append((tracer, value))

    def add(self, session: Session, tracer: Tracer, gradient: Tracer, create: bool) -> None:
        """Add what a backward pass found for a leaf; with a history of its own if that was asked for (`create`)."""
        before = self.read(session, tracer)
        if isinstance(before, Obj):
            session.concrete(before)  # the program depends on there being none
            self.write(session, tracer, TensorV(_first(session.recorder, gradient, tracer._meta)))
        elif create:
            self.write(session, tracer, TensorV(before.tracer + gradient))
        elif before.tracer._meta.requires_grad:
            raise Abort("a gradient that is added to one with a history")
        else:
            before.tracer.add_(gradient)

    def watch(self, session: Session, tracer: Tracer) -> bool:
        """Make sure that a tensor is a leaf which nobody else watches; was it made by the program?"""
        recorder = session.recorder
        if tracer._origin is None:
            if tracer not in recorder.own_leaves and tracer not in self.kept:
                raise Abort("the gradient of an intermediate")
            return True
        leaves.watch(recorder, tracer)
        if self._watched.setdefault(id(recorder.real(tracer)), tracer) is not tracer:
            raise Abort("the gradient of a tensor by two paths")
        return False


def _first(recorder: Recorder, found: Tracer, leaf: Meta) -> Tracer:
    """What becomes the `grad` of a leaf that has none: a tensor with memory of its own, in the layout of the leaf."""
    node = recorder.current(found).node
    if node is not None and node.op.kind != "view" and found._meta.with_grad(False) is leaf.with_grad(False):
        return recorder.tracer(found._meta, found._node)
    if not leaf.contiguous:
        raise Abort("the gradient of a tensor that is not row-major")
    return recorder.fitted(found, leaf)
