"""Expressions in the sources of kernels, as LLVM values: what `translate` writes statements of."""

from __future__ import annotations

import ast
import inspect
import math
import types as python_types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from rushlight.core.symbol import Opaque
from rushlight.kernels.cpu import pairs
from rushlight.kernels.cpu.convert import Untranslatable, arithmetic, compared, converted, negated, truth, unified
from rushlight.kernels.cpu.intrinsics import PYTHON
from rushlight.kernels.cpu.language import (
    INT,
    Complex,
    Float,
    Integer,
    Intrinsic,
    LibraryFunction,
    Literal,
    Pointer,
    Tuple,
    Type,
    TypeName,
    declared,
    plain,
    types,
)


class Value(NamedTuple):
    """A typed LLVM value; `None` for a type's name and for nothing."""

    kind: Type
    value: Any


class Builder(ir.IRBuilder):
    """Lets LLVM round a * b + c once where the processor does; nothing that changes NaN, infinities, signed zero or the
    order of sums."""

    def fadd(self, a: Any, b: Any, name: str = "", flags: Sequence[str] = ("contract",)) -> Any:
        return super().fadd(a, b, name, flags)

    def fsub(self, a: Any, b: Any, name: str = "", flags: Sequence[str] = ("contract",)) -> Any:
        return super().fsub(a, b, name, flags)

    def fmul(self, a: Any, b: Any, name: str = "", flags: Sequence[str] = ("contract",)) -> Any:
        return super().fmul(a, b, name, flags)

    def fdiv(self, a: Any, b: Any, name: str = "", flags: Sequence[str] = ("contract",)) -> Any:
        return super().fdiv(a, b, name, flags)


class Expressions:
    """Writes expressions where `builder` stands. Who writes statements knows the variables, and plain functions."""

    function: ir.Function
    builder: ir.IRBuilder
    names: Mapping[str, Any]
    variables: Mapping[str, Any]

    def variable(self, name: str) -> Value:
        """The value of a variable."""
        raise NotImplementedError

    def call(self, function: Callable, args: Sequence[Value]) -> Value:
        """A call of a plain function."""
        raise NotImplementedError

    def new_block(self, name: str) -> ir.Block:
        return self.function.append_basic_block(name)

    def value(self, expression: ast.expr) -> Value:
        write = getattr(self, f"value_{type(expression).__name__}", None)
        if write is None:
            raise Untranslatable(f"the expression {ast.unparse(expression)[:60]}")
        return write(expression)

    def converted(self, value: Value, kind: Type) -> Any:
        return converted(self.builder, value.value, value.kind, kind)

    def truth(self, value: Value) -> Any:
        return truth(self.builder, value.value, value.kind)

    def value_Constant(self, expression: ast.Constant) -> Value:
        return self.constant(expression.value)

    def constant(self, value: Any) -> Value:
        if type(value) is bool:
            return Value(types.boolean, ir.Constant(types.boolean.value, int(value)))
        if type(value) is int and -(2**63) <= value < 2**63:
            return Value(Literal(value), ir.Constant(INT, value))
        if type(value) is int and 0 <= value < 2**64:
            return Value(types.uint64, ir.Constant(INT, value))
        if type(value) is float:
            return Value(types.float64, ir.Constant(types.float64.value, value))
        if isinstance(value, Type):
            return Value(TypeName(value), ir.Constant(INT, None))
        raise Untranslatable(f"the constant {value!r}")

    def value_Name(self, expression: ast.Name) -> Value:
        if expression.id in self.variables:
            return self.variable(expression.id)
        if expression.id not in self.names:
            raise Untranslatable(f"the name {expression.id}")
        return self.constant(self.names[expression.id])

    def value_Attribute(self, expression: ast.Attribute) -> Value:
        """A constant of a module, or a part of a complex number."""
        if self.is_module(expression.value):
            return self.constant(self.named(expression))
        number = self.value(expression.value)
        if not isinstance(number.kind, Complex) or expression.attr not in ("real", "imag"):
            raise Untranslatable(f"the expression {ast.unparse(expression)[:60]}")
        return Value(number.kind.part, self.builder.extract_value(number.value, int(expression.attr == "imag")))

    def is_module(self, expression: ast.expr) -> bool:
        known = isinstance(expression, ast.Name) and expression.id not in self.variables
        return known and isinstance(self.names.get(expression.id), python_types.ModuleType)

    def named(self, expression: ast.expr) -> Any:
        """What `name` or `module.name` stands for; `variable` are names of their own."""
        match expression:
            case ast.Name(id=name) if name not in self.variables and name in self.names:
                return self.names[name]
            case ast.Attribute(value=module, attr=name) if self.is_module(module):
                return getattr(self.names[module.id], name)
        raise Untranslatable(f"the name {ast.unparse(expression)[:60]}")

    def value_Subscript(self, expression: ast.Subscript) -> Value:
        kind, place = self.element(expression)
        return Value(kind, self.builder.load(place))

    def element(self, expression: ast.Subscript) -> tuple[Type, Any]:
        """The type and the place of `array[index]`."""
        array, index = self.value(expression.value), self.value(expression.slice)
        if not isinstance(array.kind, Pointer) or array.kind.dtype is types.boolean:
            raise Untranslatable(f"the expression {ast.unparse(expression)[:60]}")
        return array.kind.dtype, self.builder.gep(array.value, [self.converted(index, types.int64)])

    def value_Tuple(self, expression: ast.Tuple) -> Value:
        parts = [self.value(part) for part in expression.elts]
        parts = [Value(kind := plain(part.kind), self.converted(part, kind)) for part in parts]
        kind = Tuple([part.kind for part in parts])
        made = ir.Constant(kind.value, ir.Undefined)
        for k, part in enumerate(parts):
            made = self.builder.insert_value(made, part.value, k)
        return Value(kind, made)

    def value_BinOp(self, expression: ast.BinOp) -> Value:
        return self.operation(expression.op, self.value(expression.left), self.value(expression.right))

    def operation(self, operator: ast.operator, left: Value, right: Value) -> Value:
        if isinstance(operator, ast.Pow):
            return self.power(left, right)
        return Value(*arithmetic(self.builder, type(operator), *left, *right))

    def power(self, base: Value, exponent: Value) -> Value:
        """A square is a product."""
        if isinstance(exponent.kind, Literal) and exponent.kind.literal_value == 2:
            return self.operation(ast.Mult(), base, base)
        return self.library_call(PYTHON[math.pow], [base, exponent])

    def value_UnaryOp(self, expression: ast.UnaryOp) -> Value:
        value = self.value(expression.operand)
        if isinstance(expression.op, ast.Not):
            return Value(types.boolean, self.builder.not_(self.truth(value)))
        if isinstance(value.kind, Literal) and isinstance(expression.op, ast.USub):
            return self.constant(-value.kind.literal_value)
        return Value(*negated(self.builder, type(expression.op), *value))

    def value_Compare(self, expression: ast.Compare) -> Value:
        left, holds = self.value(expression.left), None
        for operator, other in zip(expression.ops, expression.comparators):
            right = self.value(other)
            one = compared(self.builder, type(operator), *left, *right)
            holds, left = one if holds is None else self.builder.and_(holds, one), right
        return Value(types.boolean, holds)

    def value_BoolOp(self, expression: ast.BoolOp) -> Value:
        """The rest is looked at only where it decides."""
        is_and, after = isinstance(expression.op, ast.And), self.new_block("after")
        known: list[tuple[Any, ir.Block]] = []
        for part in expression.values[:-1]:
            value, rest = self.boolean(part), self.new_block("rest")
            known.append((ir.Constant(ir.IntType(1), int(not is_and)), self.builder.block))
            self.builder.cbranch(value, *((rest, after) if is_and else (after, rest)))
            self.builder.position_at_end(rest)
        known.append((self.boolean(expression.values[-1]), self.builder.block))
        self.builder.branch(after)
        return self.joined(types.boolean, known, after)

    def boolean(self, expression: ast.expr) -> Any:
        value = self.value(expression)
        if value.kind is not types.boolean:
            raise Untranslatable("and, or of what is not a bool")
        return value.value

    def value_IfExp(self, expression: ast.IfExp) -> Value:
        test = self.truth(self.value(expression.test))
        then, other, after = self.new_block("then"), self.new_block("else"), self.new_block("after")
        self.builder.cbranch(test, then, other)
        ends = []
        for block, part in ((then, expression.body), (other, expression.orelse)):
            self.builder.position_at_end(block)
            ends.append((self.value(part), self.builder.block))
        kind = unified(*[plain(value.kind) for value, _ in ends])
        known = []
        for value, block in ends:
            self.builder.position_at_end(block)
            known.append((self.converted(value, kind), block))
            self.builder.branch(after)
        return self.joined(kind, known, after)

    def joined(self, kind: Type, known: list[tuple[Any, ir.Block]], after: ir.Block) -> Value:
        """Go on in `after` with the value of the block that was come from."""
        self.builder.position_at_end(after)
        made = self.builder.phi(known[0][0].type)
        for value, block in known:
            made.add_incoming(value, block)
        return Value(kind, made)

    def value_Call(self, expression: ast.Call) -> Value:
        if expression.keywords:
            raise Untranslatable(f"the call {ast.unparse(expression)[:60]}")
        match expression.func:
            case ast.Attribute(value=number, attr="conjugate") if not self.is_module(number):
                return self.conjugate(self.value(number))
        function = self.named(expression.func)
        args = [self.value(arg) for arg in expression.args]
        if isinstance(function, Opaque):
            function = function.function
        function = PYTHON.get(function, function)
        if isinstance(function, Type):
            (arg,) = args
            return Value(function, self.converted(arg, function))
        if isinstance(function, Intrinsic):
            signature, write = function.typing(None, *[arg.kind for arg in args])
            values = [self.converted(arg, kind) for arg, kind in zip(args, signature.args, strict=True)]
            return Value(signature.return_type, write(None, self.builder, signature, values))
        if isinstance(function, LibraryFunction):
            return self.library_call(function, args)
        if function is abs:
            return self.absolute(*args)
        if function is complex:
            return self.complex_of(*args)
        if function in (min, max):
            return self.smallest(function, args)
        if inspect.isfunction(function):
            return self.call(function, args)
        raise Untranslatable(f"a call of {ast.unparse(expression.func)}")

    def library_call(self, function: LibraryFunction, args: Sequence[Value]) -> Value:
        kinds = [plain(arg.kind) for arg in args]
        if not all(isinstance(kind, Float) for kind in kinds):
            raise Untranslatable(f"{function.function.__name__} of {kinds}")
        kind = unified(*kinds) if len(kinds) > 1 else kinds[0]
        single = kind is types.float32
        if function.name.startswith("llvm."):
            name = f"{function.name}.{'f32' if single else 'f64'}"
        else:
            name = f"{function.name}f" if single else function.name
        made = declared(self.function.module, ir.FunctionType(kind.value, [kind.value] * len(args)), name)
        if not name.startswith("llvm."):
            made.attributes.add("nounwind")
        return Value(kind, self.builder.call(made, [self.converted(arg, kind) for arg in args]))

    def absolute(self, arg: Value) -> Value:
        """The magnitude of a number, in its own type; of a complex number its modulus."""
        kind = arg.kind
        if isinstance(kind, Complex):
            real, imaginary = pairs.parts(self.builder, arg.value)
            return self.library_call(PYTHON[math.hypot], [Value(kind.part, real), Value(kind.part, imaginary)])
        if isinstance(kind, Float):
            signature, write = PYTHON[math.fabs].typing(None, kind)
            return Value(kind, write(None, self.builder, signature, [arg.value]))
        if not isinstance(kind, Integer):
            raise Untranslatable(f"abs of {kind}")
        if not kind.signed:
            return arg
        zero = ir.Constant(kind.value, 0)
        below = self.builder.icmp_signed("<", arg.value, zero)
        return Value(kind, self.builder.select(below, self.builder.sub(zero, arg.value), arg.value))

    def complex_of(self, real: Value, imaginary: Value) -> Value:
        """`complex(real, imaginary)`: of floats of one width."""
        kind = _COMPLEX.get(unified(real.kind, imaginary.kind))
        if kind is None:
            raise Untranslatable(f"complex of {real.kind} and {imaginary.kind}")
        values = [self.converted(part, kind.part) for part in (real, imaginary)]
        return Value(kind, pairs.pair(self.builder, kind, *values))

    def conjugate(self, number: Value) -> Value:
        """`number.conjugate()`"""
        if not isinstance(number.kind, Complex):
            raise Untranslatable(f"conjugate of {number.kind}")
        return Value(number.kind, pairs.conjugate(self.builder, number.kind, number.value))

    def smallest(self, function: Callable, args: Sequence[Value]) -> Value:
        """Python's min and max of two or more numbers: the first one where they are equal or not ordered."""
        best = args[0]
        for arg in args[1:]:
            kind = unified(plain(best.kind), plain(arg.kind))
            one, other = self.converted(best, kind), self.converted(arg, kind)
            better = compared(self.builder, ast.Lt if function is min else ast.Gt, kind, other, kind, one)
            best = Value(kind, self.builder.select(better, other, one))
        return best


_COMPLEX: dict[Type, Complex] = {kind.part: kind for kind in (types.complex64, types.complex128)}
