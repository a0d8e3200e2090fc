"""Numbers that the graph computes: `loss.item()`.

A program may keep, return and add them up, or let them meet tensors, before they exist: they are expressions in the
lines that follow the call of the graph. Where it asks how large they are, that is decided, see `decisions`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.compiler.capture.derived import Derived
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.symbolic import is_open, symbol
from rushlight.compiler.capture.value import Obj, TensorV, Value
from rushlight.compiler.capture.view import ListV
from rushlight.core import dtypes

if TYPE_CHECKING:
    from rushlight.compiler.capture.session import Session

_NAME = "a number from item(), which the graph has yet to compute"

Write = Callable[[Any], str]  # the expression, from the `Epilogue` that it becomes a part of


class LateV(Value):
    """A number of a known type whose value is not known before the graph ran; `tracer` if it is one element of it.

    `compute` gives its value in the call that is captured; `origin` what it is made of, if that is there before the
    graph runs.
    """

    __slots__ = ("kind", "write", "compute", "tracer", "origin", "lazy")

    def __init__(self, kind: type, write: Write, compute: Callable[[], Any], tracer: Any = None,
                 origin: Derived | None = None, lazy: Callable[[], Any] | None = None) -> None:
        self.kind, self.write, self.compute, self.tracer, self.origin = kind, write, compute, tracer, origin
        self.lazy = lazy  # gives the 0-dim tensor of what is computed from several elements


def item(session: Session, value: TensorV, kind: type | None = None) -> LateV:
    """`tensor.item()`, or `float(tensor)` and `int(tensor)` with a `kind`."""
    meta = value.tracer._meta
    if meta.numel != 1:
        raise Abort("item of a tensor with several elements")
    own = complex if meta.dtype.is_complex else float if meta.dtype.is_inexact else (
        bool if meta.dtype.category == 0 else int)
    if kind is int and own not in (int, bool) or kind is float and own is complex:
        raise Abort(f"{kind.__name__} of a {own.__name__} element")  # it may fail, or cut something off
    recorder = session.recorder
    kept = _kept(session, value)
    number = f"{kind.__name__}({{}}.item())" if kind not in (None, own) else "{}.item()"
    return LateV(kind or own, lambda epilogue: number.format(epilogue.tensor(kept)),
                 lambda: (kind or own)(session.decisions.number(recorder.current(kept))), kept)


def _kept(session: Session, value: TensorV) -> Any:
    """A tensor as it is now, apart from gradients, tangents and samples."""
    recorder, x = session.recorder, value.tracer
    if recorder.hides(x):
        raise Abort("a number that samples of vmap differ in")
    kept = recorder.tracer(x._meta.with_grad(False), recorder.current(x))
    if recorder.levels:
        kept = kept.detach()
    recorder.keep.append(kept)
    return kept


def nested(session: Session, value: TensorV) -> Value:
    """`tensor.tolist()`."""
    meta = value.tracer._meta
    if not all(type(size) is int for size in meta.shape) or meta.numel > LISTED:
        raise Abort("tolist of a tensor with many elements")
    recorder, kept = session.recorder, _kept(session, value)
    whole = LateV(list, lambda epilogue: f"{epilogue.tensor(kept)}.tolist()", lambda: None)
    kind = complex if meta.dtype.is_complex else float if meta.dtype.is_inexact else (
        bool if meta.dtype.category == 0 else int)

    def made(at: tuple[int, ...]) -> Value:
        if len(at) < meta.ndim:
            return ListV([made((*at, i)) for i in range(meta.shape[len(at)])])
        index = "".join([f"[{i}]" for i in at])
        return LateV(kind, lambda epilogue: f"{epilogue.build(whole)}{index}",
                     lambda: session.decisions.number(recorder.current(kept[at])), lazy=lambda: kept[at])

    return made(()) if meta.ndim else item(session, value)


LISTED = 256  # elements of a tensor that `tolist` may give


def arithmetic(session: Session, op: str, a: Value, b: Value) -> LateV | None:
    """A sum, difference or product with a late number; None when neither is one."""
    if not isinstance(a, LateV) and not isinstance(b, LateV):
        return None
    kinds = []
    for x in (a, b):
        kind = x.kind if isinstance(x, LateV) else type(x.obj) if isinstance(x, Obj) else None
        if kind not in (int, float) or op not in _ARITHMETIC:
            raise Abort(f"{op} with {_NAME}")
        kinds.append(kind)
        if isinstance(x, Obj) and x.source is not None and not is_open(x):
            x.source.check_type()  # its value does not matter: the expression reads it
    if op == "/" and not _is_divisor(session, b):
        raise Abort("a division by 0")
    kind = float if float in kinds or op == "/" else int
    return LateV(kind, lambda epilogue: f"({_operand(epilogue, a)} {op} {_operand(epilogue, b)})",
                 lambda: _ARITHMETIC[op](_now(a), _now(b)), origin=_joined(op, a, b),
                 lazy=lambda: _together(session, op, a, b, kind))


def _together(session: Session, op: str, a: Value, b: Value, kind: type) -> Any:
    """What arithmetic gives as a 0-dim tensor of the graph, for use beside tensors; None where that is not certain."""
    parts: list[Any] = []
    for x in (a, b):
        if isinstance(x, LateV):
            tracer = element(x)
            if tracer is None or kind is int and op not in ("+", "-"):
                return None
            if x.kind is int and not _stays_small(session, tracer):
                return None
            parts.append(tracer.reshape(()).to(dtypes.float64 if kind is float else dtypes.int64))
        elif x.source is None and (abs(x.obj) < _SMALL if type(x.obj) is int else math.isfinite(x.obj)):
            parts.append(x.obj)
        else:
            return None
    return _ARITHMETIC[op](*parts)


def element(number: LateV) -> Any:
    """A late number as the tensor with one element that it is, None if it is none."""
    return number.tracer if number.lazy is None else number.lazy()


def negative(number: LateV) -> LateV:
    """`-number`."""
    if number.kind not in (int, float):
        raise Abort(f"- of {_NAME}")
    return LateV(number.kind, lambda epilogue: f"(-{_operand(epilogue, number)})", lambda: -number.compute())


_SMALL = 1 << 31


def _stays_small(session: Session, tracer: Any) -> bool:
    """Let calls in which an integer is so large that sums with it might overflow, or be no floats, run eagerly."""
    if tracer._meta.dtype in (dtypes.int64, dtypes.uint64):
        return bool(session.recorder.put_off((tracer.abs() > 1 << 52).any()))
    return True


def _joined(op: str, a: Value, b: Value) -> Derived | None:
    """What arithmetic gives before the graph runs; None if an operand is not there yet."""
    parts = []
    for x in (a, b):
        if isinstance(x, LateV):
            if x.origin is None:
                return None
            parts.append(x.origin)
        elif x.source is None and math.isfinite(x.obj):
            parts.append(Derived((), lambda name, x=x: repr(x.obj)))
        else:
            return None
    left, right = parts
    return Derived((*left.roots, *right.roots), lambda name: f"({left.write(name)} {op} {right.write(name)})")


def compared(session: Session, op: str, a: Value, b: Value) -> bool | None:
    """The outcome of a comparison with a late number, which is decided; None when it is another case."""
    if not isinstance(a, LateV) and not isinstance(b, LateV):
        return None
    for x in (a, b):
        if isinstance(x, Obj) and type(x.obj) in (int, float, bool):
            if x.source is not None and not is_open(x):
                x.source.check_type()
        elif not isinstance(x, LateV):
            return None
    session.decisions.require(f"{op} with {_NAME}")
    return session.decisions.take(lambda epilogue: f"{_operand(epilogue, a)} {op} {_operand(epilogue, b)}",
                                  _COMPARISONS[op](_now(a), _now(b)), op)


def value(session: Session, number: Value) -> Any:
    """The value of a late number, which is decided."""
    session.decisions.require(f"the value of {_NAME}")
    return session.decisions.take(lambda epilogue: _operand(epilogue, number), _now(number), "item()")


def decide(session: Session, tracer: Any, kind: type | None) -> Any:
    """The number in a tensor, for a function of the framework that asks for it; decided."""
    session.decisions.require("the value of a tensor")
    number = item(session, TensorV(tracer), None if kind is bool else kind)
    return truth(session, number) if kind is bool else value(session, number)


def truth(session: Session, number: Value) -> bool:
    """Is a late number other than 0? That is decided."""
    session.decisions.require(f"the truth of {_NAME}")
    return session.decisions.take(lambda epilogue: f"bool({_operand(epilogue, number)})", bool(_now(number)), "bool()")


def _now(x: LateV | Obj) -> Any:
    return x.compute() if isinstance(x, LateV) else x.obj


def _is_divisor(session: Session, x: Value) -> bool:
    """Is it a number that is known not to be 0?"""
    if isinstance(x, LateV):
        return truth(session, x)
    if not isinstance(x, Obj) or type(x.obj) not in (int, float):
        return False
    sym = symbol(x)
    return session.concrete(x) != 0 if sym is None else bool(sym)


_ARITHMETIC = {"/": operator.truediv, "+": operator.add, "-": operator.sub, "*": operator.mul}
_COMPARISONS = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt,
                ">=": operator.ge}


def as_tensor(recorder: Any, op: str, number: Value, tensor: TensorV) -> TensorV | None:
    """A late number beside a tensor as the 0-dim tensor that it was, or as an input; None in other cases."""
    dtype = tensor.tracer._meta.dtype
    if not isinstance(number, LateV) or number.kind not in (int, float):
        return None
    if op not in ("+", "-", "*", "/") or dtype not in (dtypes.float32, dtypes.float64):
        return None
    if number.origin is not None:
        return TensorV(recorder.scalar(number.origin, dtype, tensor.tracer._meta.device))
    found = element(number)
    if found is None:
        return None
    return TensorV(found.reshape(()).to(dtype))


def text(value: LateV, conversion: Callable | None, spec: str) -> LateV:
    """A late number as an f-string shows it."""
    if value.kind not in (int, float, bool, str) or spec.endswith("c"):
        raise Abort(f"the text of {_NAME}")
    try:
        format(value.kind() if conversion is None else "", spec)
    except ValueError as error:
        raise Abort(str(error)) from None
    name = "" if conversion is None else conversion.__name__
    return LateV(str, lambda epilogue: f"format({name}({_operand(epilogue, value)}), {spec!r})",
                 lambda: format(value.compute() if conversion is None else conversion(value.compute()), spec))


def joined(session: Session, parts: list[Value]) -> LateV:
    """A text of which parts are late."""
    for x in parts:
        if not isinstance(x, LateV):
            session.concrete(x)
    return LateV(str, lambda epilogue: f"''.join(({', '.join(_operand(epilogue, x) for x in parts)},))",  # type: ignore[arg-type]
                 lambda: "".join([x.compute() if isinstance(x, LateV) else x.obj for x in parts]))  # type: ignore[attr-defined]


def _operand(epilogue: Any, x: LateV | Obj) -> str:
    if isinstance(x, LateV):
        return epilogue.build(x)
    return epilogue.writer.hold(x.obj) if x.source is None else epilogue.source(x.source)


def refuse(*values: Value) -> None:
    """Give up where the program wants to know a number that the graph has yet to compute."""
    if any(isinstance(x, LateV) for x in values):
        raise Abort(f"the value of {_NAME}")
