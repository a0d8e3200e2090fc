"""Calls that run as they are, after the graph: the step of an optimizer.

An optimizer updates all its parameters in one native call of its own, and a program rarely looks at them afterwards. So
its step is not captured: the graph computes up to the gradients, they are put where the optimizer finds them, and its
step is called. What the program does after that may neither read what the step changes nor write to what it reads.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.source import Source
from rushlight.compiler.capture.value import NONE, Obj, Special, Value

if TYPE_CHECKING:
    from rushlight.compiler.capture.session import Session


class Deferred(NamedTuple):
    """A call `fn(owner)` after the graph, and how many writes of each view, and to gradients, came before it."""

    fn: FunctionType
    owner: Source
    writes: dict[int, int]
    gradients: int


def optimizer_step(session: Session, fn: FunctionType, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """`optimizer.step()` of an optimizer of ours that nobody watches; None for other calls."""
    if len(args) != 1 or kwargs or not isinstance(args[0], Obj) or args[0].source is None:
        return None
    owner = args[0]
    if not session.type_of(owner).__module__.startswith("rushlight.optim"):
        return None
    attributes = session.attributes(owner)
    if _exchanged(session, owner):
        raise Abort("an optimizer whose parameters the program exchanges")
    for name in ("_pre_hooks", "_post_hooks"):
        hooks = session.as_dict(attributes.get(name))
        if hooks is None or not hooks.empty():
            raise Abort("an optimizer with hooks")
    writes = {id(view): len(view.log) for view in session.views.values() if hasattr(view, "log")}
    session.deferred.append(Deferred(fn, owner.source, writes, len(session.gradients.log)))
    owner.source.wanted = True
    attributes.entries["state"] = Special("the state of an optimizer after its step")
    session.recorder.seal()
    return NONE


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
