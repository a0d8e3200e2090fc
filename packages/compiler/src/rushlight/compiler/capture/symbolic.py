"""Numbers that change from call to call: counters, learning rates.

A first capture fixes every number that it looks at. One that has changed when the next capture reads it stays open, see
`rushlight.compiler.capture.sizes`: what arithmetic and the functions of `math` make of open numbers is written into the
entry as expressions, and where one meets a tensor it becomes a 0-dimensional input of the graph. Whole numbers are
symbols: they may be compared, divided and given to functions of the framework as sizes are. What is asked of floats,
`lr < 0.1` or `int(epoch / 10)`, is asked again in each call, and must come out as it did. Any other use looks at the
value after all, which fixes it again.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.compiler.capture.derived import Asked, Derived, derived, fix
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.source import Source
from rushlight.compiler.capture.value import Obj, TensorV, TupleV, Value, constant
from rushlight.compiler.graph.symbolic import SYMBOLS, Sym, SymFloat, as_ratio, positive
from rushlight.core import dtypes
from rushlight.core.meta import Meta, meta
from rushlight.core.op import Op
from rushlight.core.quiet import quiet
from rushlight.core.tensor import Tensor, wrap

_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_WHOLE = {**_OPERATORS, "//": operator.floordiv, "%": operator.mod}
_RELATIONS = {operator.lt: "<", operator.le: "<=", operator.eq: "==", operator.ne: "!=", operator.gt: ">",
              operator.ge: ">="}


def opened(number: float, source: Source) -> Obj:
    """A float read through a source, left open."""
    source.check_type()
    source.wanted = True
    return Obj(number, Derived((source,), lambda name: name(source), mere=True))  # type: ignore[arg-type]


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
    """The result of a comparison of an open number with another; None when it is another case."""
    if symbol(a) is not None or symbol(b) is not None:
        x, y = _whole(session, a), _whole(session, b)
        if x is not None and y is not None:
            return constant(function(x, y))
    if not _numbers(a, b):
        return None
    left, right, text = _written(a), _written(b), _RELATIONS[function]
    return _ask(session, lambda name: f"{left(name)} {text} {right(name)}", function(a.obj, b.obj), a, b)  # type: ignore[attr-defined]


def _numbers(*values: Any) -> bool:
    """Are these plain numbers of which one is open?"""
    return any(map(is_open, values)) and all(isinstance(x, Obj) and type(x.obj) in (int, float, bool) for x in values)


def _written(value: Any) -> Callable[[Any], str]:
    """The expression of a number; one that is not open is fixed."""
    if is_open(value):
        return value.source.write
    if value.source is not None:
        fix(value.source)
    if value.obj in (math.inf, -math.inf):
        return lambda name: f"float({str(value.obj)!r})"
    return _literal(value.obj)


def _roots(*values: Any) -> tuple:
    return tuple(dict.fromkeys(root for x in values if is_open(x) for root in x.source.roots))


def _ask(session: Any, write: Callable[[Any], str], found: Any, *values: Value) -> Obj:
    """What an expression over open numbers gives, in all calls that a program is for."""
    if found != found:
        raise Abort("control over a NaN")
    if session.exports:  # a program of its own asks nothing
        for root in _roots(*values):
            fix(root)
    else:
        session.asked.append(Asked(_roots(*values), write, found))
    return constant(found)


def asked(session: Any, source: Derived, found: Any) -> bool:
    """Make the program depend on what an expression gives, not on the numbers in it; False for a mere number."""
    if source.sym is not None or source.mere:
        return False
    _ask(session, source.write, found, Obj(found, source))  # type: ignore[arg-type]
    return True


def arithmetic(session: Any, op: str, a: Value, b: Value) -> Value | None:
    """The result of an operation on numbers of which one is open; None when it is another case."""
    if op in _WHOLE and (symbol(a) is not None or symbol(b) is not None):
        x, y = _whole(session, a), _whole(session, b)
        if x is not None and y is not None and not (op in ("//", "%") and _hint(y) == 0):
            return constant(_WHOLE[op](x, y))
    if op == "**" and symbol(a) is not None and type(power := _whole(session, b)) is int and 0 <= power <= 4:
        return constant(symbol(a) ** power)
    if not _numbers(a, b) or any(type(x.obj) is bool for x in (a, b)):
        return None
    if op == "/":
        safe = (divisor := _whole(session, b)) is not None and divisor != 0 or _positive(b)
        return _made(operator.truediv, "({} / {})", not safe, a, b)
    if op in _OPERATORS:
        return _made(_OPERATORS[op], f"({{}} {op} {{}})", False, a, b)
    if type(a.obj) is int is type(b.obj):
        return None
    if op == "**" and _positive(a) and type(b.obj) is float:
        return _made(operator.pow, "({} ** {})", False, a, b)
    if op == "**":  # which gives the same, but no complex numbers
        return _made(math.pow, "math.pow({}, {})", True, a, b)
    return _made(_WHOLE[op], f"({{}} {op} {{}})", True, a, b) if op in _WHOLE else None


def _made(function: Callable, form: str, fails: bool, *values: Any) -> Value | None:
    """What a function makes of numbers, as an expression; None where it raises for those of this call."""
    try:
        found = function(*[x.obj for x in values])
    except (ArithmeticError, ValueError):
        return None
    writes = [_written(x) for x in values]
    return Obj(found, Derived(_roots(*values), lambda name: form.format(*[write(name) for write in writes]),  # type: ignore[arg-type]
                              fraction=None if fails else _fraction(function.__name__, *values),
                              fails=fails or _fail(*values)))


def _fail(*values: Any) -> bool:
    """Is one of these an expression that raises for some numbers?"""
    return any(is_open(x) and x.source.fails for x in values)


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


# Functions that the expressions in an entry may call, those that make more of positive numbers, and those that round.
_FUNCTIONS = {float: "float", abs: "abs", round: "round"} | {getattr(math, name): f"math.{name}" for name in (
    "sqrt log log2 log10 log1p exp expm1 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh pow hypot "
    "fabs fmod copysign degrees radians erf erfc").split()}
_OF_POSITIVE = (float, int, math.sqrt, math.log, math.floor, math.ceil)
_ROUNDING = {int: "int", round: "round", math.floor: "math.floor", math.ceil: "math.ceil", math.trunc: "math.trunc"}


def applied(session: Any, function: Any, *values: Value) -> Value | None:
    """A function of numbers of which one is open, such as `math.sqrt(n)` or `int(n / 2)`; None in other cases."""
    if not _numbers(*values):
        return None
    value = values[0]
    if len(values) == 1 and function in _OF_POSITIVE and (
            _positive(value) if symbol(value) is None else symbol(value) >= 0):  # type: ignore[operator]
        ratio = as_ratio(number_of(value)) if function in (int, math.floor, math.ceil) else None
        if ratio is not None:
            return constant(-(-ratio[0] // ratio[1]) if function is math.ceil else ratio[0] // ratio[1])
        if function in _FUNCTIONS and (function is not math.log or _positive(value)):
            return _made(function, f"{_FUNCTIONS[function]}({{}})", False, value)
    if len(values) == 1 and type(value.obj) is float and function in _ROUNDING:  # type: ignore[attr-defined]
        made = _made(function, f"{_ROUNDING[function]}({{}})", True, value)
        return None if made is None else _ask(session, made.source.write, made.obj, value)  # type: ignore[attr-defined]
    if function not in _FUNCTIONS or function in (abs, round) and type(value.obj) is not float:  # type: ignore[attr-defined]
        return None
    return _made(function, f"{_FUNCTIONS[function]}({', '.join(['{}'] * len(values))})", True, *values)


def negative(value: Value) -> Value | None:
    """`-value` of an open number; None for others."""
    found = symbol(value)
    if found is not None:
        return constant(-found)
    if not is_open(value):
        return None
    source = value.source  # type: ignore[attr-defined]
    return Obj(-value.obj, Derived(source.roots, lambda name: f"(-{source.write(name)})",  # type: ignore[attr-defined, arg-type]
                                   fraction=_fraction("mul", value, constant(-1.0)), fails=source.fails))


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


def listed(session: Any, items: list[Value], dtype: dtypes.dtype | None) -> Value | None:
    """The tensor of numbers, of which one is open; so are all others from outside. None for other items."""
    writes: list[Callable[[Any], str]] = []
    roots: list[Any] = []
    for x in items:
        if not isinstance(x, Obj) or type(x.obj) not in (int, float, bool):
            return None
        if is_open(x):
            roots += x.source.roots  # type: ignore[union-attr]
            writes.append(x.source.write)  # type: ignore[union-attr]
        elif x.source is None:
            writes.append(_written(x))
        else:
            x.source.check_type()
            roots.append(x.source)
            writes.append(lambda name, source=x.source: name(source))  # type: ignore[misc]
    kinds = {type(x.obj) for x in items}  # type: ignore[attr-defined]
    own = dtypes.get_default_dtype() if float in kinds else dtypes.int64 if int in kinds else dtypes.bool
    if (dtype or own) not in (dtypes.float32, dtypes.float64, own):
        return None
    source = Derived(tuple(roots), lambda name: f"[{', '.join([write(name) for write in writes])}]")
    recorder, dtype = session.recorder, dtype or own
    made = recorder.scalars[source, dtype] = recorder.tracer(meta(dtype, (len(items),)))
    recorder.scalar_of[id(made)] = source
    return recorder.value_of(made.clone())


def scalar(number: Any, of: Meta) -> Tensor:
    """The tensor of a number, or of a list of them, in the dtype in which it would be used."""
    return wrap(quiet(np.array, number, of.numpy), of)
