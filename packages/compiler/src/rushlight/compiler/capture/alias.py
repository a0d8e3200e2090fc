"""Which objects were the same at capture, and must be (or must not be) the same again.

The dry run knows objects by identity: what is read or written through one path is seen through every other path to the
same object. A later call may only reuse it when these paths meet again. Paths that did not meet must stay apart where
the program writes.
"""

from __future__ import annotations

from rushlight.compiler.capture.deferred import looks_at_state
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.memory import share_memory
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.source import Source
from rushlight.compiler.capture.view import DictV, ExistingSetV, ListV


def require_aliasing(session: Session) -> None:
    """Add the relations between sources that the captured writes depend on."""
    _objects(session)
    _keys(session)
    _tensors(session)
    _late(session)


def _objects(session: Session) -> None:
    written = _written(session)
    groups: dict[type, list[list[Source]]] = {}
    dirty: set[type] = set()
    for obj in {id(obj): obj for obj in session.keep}.values():
        sources = session.seen.get(id(obj))
        if not sources:
            continue
        groups.setdefault(type(obj), []).append(list(sources))
        if id(obj) in written:
            dirty.add(type(obj))
    for kind, found in groups.items():
        for sources in found:
            for other in sources[1:]:
                session.tree.relate("same", sources[0], other)
        if kind in dirty and len(found) > 1:
            session.tree.relate("distinct", *[sources[0] for sources in found])


def _keys(session: Session) -> None:
    """Objects used as keys: equal where they were the same, different where they were not."""
    found = [list(sources) for sources in session.compared.values()]
    for sources in found:
        for other in sources[1:]:
            session.tree.relate("same", sources[0], other)
    if len(found) > 1:
        session.tree.relate("distinct", *[sources[0] for sources in found])


def _written(session: Session) -> set[int]:
    """The ids of existing objects that the program wrote to."""
    found = {key[0] for key in session.slots}
    for view in session.views.values():
        if isinstance(view, (ListV, DictV, ExistingSetV)) and view.mutated:
            found.add(id(view.base))
            if view.source.step == "vars":
                found.add(id(view.source.parent.example))
    return found


def _late(session: Session) -> None:
    """What is read after an optimizer's step must be what was found to be changed by it, or not."""
    for call, unchanged in zip(session.deferred, session.recorder.stages.unchanged):
        if call.optimizer is None:
            continue
        if looks_at_state(session, call.optimizer.example):
            raise Abort("a program that looks at the state of an optimizer and calls its step")
        if unchanged:
            session.tree.unchanged.append((call.optimizer, [t._origin for t in unchanged], call.scales))
            call.optimizer.wanted = True
        for t in unchanged:
            t._origin.wanted = True


def _tensors(session: Session) -> None:
    recorder = session.recorder
    inputs = recorder.inputs_by_source()
    written = [t for t in inputs if t._count]
    if not written:
        return
    for target in written:
        for other in inputs:
            if other is target:
                continue
            if share_memory(recorder.real(target), recorder.real(other)):
                raise Abort("a written tensor shares memory with another input")
    session.tree.apart.append(([t._origin for t in written], [t._origin for t in inputs if not t._count]))
    for t in inputs:
        t._origin.wanted = True
