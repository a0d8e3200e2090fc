"""Numbers that change from call to call: counters, learning rates.

A first capture fixes every number that it looks at. When a guard later fails because of one, the next capture keeps it
open: sums, differences and products of open numbers are written into the entry as expressions, and where one meets a
floating-point tensor it becomes a 0-dimensional input of the graph. Any other use looks at the value after all, which
fixes it again.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.source import Source
from rushlight.compiler.capture.value import Obj, TensorV, Value
from rushlight.core import dtypes
from rushlight.core.meta import Meta
from rushlight.core.tensor import Tensor, wrap

_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


class Derived:
    """The source of an open number: an expression over sources whose values are not fixed."""

    __slots__ = ("roots", "write", "wanted")

    step = "derived"

    def __init__(self, roots: tuple[Source, ...], write: Callable[[Callable[[Source], str]], str]) -> None:
        self.roots, self.write, self.wanted = roots, write, False

    def check_type(self) -> None:
        """It is checked already."""

    def check_identity(self) -> None:
        """Identity says more than can stay open."""
        self.check()

    def check(self, *detail: Any) -> None:
        """Somebody looked at the value: fix all that it was computed from."""
        for root in self.roots:
            fix(root)


def fix(root: Source) -> None:
    """Make a number count by its value."""
    number = root.example
    if number != number:
        raise Abort("control over a NaN")
    root.check("eq", type(number), repr(number) if type(number) is float else number)


def opened(obj: int | float, source: Source) -> Obj:
    """A number read through a source, left open."""
    source.check_type()
    source.wanted = True
    return Obj(obj, Derived((source,), lambda name: name(source)))  # type: ignore[arg-type]


def arithmetic(op: str, a: Value, b: Value) -> Obj | None:
    """The result of an operation on numbers of which one is open; None when it is another case."""
    function = _OPERATORS.get(op)
    if function is None or not all(isinstance(x, Obj) and type(x.obj) in (int, float) for x in (a, b)):
        return None
    kinds = [type(x.source) is Derived for x in (a, b)]
    if not any(kinds):
        return None
    for x, open_ in zip((a, b), kinds):
        if not open_ and x.source is not None:
            fix(x.source)
    roots = tuple(dict.fromkeys(r for x, open_ in zip((a, b), kinds) if open_ for r in x.source.roots))
    left, right = (x.source.write if open_ else _literal(x.obj) for x, open_ in zip((a, b), kinds))
    return Obj(function(a.obj, b.obj), Derived(roots, lambda name: f"({left(name)} {op} {right(name)})"))


def _literal(number: int | float) -> Callable[[Any], str]:
    if number != number or number in (math.inf, -math.inf):
        raise Abort("arithmetic with an infinity")
    return lambda name: repr(number)


def is_open(value: Value) -> bool:
    """Is it a number whose value is not fixed?"""
    return isinstance(value, Obj) and type(value.source) is Derived


def as_tensor(recorder: Any, op: str, number: Value, tensor: TensorV) -> TensorV | None:
    """An open number beside a tensor as a 0-dim tensor that makes no difference to the result; None in other cases."""
    dtype = tensor.tracer._meta.dtype
    if op not in ("+", "-", "*", "/") or not is_open(number) or dtype not in (dtypes.float32, dtypes.float64):
        return None
    return TensorV(recorder.scalar(number.source, dtype, tensor.tracer._meta.device))  # type: ignore[attr-defined]


def scalar(number: int | float, meta: Meta) -> Tensor:
    """The 0-dim tensor of a number, in the dtype in which it would be used."""
    return wrap(np.array(number, meta.numpy), meta)
