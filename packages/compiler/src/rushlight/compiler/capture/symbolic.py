"""Numbers that change from call to call: counters, learning rates.

A first capture fixes every number that it looks at. One that has changed when the next capture reads it stays open, see
`rushlight.compiler.capture.sizes`: sums, differences and products of open numbers are written into the entry as
expressions, and where one meets a tensor it becomes a 0-dimensional input of the graph. Whole numbers are symbols: they
may be compared, divided and given to functions of the framework as sizes are. Any other use looks at the value after
all, which fixes it again.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.compiler.capture.derived import Derived, derived, fix
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.source import Source
from rushlight.compiler.capture.value import Obj, TensorV, TupleV, Value, constant
from rushlight.compiler.graph.symbolic import SYMBOLS, Sym, SymFloat, as_ratio, positive
from rushlight.core import dtypes
from rushlight.core.meta import Meta
from rushlight.core.op import Op
from rushlight.core.tensor import Tensor, wrap

_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_WHOLE = {**_OPERATORS, "//": operator.floordiv, "%": operator.mod}


def opened(number: float, source: Source) -> Obj:
    """A float read through a source, left open."""
    source.check_type()
    source.wanted = True
    return Obj(number, Derived((source,), lambda name: name(source)))  # type: ignore[arg-type]


def symbol(value: Value) -> Sym | None:
    """The symbol that a value is."""
    return value.source.sym if isinstance(value, Obj) and type(value.source) is Derived else None


def holds_symbols(value: Value) -> bool:
    """Is it an open whole number, or a tuple with one?"""
    return symbol(value) is not None or isinstance(value, TupleV) and any(map(holds_symbols, value.items))


def part(session: Any, value: Value) -> Any:
    """The number or symbol of a slice's bound."""
    found = symbol(value)
    return session.concrete(value) if found is None else found


def _whole(session: Any, value: Value) -> Any:
    """An int or a symbol; None for other values."""
    found = symbol(value)
    if found is not None:
        return found
    if isinstance(value, Obj) and type(value.obj) in (int, bool) and type(value.source) is not Derived:
        return session.concrete(value)
    return None


def compared(session: Any, function: Callable, a: Value, b: Value) -> Value | None:
    """The result of a comparison of an open whole number with another; None when it is another case."""
    if symbol(a) is None and symbol(b) is None:
        return None
    x, y = _whole(session, a), _whole(session, b)
    return None if x is None or y is None else constant(function(x, y))


def arithmetic(session: Any, op: str, a: Value, b: Value) -> Value | None:
    """The result of an operation on numbers of which one is open; None when it is another case."""
    if op in _WHOLE and (symbol(a) is not None or symbol(b) is not None):
        x, y = _whole(session, a), _whole(session, b)
        if x is not None and y is not None and not (op in ("//", "%") and _hint(y) == 0):
            return constant(_WHOLE[op](x, y))
    if op == "**" and symbol(a) is not None and type(power := _whole(session, b)) is int and 0 <= power <= 4:
        return constant(symbol(a) ** power)
    function = _OPERATORS.get(op)
    if op == "/" and ((divisor := _whole(session, b)) is not None and divisor != 0 or _positive(b)):
        function = operator.truediv
    if op == "**" and _positive(a) and type(b) is Obj and type(b.obj) is float:
        function = operator.pow
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
    return Obj(function(a.obj, b.obj), Derived(roots, lambda name: f"({left(name)} {op} {right(name)})",
                                               fraction=_fraction(function.__name__, a, b)))


def _positive(value: Value) -> bool:
    """Is it a number that is computed from sizes, and above 0 for all of them?"""
    found = number_of(value) if is_open(value) else None
    return found is not None and positive(found)


def _fraction(name: str, *values: Any) -> SymFloat | None:
    """The float that a function makes of numbers, for graphs; None where one is no size and computed from none."""
    numbers = [number_of(x) for x in values]
    if any(x is None for x in numbers):
        return None
    facts = next(x.facts for x in numbers if type(x) in SYMBOLS)
    return SymFloat.of(facts, name, *numbers) if facts.fractions else None


def number_of(value: Any) -> Any:
    """A number as graphs hold it: a symbol, a float that is computed from symbols, or itself; None for other ones."""
    source = value.source
    return value.obj if type(source) is not Derived else source.fraction if source.sym is None else source.sym


def _hint(x: Any) -> int:
    return x.hint if isinstance(x, Sym) else x


# Functions of one number that the expressions in an entry may call, and those that round it.
_FUNCTIONS = {float: "float", math.sqrt: "math.sqrt", math.log: "math.log"}
_ROUNDING = (int, math.floor, math.ceil)


def applied(session: Any, function: Any, value: Value) -> Value | None:
    """A function of an open number that is at least 0, such as `math.sqrt(n)` or `int(n / 2)`; None in other cases."""
    if not is_open(value) or not (_positive(value) if symbol(value) is None else symbol(value) >= 0):
        return None
    if function in _ROUNDING:
        ratio = as_ratio(number_of(value))
        return None if ratio is None else constant(
            -(-ratio[0] // ratio[1]) if function is math.ceil else ratio[0] // ratio[1])
    if function not in _FUNCTIONS or function is math.log and not _positive(value):
        return None
    write, name = value.source.write, _FUNCTIONS[function]
    return Obj(function(value.obj), Derived(value.source.roots, lambda of: f"{name}({write(of)})",
                                            fraction=_fraction(function.__name__, value)))


def negative(value: Value) -> Value | None:
    """`-value` of an open number; None for others."""
    found = symbol(value)
    if found is not None:
        return constant(-found)
    if not is_open(value):
        return None
    source = value.source  # type: ignore[attr-defined]
    return Obj(-value.obj, Derived(source.roots, lambda name: f"(-{source.write(name)})",  # type: ignore[attr-defined, arg-type]
                                   fraction=_fraction("mul", value, constant(-1.0))))


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
    if op not in ("+", "-", "*", "/") or not is_open(number) or symbol(number) is not None:
        return None
    if dtype not in (dtypes.float32, dtypes.float64):
        return None
    return TensorV(recorder.scalar(number.source, dtype, tensor.tracer._meta.device))  # type: ignore[attr-defined]


def beside_tensors(recorder: Any, op: Op, operands: tuple) -> tuple:
    """The operands of an elementwise op with 0-dim tensors in the place of symbols that are no sizes, where that makes
    no difference: there is a program for each set of sizes, but counters would give endless programs.
    """
    tensors = [x._meta for x in operands if hasattr(x, "_meta")]
    wide = [m for m in tensors if m.ndim]
    dtype = dtypes.int64 if not wide or wide[0].dtype not in (dtypes.float32, dtypes.float64) else wide[0].dtype
    if op.name.startswith("pow"):  # whole exponents are multiplied out
        return operands
    return tuple([recorder.scalar(derived(x), dtype, tensors[0].device) if wide and counts(x) else x
                  for x in operands])


def counts(x: Any) -> bool:
    """Is it a symbol that depends on other numbers than sizes?"""
    return type(x) in SYMBOLS and any(atom.origin[1] is None for atom in x.facts.roots(x.terms))


def scalar(number: int | float, meta: Meta) -> Tensor:
    """The 0-dim tensor of a number, in the dtype in which it would be used."""
    return wrap(np.array(number, meta.numpy), meta)
