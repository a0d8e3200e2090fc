"""Elementwise ops: their scalar definitions in ONNX operators.

An op without a row is traced, and each scalar function of the trace written as below. Operands have been given one
dtype; half types compute in float32 and are rounded at the end, small integers in wider ones and wrap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core import scalar as s
from rushlight.core.dtypes import dtype
from rushlight.core.op import Op
from rushlight.kernels.half import compute_dtype
from rushlight.kernels.inverse import INVERSES
from rushlight.kernels.trace import Apply, Const, Input, Program, trace
from rushlight.onnx.builder import Builder, Ref
from rushlight.onnx.table import Refused

FUNCTIONS: dict[s.Function, Callable[..., Ref]] = {}


def _operator(function: s.Function, kind: str) -> None:
    FUNCTIONS[function] = lambda o, *args: getattr(o, kind)(*args)


for _function, _kind in (
    (s.add, "Add"), (s.subtract, "Sub"), (s.multiply, "Mul"), (s.divide, "Div"), (s.negative, "Neg"), (s.pow, "Pow"),
    (s.maximum, "Max"), (s.minimum, "Min"), (s.equal, "Equal"), (s.less, "Less"), (s.less_equal, "LessOrEqual"),
    (s.greater, "Greater"), (s.greater_equal, "GreaterOrEqual"), (s.exp, "Exp"), (s.log, "Log"), (s.sqrt, "Sqrt"),
    (s.sin, "Sin"), (s.cos, "Cos"), (s.tan, "Tan"), (s.asin, "Asin"), (s.acos, "Acos"), (s.atan, "Atan"),
    (s.sinh, "Sinh"), (s.cosh, "Cosh"), (s.tanh, "Tanh"), (s.asinh, "Asinh"), (s.acosh, "Acosh"), (s.atanh, "Atanh"),
    (s.erf, "Erf"), (s.floor, "Floor"), (s.ceil, "Ceil"), (s.rint, "Round"), (s.abs, "Abs"), (s.select, "Where"),
    (s.bitwise_and, "BitwiseAnd"), (s.bitwise_or, "BitwiseOr"), (s.bitwise_xor, "BitwiseXor"),
    (s.bitwise_not, "BitwiseNot"),
):  # fmt: skip
    _operator(_function, _kind)

# Of bools; addition is or, multiplication and, as in numpy.
_OF_BOOLS = {
    s.add: "Or", s.multiply: "And", s.maximum: "Or", s.minimum: "And", s.bitwise_and: "And", s.bitwise_or: "Or",
    s.bitwise_xor: "Xor", s.bitwise_not: "Not", s.equal: "Equal",
}  # fmt: skip


def _scalar(function: s.Function) -> Callable[[Callable[..., Ref]], Callable[..., Ref]]:
    """Enter the decorated function as what a scalar function is."""

    def add(write: Callable[..., Ref]) -> Callable[..., Ref]:
        FUNCTIONS[function] = write
        return write

    return add


@_scalar(s.not_equal)
def _not_equal(o: Builder, a: Ref, b: Ref) -> Ref:
    return o.Not(o.Equal(a, b))


@_scalar(s.fma)
def _fma(o: Builder, a: Ref, b: Ref, c: Ref) -> Ref:
    return o.Add(o.Mul(a, b), c)


@_scalar(s.exp2)
def _exp2(o: Builder, x: Ref) -> Ref:
    return o.Pow(o.number(2, x.dtype), x)


@_scalar(s.log2)
def _log2(o: Builder, x: Ref) -> Ref:
    return o.Div(o.Log(x), math.log(2))


@_scalar(s.log10)
def _log10(o: Builder, x: Ref) -> Ref:
    return o.Div(o.Log(x), math.log(10))


@_scalar(s.expm1)
def _expm1(o: Builder, x: Ref) -> Ref:
    # (e^x + 1) tanh(x / 2), which loses no digits near 0
    return o.Mul(o.Add(o.Exp(x), 1.0), o.Tanh(o.Mul(x, 0.5)))


@_scalar(s.log1p)
def _log1p(o: Builder, x: Ref) -> Ref:
    # What adding 1 lost is made good by the quotient of x and what is left of it.
    u = o.Add(x, 1.0)
    rest = o.Sub(u, 1.0)
    exact = o.Or(o.Equal(rest, 0.0), o.IsInf(u))
    safe = o.Where(exact, o.number(1, x.dtype), rest)
    return o.Where(o.Equal(rest, 0.0), x, o.Mul(o.Log(u), o.Where(exact, o.number(1, x.dtype), o.Div(x, safe))))


@_scalar(s.erfc)
def _erfc(o: Builder, x: Ref) -> Ref:
    return o.Sub(o.number(1, x.dtype), o.Erf(x))


@_scalar(s.normal_cdf)
def _normal_cdf(o: Builder, x: Ref) -> Ref:
    return o.Mul(o.Add(o.Erf(o.Mul(x, math.sqrt(0.5))), 1.0), 0.5)


@_scalar(s.gaussian)
def _gaussian(o: Builder, x: Ref) -> Ref:
    return o.Exp(o.Mul(o.Mul(x, x), -0.5))


@_scalar(s.trunc)
def _trunc(o: Builder, x: Ref) -> Ref:
    return o.Mul(o.Sign(x), o.Floor(o.Abs(x)))


def signbit(o: Builder, x: Ref) -> Ref:
    """Is it negative, or -0?"""
    return o.Less(o.Where(o.Equal(x, 0.0), o.Div(o.number(1, x.dtype), x), x), 0.0)


@_scalar(s.copysign)
def _copysign(o: Builder, a: Ref, b: Ref) -> Ref:
    size = o.Abs(a)
    return o.Where(signbit(o, b), o.Neg(size), size)


@_scalar(s.hypot)
def _hypot(o: Builder, a: Ref, b: Ref) -> Ref:
    infinite = o.Or(o.IsInf(a), o.IsInf(b))  # even beside NaN
    a, b = o.Abs(a), o.Abs(b)
    most, least = o.Max(a, b), o.Min(a, b)
    plain = o.Or(o.Equal(most, 0.0), infinite)
    ratio = o.Div(least, o.Where(plain, o.number(1, a.dtype), most))
    found = o.Mul(most, o.Sqrt(o.Add(o.Mul(ratio, ratio), 1.0)))
    return o.Where(infinite, o.number(math.inf, a.dtype), o.Where(plain, most, found))


@_scalar(s.atan2)
def _atan2(o: Builder, y: Ref, x: Ref) -> Ref:
    zero = o.Equal(x, 0.0)
    above, right = o.Not(signbit(o, y)), o.Not(signbit(o, x))
    ratio = o.Div(y, o.Where(zero, 0.0, x))  # with a zero that is not negative
    diagonal = o.And(o.IsInf(y), o.IsInf(x))
    ratio = o.Where(diagonal, o.Where(o.Xor(above, right), o.number(-1, x.dtype), o.number(1, x.dtype)), ratio)
    ratio = o.Where(o.And(zero, o.Equal(y, 0.0)), y, ratio)
    angle = apply(o, s.atan, [ratio], x.dtype)
    turn = o.Where(above, o.number(math.pi, x.dtype), o.number(-math.pi, x.dtype))
    left = o.And(o.Not(right), o.Or(o.Not(zero), o.Equal(y, 0.0)))
    return o.Where(left, o.Add(angle, turn), angle)


@_scalar(s.fmax)
def _fmax(o: Builder, a: Ref, b: Ref) -> Ref:
    return _ignoring_nan(o, "Max", a, b)


@_scalar(s.fmin)
def _fmin(o: Builder, a: Ref, b: Ref) -> Ref:
    return _ignoring_nan(o, "Min", a, b)


def _ignoring_nan(o: Builder, kind: str, a: Ref, b: Ref) -> Ref:
    found = getattr(o, kind)(a, b)
    if not a.dtype.is_floating_point:
        return found
    return o.Where(o.IsNaN(a), b, o.Where(o.IsNaN(b), a, found))


def _nonzero(o: Builder, b: Ref) -> tuple[Ref, Ref]:
    """Where an integer is 0, and the integer with 1 in the place of 0: processors trap on a division by it."""
    zero = o.Equal(b, 0)
    return zero, o.Where(zero, o.number(1, b.dtype), b)


def _rest(o: Builder, a: Ref, b: Ref) -> tuple[Ref, Ref]:
    """What rounding a / b towards 0 leaves of a float, and whether rounding down leaves more."""
    rest = o.Mod(a, b, fmod=1)
    return rest, o.And(o.Not(o.Equal(rest, 0.0)), o.Xor(o.Less(rest, 0.0), o.Less(b, 0.0)))


@_scalar(s.remainder)
def _remainder(o: Builder, a: Ref, b: Ref) -> Ref:
    if a.dtype.is_floating_point:
        rest, more = _rest(o, a, b)
        return o.Where(more, o.Add(rest, b), rest)
    zero, divisor = _nonzero(o, b)
    return o.Where(zero, o.zero_like(a.dtype), o.Mod(a, divisor))


@_scalar(s.fmod)
def _fmod(o: Builder, a: Ref, b: Ref) -> Ref:
    if a.dtype.is_floating_point:
        return o.Mod(a, b, fmod=1)
    zero, divisor = _nonzero(o, b)
    return o.Where(zero, o.zero_like(a.dtype), o.Mod(a, divisor, fmod=1))


@_scalar(s.floor_divide)
def _floor_divide(o: Builder, a: Ref, b: Ref) -> Ref:
    if a.dtype.is_floating_point:
        rest, more = _rest(o, a, b)
        quotient = o.Round(o.Div(o.Sub(a, rest), b))
        return o.Where(o.Equal(b, 0.0), o.Div(a, b), o.Where(more, o.Sub(quotient, 1.0), quotient))
    zero, divisor = _nonzero(o, b)
    return o.Where(zero, o.zero_like(a.dtype), o.Div(o.Sub(a, o.Mod(a, divisor)), divisor))


@_scalar(s.truncate_divide)
def _truncate_divide(o: Builder, a: Ref, b: Ref) -> Ref:
    if a.dtype.is_floating_point:
        return _trunc(o, o.Div(a, b))
    zero, divisor = _nonzero(o, b)
    return o.Where(zero, o.zero_like(a.dtype), o.Div(a, divisor))


def _shifts(o: Builder, b: Ref, bits: int) -> tuple[Ref, Ref]:
    """Where a shift is by less than all bits, and the power of two that it means there (else 1)."""
    inside = o.And(o.GreaterOrEqual(b, 0), o.Less(b, bits))
    return inside, o.Pow(o.number(2, b.dtype), o.Where(inside, b, o.zero_like(b.dtype)))


@_scalar(s.left_shift)
def _left_shift(o: Builder, a: Ref, b: Ref) -> Ref:
    inside, factor = _shifts(o, b, 8 * a.dtype.itemsize)
    return o.Where(inside, o.Mul(a, factor), o.zero_like(a.dtype))


@_scalar(s.right_shift)
def _right_shift(o: Builder, a: Ref, b: Ref) -> Ref:
    last = 8 * a.dtype.itemsize - 1
    inside, divisor = _shifts(o, b, last)
    sign = o.Where(o.Less(a, 0), o.number(-1 if a.dtype.is_signed else 0, a.dtype), o.zero_like(a.dtype))
    return o.Where(inside, o.Div(o.Sub(a, o.Mod(a, divisor)), divisor), sign)


@_scalar(s.lgamma)
def _lgamma(o: Builder, x: Ref) -> Ref:
    """In float64, as eager kernels do: Stirling's series from 8 on, at abs(x) + 8 less the logarithm of the factors
    between below it; log(pi / abs(x sin(pi x))) - lgamma(-x) for a negative x.
    """
    wide = o.cast(x, dtypes.float64)
    z = o.Abs(wide)
    low = o.Less(z, 8.0)
    factors = z
    for k in range(1, 8):
        factors = o.Mul(factors, o.Add(z, float(k)))
    w = o.Where(low, o.Add(z, 8.0), z)
    inverse = o.Reciprocal(w)
    square, series = o.Mul(inverse, inverse), o.number(_STIRLING[-1], dtypes.float64)
    for coefficient in _STIRLING[-2::-1]:
        series = o.Add(o.Mul(series, square), coefficient)
    series = o.Add(o.Mul(inverse, series), o.Sub(o.Mul(o.Sub(w, 0.5), o.Log(w)), o.Sub(w, 0.5 * math.log(2 * math.pi))))
    value = o.Sub(series, o.Log(o.Where(low, factors, 1.0)))
    sine = o.Abs(o.Sin(o.Mul(o.Sub(wide, o.Round(wide)), math.pi)))
    reflected = o.Sub(o.Log(o.Div(o.number(math.pi, dtypes.float64), o.Mul(z, sine))), value)
    value = o.Where(o.Less(wide, 0.0), reflected, value)
    value = o.Where(o.Or(o.Equal(wide, 1.0), o.Equal(wide, 2.0)), 0.0, value)
    return o.cast(o.Where(o.IsInf(wide), math.inf, value), x.dtype)


_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)  # DLMF 5.11.1


# Functions that runtimes have in float32 only, in float64.
DOUBLE: dict[s.Function, Callable[..., Ref]] = {
    s.tan: lambda o, x: o.Div(o.Sin(x), o.Cos(x)),
    s.cosh: lambda o, x: o.Mul(o.Add(o.Exp(x), o.Exp(o.Neg(x))), 0.5),
}


def _double(function: s.Function) -> Callable[[Callable[..., Ref]], Callable[..., Ref]]:
    """Enter the decorated function as what a function of float64 is."""

    def add(write: Callable[..., Ref]) -> Callable[..., Ref]:
        DOUBLE[function] = write
        return write

    return add


@_double(s.sinh)
def _sinh(o: Builder, x: Ref) -> Ref:
    e = _expm1(o, o.Abs(x))
    half = o.Mul(o.Where(o.IsInf(e), e, o.Add(e, o.Div(e, o.Add(e, 1.0)))), 0.5)
    return o.Mul(o.Sign(x), half)


@_double(s.asinh)
def _asinh(o: Builder, x: Ref) -> Ref:
    size = o.Abs(x)
    square = o.Mul(size, size)
    precise = _log1p(o, o.Add(size, o.Div(square, o.Add(o.Sqrt(o.Add(square, 1.0)), 1.0))))
    large = o.Add(o.Log(size), math.log(2))  # where the square may overflow
    return o.Mul(o.Sign(x), o.Where(o.Greater(size, 1e150), large, precise))


@_double(s.acosh)
def _acosh(o: Builder, x: Ref) -> Ref:
    t = o.Sub(x, 1.0)
    precise = _log1p(o, o.Add(t, o.Sqrt(o.Mul(t, o.Add(x, 1.0)))))
    return o.Where(o.Greater(x, 1e150), o.Add(o.Log(x), math.log(2)), precise)


@_double(s.atanh)
def _atanh(o: Builder, x: Ref) -> Ref:
    return o.Mul(_log1p(o, o.Div(o.Mul(x, 2.0), o.Sub(o.number(1, x.dtype), x))), 0.5)


def _inverse(function: s.Function) -> None:
    definition = INVERSES[function, "float64"]
    DOUBLE[function] = lambda o, x: write(o, trace(definition, [np.dtype(np.float64)]), [x])[0]


for _function in (s.asin, s.acos, s.atan):
    _inverse(_function)


# Element types in which runtimes compute little: the ones in which it is done instead.
_WIDER = {
    dtypes.uint8: dtypes.int32, dtypes.int8: dtypes.int32, dtypes.uint16: dtypes.int32, dtypes.int16: dtypes.int32,
    dtypes.uint32: dtypes.int64, dtypes.uint64: dtypes.int64,
}  # fmt: skip
_OF_BITS = frozenset((s.bitwise_and, s.bitwise_or, s.bitwise_xor, s.bitwise_not))


def apply(o: Builder, function: s.Function, args: list[Ref], result: dtype) -> Ref:
    """A scalar function of values of one dtype."""
    kind = args[-1].dtype
    write = (DOUBLE if kind is dtypes.float64 else FUNCTIONS).get(function) or FUNCTIONS.get(function)
    if write is None or result.is_complex or kind.is_complex:
        of = " of complex numbers, which ONNX does not compute with" if kind.is_complex or result.is_complex else ""
        raise Refused(f"it needs {function.name}{of}")
    if kind is dtypes.bool and function in _OF_BOOLS:
        return getattr(o, _OF_BOOLS[function])(*args)
    if kind is dtypes.bool and function is s.not_equal:
        return o.Xor(*args)
    if kind is dtypes.bool and function is not s.select:
        args = [o.cast(x, dtypes.int32) for x in args]
    elif kind in _WIDER and function not in _OF_BITS and function is not s.select:
        args = [o.cast(x, _WIDER[kind]) for x in args]
    return o.cast(write(o, *args), result)


def write(o: Builder, program: Program, operands: list[Ref]) -> list[Ref]:
    """The results of a traced scalar function."""
    known: dict[Any, Ref] = {}
    for node in program.nodes():
        match node:
            case Input():
                known[node] = operands[node.index]
            case Const():
                known[node] = o.number(node.value, dtypes.from_numpy_dtype(node.dtype))
            case Apply():
                args, kind = [known[arg] for arg in node.args], dtypes.from_numpy_dtype(node.dtype)
                if node.function is s._cast:
                    known[node] = o.cast(args[0], kind)
                elif node.function is s._bitcast:
                    raise Refused("it looks at the bits of its operand")
                else:
                    known[node] = apply(o, node.function, args, kind)
    return [known[node] for node in program.outputs]


def traced(o: Builder, op: Op, operands: list[Ref | None], common: np.dtype) -> Ref:
    """The result of an elementwise op by its scalar definition."""
    given = [i for i, x in enumerate(operands) if x is not None]
    wanted = [np.dtype(bool) if op.promote == "where" and i == 0 else compute_dtype(common) for i in given]

    def definition(*elements: Any) -> Any:
        known = dict(zip(given, elements))
        return op.scalar(*[known.get(i) for i in range(len(operands))])

    program = trace(definition, wanted)
    return write(o, program, [o.cast(operands[i], dtypes.from_numpy_dtype(kind)) for i, kind in zip(given, wanted)])[0]
