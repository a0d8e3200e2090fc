"""`checkpoint(function, ...)`: captured as a plain call of the function.

What is kept for the backward pass is chosen for the whole graph. Eager execution calls the function a second time in
the backward pass, so it must have no effects: they would happen twice.
"""

from __future__ import annotations

from typing import Any

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.semantics import call, container
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.value import CellV, FunctionV, Obj, TensorV, Value


def checkpoint(session: Session, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The result of the function; Abort where a second call could be noticed."""
    named = dict(kwargs)
    reentrant = named.pop("use_reentrant", None)
    named.pop("preserve_rng_state", None)
    named.pop("determinism_check", None)
    named.pop("early_stop", None)
    if reentrant is None or container.truth(session, reentrant) or named.keys() & {"context_fn", "debug"}:
        raise Abort("a checkpoint of the older kind, or with a context")
    if "preserve_rng_state" in kwargs and not container.truth(session, kwargs["preserve_rng_state"]):
        raise Abort("a checkpoint that draws other numbers the second time")
    function, *given = args
    if not all(isinstance(x, TensorV) or session.is_concrete(x) for x in (*given, *named.values())):
        raise Abort("a checkpoint of something else than tensors and numbers")
    if not isinstance(function, Obj) and not (isinstance(function, FunctionV) and all(
            isinstance(cell, CellV) and isinstance(cell.content, (TensorV, Obj)) for cell in function.cells)):
        raise Abort("a checkpoint of a function that holds what the program made")
    before = _effects(session)
    session.checkpointed += [session.recorder.current(x.tracer) for x in (*given, *named.values())
                             if isinstance(x, TensorV)]
    result = call.call(session, function, given, named)
    if _effects(session) != before:
        raise Abort("a checkpoint of a function with effects, which happen again in the backward pass")
    return result


def _effects(session: Session) -> tuple[Any, ...]:
    """How much the program has written so far."""
    views = session.views.values()
    return (sum(len(view.log) for view in views if hasattr(view, "log")), dict(session.slots),
            len(session.outside.said), len(session.deferred), len(session.gradients.log), len(session.recorder.toggled),
            [view.content for view in views if isinstance(view, CellV) and view.written],
            sum(t._count for t in session.recorder.inputs_by_source()))
