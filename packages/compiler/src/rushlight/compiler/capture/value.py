"""What the interpreter's stack holds.

An `Obj` is a concrete Python object and the source it was read through (None: computed from guarded values only).
Everything that the captured program makes itself and that could still change is a class of its own, so the real
program state is never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rushlight.compiler.capture.derived import derived
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.source import Source
from rushlight.compiler.graph.symbolic import Sym


class Value:
    """Base of all interpreted values."""

    __slots__ = ()


class Obj(Value):
    """A concrete object. With a source, its value counts only once it is looked at (see `Session.concrete`)."""

    __slots__ = ("obj", "source")

    def __init__(self, obj: Any, source: Source | None = None) -> None:
        self.obj, self.source = obj, source

    def __repr__(self) -> str:
        return f"Obj({self.obj!r}, {self.source})"


class TensorV(Value):
    """A tensor: the tracer that stands for it and, when it existed before the call, where it was read."""

    __slots__ = ("tracer", "source")

    def __init__(self, tracer: Any, source: Source | None = None) -> None:
        self.tracer, self.source = tracer, source


class TupleV(Value):
    """A tuple built by the program; `kind` is tuple or a named tuple class."""

    __slots__ = ("items", "kind")

    def __init__(self, items: list[Value], kind: type = tuple) -> None:
        self.items, self.kind = items, kind


class CellV(Value):
    """A closure cell: `content` None is an empty cell, `base` the real cell if it existed before."""

    __slots__ = ("content", "base", "source", "written")

    def __init__(self, content: Value | None = None, base: Any = None, source: Source | None = None) -> None:
        self.content, self.base, self.source, self.written = content, base, source, False


class FunctionV(Value):
    """A function made by the program (def, lambda, comprehension); `wrapped` is the one that it is named after."""

    __slots__ = ("code", "globals", "cells", "defaults", "kwdefaults", "annotations", "wrapped")

    def __init__(self, code: Any, namespace: dict) -> None:
        self.code, self.globals = code, namespace
        self.cells: list[CellV] = []
        self.defaults: list[Value] = []
        self.kwdefaults: dict[str, Value] = {}
        self.annotations: Value | None = None
        self.wrapped: Value | None = None


class MethodV(Value):
    """A function bound to its first argument."""

    __slots__ = ("func", "self")

    def __init__(self, func: Value, self_: Value) -> None:
        self.func, self.self = func, self_


class BoundBuiltin(Value):
    """A method of a builtin type, bound: `"".join`, `items.append`."""

    __slots__ = ("name", "self")

    def __init__(self, name: str, self_: Value) -> None:
        self.name, self.self = name, self_


class InstanceV(Value):
    """An instance of a user class that the program made."""

    __slots__ = ("cls", "attrs")

    def __init__(self, cls: type, attrs: Value) -> None:
        self.cls, self.attrs = cls, attrs


class ContextV(Value):
    """The `ctx` of a call of a Function that the program defines."""

    __slots__ = ("attrs", "saved", "closed_off", "materialize", "closed")

    def __init__(self) -> None:
        self.attrs: dict[str, Value] = {}
        self.saved: list[TensorV | None] = []
        self.closed_off: list[TensorV] = []  # outputs without gradient
        self.materialize = True  # does backward get zeros where no gradient came?
        self.closed = False  # has forward returned?


class SuperV(Value):
    """`super()`: attribute lookup on `self` that starts after `cls`."""

    __slots__ = ("cls", "self")

    def __init__(self, cls: type, self_: Value) -> None:
        self.cls, self.self = cls, self_


class SetV(Value):
    """A set of plain keys that the program made. It holds a real set, so the order of iteration is the real one."""

    __slots__ = ("keys",)

    def __init__(self, keys: set) -> None:
        self.keys = keys


class ObjectKey:
    """A dict or set key that is compared by identity; `number` says that it is the object's `id()`."""

    __slots__ = ("identity", "value", "number")

    def __init__(self, identity: Any, value: Value, number: bool = False) -> None:
        self.identity, self.value, self.number = identity, value, number

    def __hash__(self) -> int:
        return id(self.identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectKey) and self.identity is other.identity and self.number is other.number


class IdV(Value):
    """`id(x)`: may be compared and used as a key, but its number is not known."""

    __slots__ = ("key",)

    def __init__(self, key: ObjectKey) -> None:
        self.key = key


class IterV(Value):
    """An iterator over values."""

    __slots__ = ("steps",)

    def __init__(self, steps: Iterator[Value]) -> None:
        self.steps = steps

    def next(self, session: Any) -> Value | None:
        """The next value, or None at the end."""
        return next(self.steps, None)


class GeneratorV(Value):
    """A generator: a frame that stops at each yield."""

    __slots__ = ("frame", "done", "result")

    def __init__(self, frame: Any) -> None:
        self.frame, self.done, self.result = frame, False, None

    def next(self, session: Any, sent: Value | None = None) -> Value | None:
        """Run to the next yield; None at the end, with the return value left in `result`."""
        if self.done:
            return None
        if self.frame.running:
            raise Abort("a generator that advances itself")
        self.done = True  # an exception ends a generator too
        try:
            value = self.frame.resume(sent)
        except Raised as raised:
            if isinstance(raised.value, StopIteration):
                raise Abort("StopIteration raised inside a generator") from None
            raise
        if self.frame.finished:
            self.result = value
            return None
        self.done = False
        return value


class Special(Value):
    """A marker on the stack (the NULL of the call protocol, an exit function of a context manager)."""

    __slots__ = ("name", "act")

    def __init__(self, name: str, act: Callable | None = None) -> None:
        self.name, self.act = name, act

    def __repr__(self) -> str:
        return f"<{self.name}>"


NULL = Special("NULL")
NONE = Obj(None)
TRUE, FALSE = Obj(True), Obj(False)


def constant(obj: Any) -> Any:
    """A value that depends on nothing outside the program."""
    if type(obj) is Sym:
        return Obj(obj.hint, derived(obj))  # type: ignore[arg-type]
    if type(obj) is ObjectKey:
        return IdV(obj) if obj.number else obj.value
    return NONE if obj is None else TRUE if obj is True else FALSE if obj is False else Obj(obj)
