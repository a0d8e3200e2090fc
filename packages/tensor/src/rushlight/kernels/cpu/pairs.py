"""Complex numbers in kernels: two floats side by side. LLVM takes them apart again, so that loops become vectors."""

from __future__ import annotations

import ast
from typing import Any

from llvmlite import ir

from rushlight.kernels.cpu.language import Complex


def parts(builder: ir.IRBuilder, value: Any) -> tuple[Any, Any]:
    """The real and the imaginary part."""
    return builder.extract_value(value, 0), builder.extract_value(value, 1)


def pair(builder: ir.IRBuilder, kind: Complex, real: Any, imaginary: Any) -> Any:
    """The complex number with these parts."""
    made = builder.insert_value(ir.Constant(kind.value, ir.Undefined), real, 0)
    return builder.insert_value(made, imaginary, 1)


def arithmetic(builder: ir.IRBuilder, operator: type, kind: Complex, a: Any, b: Any) -> Any:
    """`a + b`, `a - b` or `a * b`; None for other operators.

    A product is its formula, as in PyTorch: where a part is infinite, it may be NaN.
    """
    (ar, ai), (br, bi) = parts(builder, a), parts(builder, b)
    if operator is ast.Add:
        return pair(builder, kind, builder.fadd(ar, br), builder.fadd(ai, bi))
    if operator is ast.Sub:
        return pair(builder, kind, builder.fsub(ar, br), builder.fsub(ai, bi))
    if operator is ast.Mult:
        real = builder.fsub(builder.fmul(ar, br), builder.fmul(ai, bi))
        return pair(builder, kind, real, builder.fadd(builder.fmul(ar, bi), builder.fmul(ai, br)))
    return None


def negated(builder: ir.IRBuilder, kind: Complex, a: Any) -> Any:
    """-a"""
    return pair(builder, kind, *[builder.fneg(part) for part in parts(builder, a)])


def conjugate(builder: ir.IRBuilder, kind: Complex, a: Any) -> Any:
    """The number mirrored at the real axis."""
    real, imaginary = parts(builder, a)
    return pair(builder, kind, real, builder.fneg(imaginary))


def equal(builder: ir.IRBuilder, a: Any, b: Any) -> Any:
    """Are both parts equal?"""
    same = [builder.fcmp_ordered("==", x, y) for x, y in zip(parts(builder, a), parts(builder, b))]
    return builder.and_(*same)
