"""Writing through views: the whole base with the part that a view shows replaced."""

from __future__ import annotations

from typing import Any

from rushlight.compiler.capture.errors import Abort
from rushlight.core.op import prims


def whole(recorder: Any, base: Any, part: Any, step: Any) -> Any:
    """The base as it is after `part` was written to the view that `step` makes of it."""
    back = _INVERSE.get(step.op.name)
    if back is None:
        raise Abort(f"writing through the view {step.op.name}")
    return back(recorder, base, part, step)


def _same(recorder: Any, base: Any, part: Any, step: Any) -> Any:
    return part


def _unpermute(recorder: Any, base: Any, part: Any, step: Any) -> Any:
    order = step.params[0]
    return recorder.handle(prims.permute, (part,), (tuple(sorted(range(len(order)), key=order.__getitem__)),))


def _unview(recorder: Any, base: Any, part: Any, step: Any) -> Any:
    return recorder.handle(prims.view, (part,), (base._meta.shape,))


def _unselect(recorder: Any, base: Any, part: Any, step: Any) -> Any:
    (dim,), (index,) = step.params, step.numbers
    return _place(recorder, base, _row(recorder, part, dim), dim, index % base._meta.shape[dim], 1)


def _unbound(recorder: Any, base: Any, part: Any, step: Any) -> Any:
    dim = step.params[0]
    return _place(recorder, base, _row(recorder, part, dim), dim, step.index, 1)


def _row(recorder: Any, part: Any, dim: int) -> Any:
    shape = part._meta.shape
    return recorder.handle(prims.view, (part,), ((*shape[:dim], 1, *shape[dim:]),))


def _unslice(recorder: Any, base: Any, part: Any, step: Any) -> Any:
    dim, length, stride = step.params
    if stride != 1 and length > 1:
        raise Abort("writing through a slice with a step")
    return _place(recorder, base, part, dim, step.numbers[0], length)


def _unsplit(recorder: Any, base: Any, part: Any, step: Any) -> Any:
    sizes, dim = step.params
    return _place(recorder, base, part, dim, sum(sizes[:step.index]), sizes[step.index])


def _place(recorder: Any, base: Any, part: Any, dim: int, start: int, length: int) -> Any:
    """The base with `length` places of a dimension replaced."""
    size = base._meta.shape[dim]
    pieces = [part]
    if start:
        pieces.insert(0, recorder.handle(prims.slice, (base, 0), (dim, start, 1)))
    if start + length < size:
        pieces.append(recorder.handle(prims.slice, (base, start + length), (dim, size - start - length, 1)))
    return recorder.handle(prims.cat, tuple(pieces), (dim,)) if len(pieces) > 1 else part


_INVERSE = {"detach": _same, "alias": _same, "permute": _unpermute, "view": _unview, "select": _unselect,
            "unbind": _unbound,
            "slice": _unslice, "split": _unsplit}
