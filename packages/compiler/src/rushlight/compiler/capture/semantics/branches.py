"""`rushlight.cond` on a tensor: both branches are captured, and the results are chosen with `where`.

Branches compute and return tensors; they may neither write to what exists outside of them nor draw random numbers,
because both run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import rushlight
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.semantics import tensor
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.tensors import Tracer
from rushlight.compiler.capture.value import Obj, TensorV, TupleV, Value
from rushlight.compiler.capture.view import DictV, ListV

Call = Callable[[Session, Value, list[Value], dict[str, Value]], Value]


def cond(session: Session, call: Call, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """`cond(pred, true_fn, false_fn, operands)` on a tensor; None where its own code does: where the program may depend
    on data, and where `pred` is known.
    """
    given = dict(zip(("pred", "true_fn", "false_fn", "operands"), args)) | kwargs
    pred = given.get("pred")
    if session.decisions.allowed or not isinstance(pred, TensorV) or "true_fn" not in given or "false_fn" not in given:
        return None
    if pred.tracer._meta.numel != 1:
        raise Abort("cond on a tensor with several elements")
    operands: list[Value] = []
    if "operands" in given:
        items = session.as_list(given["operands"])
        found = tensor.unwrap(session, given["operands"]) if items is None else None
        operands = items.load() if items is not None else [_value(session, x) for x in found]
    results = []
    for name in ("true_fn", "false_fn"):
        with _apart(session):
            results.append(call(session, given[name], operands, {}))
    chosen = pred.tracer.reshape(())
    if chosen.dtype is not rushlight.bool:
        chosen = chosen != 0
    return _chosen(session, chosen, *results)


def _value(session: Session, x: Any) -> Value:
    return session.recorder.value_of(x) if isinstance(x, Tracer) else Obj(x)


@contextmanager
def _apart(session: Session) -> Iterator[None]:
    """Refuse what a branch leaves behind besides its results."""
    recorder: Any = session.recorder
    made: set[Tracer] = set()
    tracer, assign = recorder.tracer, recorder.assign
    before = _traces(session)

    def noted(*args: Any, **kwargs: Any) -> Tracer:
        found: Tracer = tracer(*args, **kwargs)
        made.add(found)
        return found

    def guarded(target: Tracer, *args: Any, **kwargs: Any) -> Any:
        if target._root not in made or target._root._origin is not None:
            raise Abort("a branch of cond that writes to a tensor from outside; return the new value instead")
        return assign(target, *args, **kwargs)

    recorder.tracer, recorder.assign = noted, guarded
    try:
        yield
    finally:
        recorder.tracer, recorder.assign = tracer, assign
    if _traces(session) != before:
        raise Abort("a branch of cond that draws random numbers or writes to Python objects from outside")


def _traces(session: Session) -> tuple:
    logs = sum(len(view.log) for view in session.views.values() if hasattr(view, "log"))
    cells = sum(bool(getattr(view, "written", False)) for view in session.views.values())
    recorder = session.recorder
    return (logs, cells, len(session.slots), len(session.deferred), len(session.gradients.log), len(recorder.drawn),
            len(recorder.freed), len(recorder.wrong))


def _chosen(session: Session, pred: Tracer, a: Value, b: Value) -> Value:
    """The result of one branch or the other, leaf by leaf."""
    if isinstance(a, TensorV) and isinstance(b, TensorV):
        x, y = a.tracer, b.tracer
        if (x.dtype, x._meta.device) != (y.dtype, y._meta.device) or x._meta.shape != y._meta.shape:
            raise Abort(f"cond whose branches give {x._meta} and {y._meta}; both must give the same dtype and shape")
        return tensor.wrap(session, rushlight.where(pred, x, y))
    if isinstance(a, TupleV) and isinstance(b, TupleV) and a.kind is b.kind and len(a.items) == len(b.items):
        return TupleV([_chosen(session, pred, x, y) for x, y in zip(a.items, b.items)], a.kind)
    lists = session.as_list(a), session.as_list(b)
    if lists[0] is not None and lists[1] is not None and len(lists[0].load()) == len(lists[1].load()):
        return ListV([_chosen(session, pred, x, y) for x, y in zip(lists[0].load(), lists[1].load())])
    dicts = session.as_dict(a), session.as_dict(b)
    if dicts[0] is not None and dicts[1] is not None and list(dicts[0].load()) == list(dicts[1].load()):
        return DictV({key: _chosen(session, pred, x, dicts[1].load()[key]) for key, x in dicts[0].load().items()})
    if session.is_concrete(a) and session.is_concrete(b):
        x, y = session.concrete(a), session.concrete(b)
        if type(x) is type(y) and repr(x) == repr(y):
            return a
    raise Abort("cond whose branches give results of different kinds")
