"""Arithmetic of kernels: what operations on numbers of two types give, and the instructions for it.

As numba has it: integers are computed with 64 bits, signed where one operand is signed; float32 with float32 or a
narrow integer stays float32, with others it becomes float64. Division by the integer 0 gives 0. Complex numbers are
computed with others of their type only.
"""

from __future__ import annotations

import ast
from typing import Any

from llvmlite import ir

from rushlight.kernels.cpu import pairs
from rushlight.kernels.cpu.language import INT, Boolean, Complex, Float, Integer, Literal, Type, plain, types


class Untranslatable(Exception):
    """A kernel that is left to numba."""


_INTEGER = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor",
}  # fmt: skip
_FLOAT = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
_COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def _is_number(kind: Type) -> bool:
    return isinstance(kind, Integer | Float | Boolean)


def converted(builder: ir.IRBuilder, value: Any, source: Type, target: Type) -> Any:
    """A value as one of another type."""
    source = plain(source)
    if source is target or isinstance(target, Literal):
        return value
    if isinstance(target, Complex):
        return _as_complex(builder, value, source, target)
    if not (_is_number(source) and _is_number(target)):
        if str(source) == str(target):
            return value
        raise Untranslatable(f"{source} as {target}")
    if isinstance(target, Boolean):
        return truth(builder, value, source)
    if isinstance(source, Float):
        if isinstance(target, Float):
            return (builder.fpext if target.bitwidth > source.bitwidth else builder.fptrunc)(value, target.value)
        return (builder.fptosi if target.signed else builder.fptoui)(value, target.value)
    if isinstance(target, Float):
        return (builder.sitofp if source.signed else builder.uitofp)(value, target.value)
    if isinstance(value, ir.Constant) and isinstance(value.constant, int) and isinstance(source, Integer):
        return ir.Constant(target.value, _wrapped(value.constant, target))
    if target.bitwidth < source.bitwidth:
        return builder.trunc(value, target.value)
    if target.bitwidth == source.bitwidth:
        return value
    return (builder.sext if source.signed else builder.zext)(value, target.value)


def _as_complex(builder: ir.IRBuilder, value: Any, source: Type, target: Complex) -> Any:
    if isinstance(source, Complex):
        real, imaginary = [converted(builder, part, source.part, target.part) for part in pairs.parts(builder, value)]
    else:
        real, imaginary = converted(builder, value, source, target.part), ir.Constant(target.part.value, 0.0)
    return pairs.pair(builder, target, real, imaginary)


def _wrapped(number: int, kind: Any) -> int:
    number &= (1 << kind.bitwidth) - 1
    return number - (1 << kind.bitwidth) if kind.signed and number >> (kind.bitwidth - 1) else number


def truth(builder: ir.IRBuilder, value: Any, kind: Type) -> Any:
    """Is a number not 0? NaN is not."""
    if isinstance(kind, Boolean):
        return value
    if isinstance(kind, Float):
        return builder.fcmp_unordered("!=", value, ir.Constant(kind.value, 0.0))
    if isinstance(kind, Integer):
        return builder.icmp_unsigned("!=", value, ir.Constant(kind.value, 0))
    raise Untranslatable(f"{kind} as a condition")


def unified(a: Type, b: Type) -> Type:
    """The one type of a value that may come from two sources."""
    if a is b or str(a) == str(b):
        return a
    if isinstance(a, Float) and isinstance(b, Float):
        return types.float64
    if isinstance(a, Integer | Boolean) and isinstance(b, Integer | Boolean) and (a.signed == b.signed):
        return a if a.bitwidth > b.bitwidth else b
    if b is types.void or a is types.void:
        return a if b is types.void else b
    raise Untranslatable(f"{a} or {b}")


def _common(a: Type, b: Type) -> Type:
    """The type in which two numbers are added."""
    if isinstance(a, Float) and isinstance(b, Float):
        return a if a.bitwidth >= b.bitwidth else b
    if isinstance(a, Float) or isinstance(b, Float):
        real, whole = (a, b) if isinstance(a, Float) else (b, a)
        return real if whole.bitwidth <= 16 else types.float64
    return types.int64 if a.signed or b.signed or types.boolean in (a, b) else types.uint64


def arithmetic(builder: ir.IRBuilder, operator: type, left: Type, a: Any, right: Type, b: Any) -> tuple[Type, Any]:
    """The type and the value of `a operator b`."""
    if isinstance(left, Complex) and left is right:
        made = pairs.arithmetic(builder, operator, left, a, b)
        if made is not None:
            return left, made
    if not (_is_number(left) and _is_number(right)):
        raise Untranslatable(f"{operator.__name__} of {left} and {right}")
    if isinstance(left, Literal) and isinstance(right, Literal):
        folded = _folded(operator, left.literal_value, right.literal_value)
        if folded is not None:
            return Literal(folded), ir.Constant(INT, folded)
    left, right = plain(left), plain(right)
    kind = _common(left, right)
    if operator is ast.Div and not isinstance(kind, Float):
        kind = types.float64
    if left is right is types.boolean and operator in (ast.BitAnd, ast.BitOr, ast.BitXor):
        return types.boolean, getattr(builder, _INTEGER[operator])(a, b)
    if operator in (ast.LShift, ast.RShift) and isinstance(kind, Integer):
        kind = types.uint64 if not left.signed and left is not types.boolean else types.int64
        a, b = converted(builder, a, left, kind), converted(builder, b, right, kind)
        right_shift = builder.ashr if kind.signed else builder.lshr
        return kind, builder.shl(a, b) if operator is ast.LShift else right_shift(a, b)
    a, b = converted(builder, a, left, kind), converted(builder, b, right, kind)
    if isinstance(kind, Float):
        if operator is ast.Mod:
            return kind, _remainder(builder, a, b)
        if operator not in _FLOAT:
            raise Untranslatable(f"{operator.__name__} of {kind}")
        return kind, getattr(builder, _FLOAT[operator])(a, b)
    if operator in (ast.FloorDiv, ast.Mod):
        return kind, _divided(builder, operator, kind, a, b)
    if operator not in _INTEGER:
        raise Untranslatable(f"{operator.__name__} of {kind}")
    return kind, getattr(builder, _INTEGER[operator])(a, b)


def _folded(operator: type, a: int, b: int) -> int | None:
    if operator in (ast.FloorDiv, ast.Mod) and b == 0:
        return None
    compute: dict[type, Any] = {
        ast.Add: lambda: a + b, ast.Sub: lambda: a - b, ast.Mult: lambda: a * b, ast.FloorDiv: lambda: a // b,
        ast.Mod: lambda: a % b,
    }  # fmt: skip
    value = compute[operator]() if operator in compute else None
    return value if value is not None and -(2**63) <= value < 2**63 else None


def _remainder(builder: ir.IRBuilder, a: Any, b: Any) -> Any:
    """a % b of floats, with the sign of b."""
    zero = ir.Constant(a.type, 0.0)
    rest = builder.frem(a, b)
    inexact = builder.fcmp_unordered("!=", rest, zero)
    across = builder.xor(builder.fcmp_ordered("<", rest, zero), builder.fcmp_ordered("<", b, zero))
    return builder.select(builder.and_(inexact, across), builder.fadd(rest, b), rest)


def _divided(builder: ir.IRBuilder, operator: type, kind: Any, a: Any, b: Any) -> Any:
    """a // b, rounded down, or a % b with the sign of b; 0 for b = 0."""
    zero, one = ir.Constant(INT, 0), ir.Constant(INT, 1)
    known = b.constant if isinstance(b, ir.Constant) and isinstance(b.constant, int) else None
    by_zero = None
    if not known:
        by_zero = builder.icmp_unsigned("==", b, zero)
        b = builder.select(by_zero, one, b)
    if not kind.signed:
        made = (builder.udiv if operator is ast.FloorDiv else builder.urem)(a, b)
    else:
        if known is None:  # the smallest number by -1 traps
            minus = builder.icmp_signed("==", b, ir.Constant(INT, -1))
            divisor = builder.select(minus, one, b)
            quotient = builder.sdiv(builder.select(minus, builder.sub(zero, a), a), divisor)
        else:
            quotient = builder.sdiv(a, b)
        rest = builder.sub(a, builder.mul(quotient, b))
        off = builder.and_(builder.icmp_signed("!=", rest, zero), builder.icmp_signed("<", builder.xor(rest, b), zero))
        if operator is ast.FloorDiv:
            made = builder.sub(quotient, builder.zext(off, INT))
        else:
            made = builder.select(off, builder.add(rest, b), rest)
    return made if by_zero is None else builder.select(by_zero, zero, made)


def negated(builder: ir.IRBuilder, operator: type, kind: Type, a: Any) -> tuple[Type, Any]:
    """The type and the value of `-a`, `+a` or `~a`."""
    kind = plain(kind)
    if isinstance(kind, Boolean):
        if operator is ast.Invert:
            return kind, builder.not_(a)
        a, kind = converted(builder, a, kind, types.int64), types.int64
    if isinstance(kind, Integer):  # in its own type, and 64 bits of the result
        if operator is ast.USub:
            a = builder.sub(ir.Constant(kind.value, 0), a)
        elif operator is ast.Invert:
            a = builder.not_(a)
        wide = types.int64 if kind.signed else types.uint64
        a, kind = converted(builder, a, kind, wide), wide
        if operator in (ast.USub, ast.Invert):
            return kind, a
    if isinstance(kind, Float) and operator is ast.USub:
        return kind, builder.fneg(a)
    if isinstance(kind, Complex) and operator is ast.USub:
        return kind, pairs.negated(builder, kind, a)
    if operator is ast.UAdd and _is_number(kind):
        return kind, a
    raise Untranslatable(f"{operator.__name__} of {kind}")


def compared(builder: ir.IRBuilder, operator: type, left: Type, a: Any, right: Type, b: Any) -> Any:
    """The value of a comparison."""
    if isinstance(left, Complex) and left is right and operator in (ast.Eq, ast.NotEq):
        same = pairs.equal(builder, a, b)
        return same if operator is ast.Eq else builder.not_(same)
    if operator not in _COMPARE or not (_is_number(left) and _is_number(right)):
        raise Untranslatable(f"{operator.__name__} of {left} and {right}")
    sign, signed = _COMPARE[operator], True
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Literal) and one.literal_value >= 0 and other is types.uint64:
            signed = False
    left, right = plain(left), plain(right)
    if isinstance(left, Float) or isinstance(right, Float):
        kind = _common(left, right)
        a, b = converted(builder, a, left, kind), converted(builder, b, right, kind)
        return (builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered)(sign, a, b)
    if (left is types.uint64) != (right is types.uint64) and signed and left.signed != right.signed:
        raise Untranslatable(f"{left} {sign} {right}")
    kind = types.uint64 if left is right is types.uint64 or not signed else types.int64
    if not (left.signed or right.signed):
        kind = types.uint64
    a, b = converted(builder, a, left, kind), converted(builder, b, right, kind)
    return (builder.icmp_signed if kind.signed else builder.icmp_unsigned)(sign, a, b)
