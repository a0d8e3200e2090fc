"""What a captured program writes to Python's state: buffers that it replaces become writes, the rest is refused or left
out with a warning.
"""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.source import Source, path
from rushlight.compiler.capture.tensors import Tracer
from rushlight.compiler.capture.value import CellV, TensorV, Value
from rushlight.compiler.capture.view import DictV, ListV
from rushlight.compiler.graph.ir import Value as GraphValue
from rushlight.core.tensor import Tensor
from rushlight.export.results import leaves_of

_USER = 9  # frames from here to the caller of `export`


def replaced_buffers(name: str, session: Session) -> list[tuple[Tensor, GraphValue]]:
    """The buffers that the program replaces; raises or warns of other writes to what existed before the call."""
    found: list[tuple[Tensor, GraphValue]] = []
    left_out: list[str] = []
    for (_, slot), (source, _, _) in session.slots.items():
        left_out.append(f"{path(source)}.{slot}")
    for view in session.views.values():
        if isinstance(view, CellV):
            if view.written:
                _refuse_tensor(name, session, "a variable of an enclosing function", view.content)
                left_out.append("a variable of an enclosing function")
        elif view.mutated:
            if _root(view.source).step in ("arg", "kwarg"):
                raise RuntimeError(f"{name}: the program changes the {type(view.base).__name__} {path(view.source)} "
                                   "that it is given; an exported program gets tensors alone: return what is new")
            found += _written(name, session, view, left_out)
    if session.outside.said:
        warnings.warn(f"{name}: what the program prints, logs and warns of is left out", stacklevel=_USER)
    if left_out:
        warnings.warn(f"{name}: the program writes to {', '.join(left_out)}; an exported program keeps no state of "
                      "Python's, so this is left out. Use a buffer (register_buffer) for what has to be kept",
                      stacklevel=_USER)
    return found


def _written(name: str, session: Session, view: Any, left_out: list[str]) -> list[tuple[Tensor, GraphValue]]:
    where = path(view.source)
    if not isinstance(view, DictV):
        if isinstance(view, ListV):
            for _, *arguments in view.log:
                for value in arguments:
                    _refuse_tensor(name, session, where, value)
        left_out.append(where)
        return []
    found = []
    buffers = where.endswith("._buffers")
    for key, value in dict(view.log).items():
        old = view.base.get(key)
        if buffers and isinstance(value, TensorV) and isinstance(old, Tensor):
            new = value.tracer._meta
            if (new.dtype, new.shape, new.device) != (old._meta.dtype, old._meta.shape, old._meta.device):
                raise RuntimeError(f"{name}: the program replaces the buffer {key}, which is {old._meta}, by a tensor "
                                   f"that is {new}; a buffer of an exported program keeps its shape and dtype")
            found.append((old, session.recorder.current(value.tracer)))
            continue
        at = f"{where.removeprefix('vars(').removesuffix(')')}.{key}"
        _refuse_tensor(name, session, at, value)
        left_out.append(at)
    return found


def _refuse_tensor(name: str, session: Session, where: str, value: Any) -> None:
    try:
        leaves = leaves_of(session, value)[1] if isinstance(value, Value) else []
    except Abort:
        return
    if any(isinstance(leaf.value, Tracer) for leaf in leaves):
        raise ValueError(f"{name}: the program stores a tensor in {where}. Such tensors must be buffers, made with "
                         "register_buffer before the export, or be returned")


def _root(source: Source) -> Source:
    while source.parent is not None:
        source = source.parent
    return source
