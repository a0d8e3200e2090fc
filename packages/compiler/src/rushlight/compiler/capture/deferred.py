"""Calls that run as they are, after the graph: the step of an optimizer, and what a gradient scaler does.

An optimizer updates all its parameters in one native call of its own, and a program rarely looks at them afterwards. So
its step is not captured: the graph computes up to the gradients, they are put where the optimizer finds them, and its
step is called. What the program reads after that of what the step changes belongs to a later stage, see `stages`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.memory import changed_by
from rushlight.compiler.capture.places import standing_at
from rushlight.compiler.capture.source import Source
from rushlight.compiler.capture.state import grad_mode
from rushlight.compiler.capture.value import NONE, Obj, Special, TensorV, Value

if TYPE_CHECKING:
    from rushlight.compiler.capture.session import Session


Call = Callable[["Session", Value, list[Value], dict[str, Value]], Value]


class Deferred(NamedTuple):
    """A call `fn(*arguments)` after the graph, and what comes before it: how many writes of each view, and to
    gradients, and which to tensors.

    It changes what the step of `optimizer` changes, and with `scales` the gradients too.
    """

    fn: Callable[..., Any]
    arguments: tuple[Source, ...]
    optimizer: Source | None
    scales: bool
    writes: dict[int, int]
    gradients: int
    flush: list


def optimizer_step(session: Session, call: Call, fn: FunctionType, args: list[Value],
                   kwargs: dict[str, Value]) -> Value | None:
    """`optimizer.step()` of an optimizer of ours that nobody watches; None for other calls."""
    closure = dict(enumerate(args[1:])).get(0, kwargs.get("closure"))
    if len(args) > 2 or kwargs.keys() - {"closure"} or not isinstance(args[0], Obj) or args[0].source is None:
        return None
    if not session.type_of(args[0]).__module__.startswith("rushlight.optim"):
        return None
    owner, loss = _checked(session, args[0]), NONE
    if closure is not None and not session.is_none(closure):
        with grad_mode(True):
            loss = call(session, closure, [], {})
        _checked(session, args[0])
    put_off(session, fn, (args[0],), owner, False)
    return loss


_SCALER_STATE = ("_scale", "_growth_tracker", "_stages", "_found_inf")


def scaler_call(session: Session, fn: FunctionType, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """`unscale_`, `step` and `update` of an enabled gradient scaler; None for other calls."""
    scaler, *others = args
    if not isinstance(scaler, Obj) or scaler.source is None or kwargs:
        return None
    attributes = session.attributes(scaler)
    if session.type_of(scaler).__module__ != "rushlight.amp.grad_scaler":
        return None
    enabled = attributes.get("_enabled")
    if enabled is None or not session.concrete(enabled):
        return None
    optimizer = None
    if fn.__name__ != "update":
        if len(others) != 1 or not isinstance(others[0], Obj) or others[0].source is None:
            raise Abort("a gradient scaler with other arguments than an optimizer")
        if not session.type_of(others[0]).__module__.startswith("rushlight.optim"):
            raise Abort("a gradient scaler with an optimizer of the program")
        optimizer = _checked(session, others[0])
    elif others:
        raise Abort("a gradient scaler that is given a factor")
    scales = optimizer is not None and not any(call.scales and call.fn.__name__ == "unscale_" and
                                               call.optimizer is optimizer.source for call in session.deferred)
    put_off(session, fn, (scaler, *others), optimizer, scales)
    for name in _SCALER_STATE:
        attributes.entries[name] = Special("the state of a gradient scaler that has been used")
    return NONE


def _checked(session: Session, owner: Obj) -> Obj:
    """An optimizer that may step after the graph."""
    attributes = session.attributes(owner)
    if _exchanged(session, owner):
        raise Abort("an optimizer whose parameters the program exchanges")
    for name in ("_pre_hooks", "_post_hooks"):
        hooks = session.as_dict(attributes.get(name))
        if hooks is None or not hooks.empty():
            raise Abort("an optimizer with hooks")
    return owner


def put_off(session: Session, fn: FunctionType, args: tuple, optimizer: Obj | None, scales: bool) -> None:
    """Let a call run after what the graph computes up to here."""
    writes = {id(view): len(view.log) for view in session.views.values() if hasattr(view, "log")}
    real = None if optimizer is None else optimizer.obj
    stages = session.recorder.stages
    flush = stages.seal(lambda tensors: real is not None and changed_by(real, tensors, scales))
    places = [(frame.code, frame.line) for frame in session.frames]
    session.deferred.append(Deferred(standing_at(places, fn), tuple([x.source for x in args]),
                                     optimizer and optimizer.source, scales, writes, len(session.gradients.log), flush))
    for x in args:
        x.source.wanted = True
    if optimizer is not None:
        session.attributes(optimizer).entries["state"] = Special("the state of an optimizer after its step")
        if scales:
            for group in real.param_groups:
                for p in group["params"]:
                    tracer = session.recorder.leaves.get(id(p))
                    grad = None if tracer is None else session.gradients.now(tracer)
                    if isinstance(grad, TensorV) and grad.tracer._origin is None:
                        stages.hold(grad.tracer)


def _exchanged(session: Session, optimizer: Obj) -> bool:
    """Did the program write to the groups of an optimizer, other than to their options?"""

    def written(container: Any, key: str | None = None) -> bool:
        view = session.views.get(id(container))
        return view is not None and any(key is None or write[0] == key for write in view.log)

    groups = optimizer.obj.param_groups
    return written(vars(optimizer.obj), "param_groups") or written(groups) or any(
        written(group, "params") or written(group["params"]) for group in groups)


def looks_at_state(session: Session, optimizer: Any) -> bool:
    """Did the program read the state of an optimizer, by whatever path? It is another one after the step."""
    state = optimizer.state
    return not session.views.keys().isdisjoint([id(state), *map(id, state.values())])
