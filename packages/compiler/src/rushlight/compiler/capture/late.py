"""Numbers that the graph computes: `loss.item()`.

What a program does with them is decided before they exist, so it may keep, return and add them up, or let them meet
tensors, but not ask how large they are. They are expressions in the lines that follow the call of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.symbolic import is_open
from rushlight.compiler.capture.value import Obj, TensorV, Value
from rushlight.core import dtypes

if TYPE_CHECKING:
    from rushlight.compiler.capture.session import Session

_NAME = "a number from item(), which the graph has yet to compute"

Write = Callable[[Any], str]  # the expression, from the `Epilogue` that it becomes a part of


class LateV(Value):
    """A number of a known type whose value is not known before the graph ran; `tracer` if it is one element of it."""

    __slots__ = ("kind", "write", "tracer")

    def __init__(self, kind: type, write: Write, tracer: Any = None) -> None:
        self.kind, self.write, self.tracer = kind, write, tracer


def item(session: Session, value: TensorV, kind: type | None = None) -> LateV:
    """`tensor.item()`, or `float(tensor)` and `int(tensor)` with a `kind`."""
    meta = value.tracer._meta
    if meta.numel != 1:
        raise Abort("item of a tensor with several elements")
    own = complex if meta.dtype.is_complex else float if meta.dtype.is_inexact else (
        bool if meta.dtype.category == 0 else int)
    if kind is int and own is not int or kind is float and own is complex:
        raise Abort(f"{kind.__name__} of a {own.__name__} element")  # it may fail, or cut something off
    recorder = session.recorder
    kept = recorder.tracer(meta.with_grad(False), recorder.current(value.tracer))  # as it is now
    recorder.keep.append(kept)
    number = f"{kind.__name__}({{}}.item())" if kind not in (None, own) else "{}.item()"
    return LateV(kind or own, lambda epilogue: number.format(epilogue.tensor(kept)), kept)


def arithmetic(session: Session, op: str, a: Value, b: Value) -> LateV | None:
    """A sum, difference or product with a late number; None when neither is one."""
    if not isinstance(a, LateV) and not isinstance(b, LateV):
        return None
    kinds = []
    for x in (a, b):
        kind = x.kind if isinstance(x, LateV) else type(x.obj) if isinstance(x, Obj) else None
        if kind not in (int, float) or op not in ("+", "-", "*"):
            raise Abort(f"{op} with {_NAME}")
        kinds.append(kind)
        if isinstance(x, Obj) and x.source is not None and not is_open(x):
            x.source.check_type()  # its value does not matter: the expression reads it
    return LateV(float if float in kinds else int,
                 lambda epilogue: f"({_operand(epilogue, a)} {op} {_operand(epilogue, b)})")


def as_tensor(op: str, number: Value, tensor: TensorV) -> TensorV | None:
    """A late number beside a tensor as the 0-dim tensor that it was; None in other cases."""
    dtype = tensor.tracer._meta.dtype
    if not isinstance(number, LateV) or number.tracer is None or number.kind not in (int, float):
        return None
    if op not in ("+", "-", "*", "/") or dtype not in (dtypes.float32, dtypes.float64):
        return None
    return TensorV(number.tracer.reshape(()).to(dtype))


def _operand(epilogue: Any, x: LateV | Obj) -> str:
    if isinstance(x, LateV):
        return epilogue.build(x)
    return epilogue.writer.hold(x.obj) if x.source is None else epilogue.source(x.source)


def refuse(*values: Value) -> None:
    """Give up where the program wants to know a number that the graph has yet to compute."""
    if any(isinstance(x, LateV) for x in values):
        raise Abort(f"the value of {_NAME}")
