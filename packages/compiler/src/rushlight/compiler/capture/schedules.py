"""`scheduler.step()` inside a captured program: it runs as it is, after the graph.

A schedule counts epochs and computes rates from their number. Captured, each epoch would need a variant of its own; and
nothing of it concerns the graph.
"""

from __future__ import annotations

import dis
import math
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

from rushlight.compiler.capture.deferred import put_off
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.late import LateV
from rushlight.compiler.capture.value import NONE, Obj, Special, Value
from rushlight.compiler.capture.view import ListV

if TYPE_CHECKING:
    from rushlight.compiler.capture.session import Session

_HOME = "rushlight.optim.lr_scheduler"
_ONE_OPTIMIZER = frozenset(("base", "decay", "cyclic"))
_WRITES = ("STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR", "STORE_SUBSCR", "DELETE", "IMPORT", "YIELD", "SEND")


def scheduler_step(session: Session, fn: FunctionType, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """`scheduler.step()` of a schedule of ours for one optimizer; None for other calls."""
    owner = args[0]
    if len(args) != 1 or kwargs or not isinstance(owner, Obj) or owner.source is None:
        return None
    cls = session.type_of(owner)
    if not cls.__module__.startswith(_HOME) or cls.__module__.rpartition(".")[2] not in _ONE_OPTIMIZER:
        return None
    scheduler = owner.obj
    for name, lambdas in vars(scheduler).items():
        if name.endswith(("lambda", "lambdas", "_fn")) or callable(lambdas):
            if not all(map(pure, lambdas if isinstance(lambdas, list) else [lambdas])):
                return None
            _pin(session, owner, name)
    if session.slots or any(getattr(view, "written", False) for view in session.views.values()):
        return None  # these writes come last, and its functions might look at them
    attributes, groups = session.attributes(owner), scheduler.optimizer.param_groups
    optimizer = attributes.get("optimizer")
    if not isinstance(optimizer, Obj) or any(type(group["lr"]) is not float for group in groups):
        return None
    listed = session.as_list(session.attributes(optimizer).get("param_groups"))
    views = None if listed is None else [session.as_dict(group) for group in listed.load()]
    if views is None or None in views:
        return None
    put_off(session, fn, (owner,), None, False)
    used = Special("the state of a schedule after its step")
    for name in vars(scheduler):
        if name != "optimizer":
            attributes.entries[name] = used
    for i, (view, group) in enumerate(zip(views, groups)):
        for name in group.keys() - {"params", "lr"}:
            if name in ("momentum", "betas"):
                view.entries[name] = used
        view.entries["lr"] = _rate(optimizer, i)
    rates = ListV([_rate(optimizer, i) for i in range(len(groups))])
    session.foreign.append((rates, list(rates.items)))  # type: ignore[arg-type]
    attributes.entries["_last_lr"] = rates
    return NONE


def _rate(optimizer: Obj, i: int) -> LateV:
    """The rate of a group once the schedule has set it."""

    def unknown() -> Any:
        raise Abort("a rate that a schedule has yet to set")

    return LateV(float, lambda epilogue: f"{epilogue.source(optimizer.source)}.param_groups[{i}]['lr']", unknown)


def _pin(session: Session, owner: Obj, name: str) -> None:
    """Make the program depend on which functions a schedule has."""
    found = session.attributes(owner).get(name)
    listed = session.as_list(found)
    for value in [found] if listed is None else listed.load():
        session.concrete(value)


def pure(fn: Any) -> bool:
    """Does a function only compute with numbers?"""
    if type(fn) in (type(None), int, float, str):
        return True
    if isinstance(fn, BuiltinFunctionType):
        return fn.__module__ in ("math", "builtins") and fn.__name__ not in ("print", "open", "exec", "eval", "setattr")
    if type(fn) is not FunctionType:
        return any(fn is known for known in (float, int, bool, math))
    if fn.__module__.startswith(_HOME):
        return True
    for ins in dis.get_instructions(fn):
        if ins.opname.startswith(_WRITES):
            return False
        if ins.opname in ("LOAD_ATTR", "LOAD_METHOD") and not hasattr(math, ins.argval):
            return False
        if ins.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            builtins = fn.__globals__["__builtins__"]
            space = builtins if isinstance(builtins, dict) else vars(builtins)
            found = fn.__globals__.get(ins.argval, space.get(ins.argval, object()))
            if found is fn or not pure(found):
                return False
    try:
        return all(pure(cell.cell_contents) for cell in fn.__closure__ or ())
    except ValueError:
        return False
