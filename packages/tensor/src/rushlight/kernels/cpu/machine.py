"""Machine code from Python functions that work with memory: addresses and numbers, `if`, loops, calls.

`compile_function` translates a function, and those that it calls, to LLVM. All values are 64-bit words, but for what
`real`, `single` and `call_real` give, which are doubles. A variable keeps the type of its first value. The operations
on memory are the functions here, which exist for the translation only:

`word(a)`, `half(a)`, `real(a)`, `single(a)`: the word, the low half of a word, the double, the float32 at an address;
`put_word(a, x)`, `put_half`, `put_short`, `put_byte`, `put_double`, `put_single` write there; `stack(n)` is the address
of n words that live as long as the call; `call(f, ...)` and `call_real(f, ...)` call a C function of words by its
address.

numba would take 5 s for what takes 0.1 s so: it has no types to find out here.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from llvmlite import ir

from rushlight.kernels.cpu import jit, objects, store
from rushlight.kernels.cpu.fingerprint import digest_of, fingerprint_of_all
from rushlight.kernels.cpu.syntax import settled_names

_WORD, _BIT, _REAL = ir.IntType(64), ir.IntType(1), ir.DoubleType()
_READ = {"word": _WORD, "half": ir.IntType(32), "real": _REAL, "single": ir.FloatType()}
_WRITE = {
    "put_word": _WORD, "put_half": ir.IntType(32), "put_short": ir.IntType(16), "put_byte": ir.IntType(8),
    "put_double": _REAL, "put_single": ir.FloatType(),
}  # fmt: skip
_CALL = {"call": _WORD, "call_real": _REAL}
_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and_", ast.BitOr: "or_", ast.LShift: "shl",
    ast.RShift: "ashr",
}  # fmt: skip
_COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def _only_here(*args: Any) -> Any:
    raise NotImplementedError("this function exists in machine code only")


word = half = real = single = _only_here
put_word = put_half = put_short = put_byte = put_double = put_single = _only_here
stack = call = call_real = _only_here


_addresses: dict[str, int] = {}


def compile_function(function: Callable) -> int:
    """The address of a function, from the directory of compiled kernels if it is there. It is never given back."""
    digest = digest_of(fingerprint_of_all(function), Path(__file__).read_bytes())
    with jit.lock:
        if digest not in _addresses:
            code = store.read(digest)
            if code is None:
                code = objects.make_simple_object(str(translate(function, f"native_{digest}")))
                store.write(digest, code)
            _addresses[digest] = objects.load_function(code, f"native_{digest}")
        return _addresses[digest]


def translate(function: Callable, name: str) -> ir.Module:
    """A function, under another name, and those that it calls as an LLVM module."""
    module = ir.Module()
    _Translation(module).declare(function, "external", name)
    return module


class _Translation:
    """Functions that were met on the way."""

    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self.made: dict[Callable, ir.Function] = {}

    def declare(self, function: Callable, linkage: str = "internal", name: str = "") -> ir.Function:
        """The translation of a function."""
        if function not in self.made:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
            assert isinstance(tree, ast.FunctionDef)
            kind = ir.FunctionType(_WORD, [_WORD] * len(tree.args.args))
            made = self.made[function] = ir.Function(self.module, kind, name or function.__name__)
            made.linkage = linkage
            if len(tree.body) <= 2:  # a docstring and one statement
                made.attributes.add("alwaysinline")
            _Body(made, function.__globals__, self.declare).write(tree)
        return self.made[function]


class _Body:
    """The translation of one function. Expressions and `settled` names are LLVM values, others places on the stack."""

    def __init__(self, function: ir.Function, names: dict[str, Any], declare: Callable) -> None:
        self.function, self.names, self.declare = function, names, declare
        self.entry = ir.IRBuilder(function.append_basic_block("entry"))  # where memory on the stack is taken
        self.builder = ir.IRBuilder(function.append_basic_block("body"))
        self.variables: dict[str, Any] = {}
        self.settled: set[str] = set()
        self.breaks: list[ir.Block] = []

    def write(self, tree: ast.FunctionDef) -> None:
        first = self.builder.block
        self.settled = settled_names(tree.args, tree.body)
        for argument, value in zip(tree.args.args, self.function.args, strict=True):
            self.assign(argument.arg, value)
        self.block(tree.body)
        if not self.builder.block.is_terminated:
            self.builder.ret(ir.Constant(_WORD, 0))
        self.entry.branch(first)

    # Statements

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            getattr(self, type(statement).__name__)(statement)
            if self.builder.block.is_terminated:
                return

    def Expr(self, statement: ast.Expr) -> None:
        if not isinstance(statement.value, ast.Constant):  # a docstring
            self.value(statement.value)

    def Assign(self, statement: ast.Assign) -> None:
        (target,) = statement.targets
        if isinstance(target, ast.Name):
            self.assign(target.id, self.value(statement.value))
            return
        assert isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple)
        values = [self.value(part) for part in statement.value.elts]
        for name, value in zip(target.elts, values, strict=True):
            assert isinstance(name, ast.Name)
            self.assign(name.id, value)

    def AugAssign(self, statement: ast.AugAssign) -> None:
        assert isinstance(statement.target, ast.Name)
        name = ast.Name(statement.target.id, ast.Load())
        self.assign(name.id, self.value(ast.BinOp(name, statement.op, statement.value)))

    def Return(self, statement: ast.Return) -> None:
        value = ir.Constant(_WORD, 0) if statement.value is None else self.value(statement.value)
        self.builder.ret(self.as_word(value))

    def If(self, statement: ast.If) -> None:
        then, after = self.new_block("then"), self.new_block("after")
        other = self.new_block("else") if statement.orelse else after
        self.builder.cbranch(self.truth(statement.test), then, other)
        self.branch_from(then, statement.body, after)
        if statement.orelse:
            self.branch_from(other, statement.orelse, after)
        self.builder.position_at_end(after)

    def For(self, statement: ast.For) -> None:
        assert isinstance(statement.target, ast.Name) and isinstance(statement.iter, ast.Call)
        bounds = [self.value(x) for x in statement.iter.args]
        low, high, step = {
            1: lambda: (ir.Constant(_WORD, 0), bounds[0], ir.Constant(_WORD, 1)),
            2: lambda: (*bounds, ir.Constant(_WORD, 1)),
            3: lambda: bounds,
        }[len(bounds)]()
        head, body, after = self.new_block("head"), self.new_block("body"), self.new_block("after")
        before = self.builder.block
        self.builder.branch(head)
        self.builder.position_at_end(head)
        at = self.builder.phi(_WORD)
        at.add_incoming(low, before)
        self.builder.cbranch(self.builder.icmp_signed("<", at, high), body, after)
        self.builder.position_at_end(body)
        self.assign(statement.target.id, at)
        self.breaks.append(after)
        self.block(statement.body)
        self.breaks.pop()
        if not self.builder.block.is_terminated:
            at.add_incoming(self.builder.add(at, step), self.builder.block)
            self.builder.branch(head)
        self.builder.position_at_end(after)

    def Break(self, statement: ast.Break) -> None:
        self.builder.branch(self.breaks[-1])

    def branch_from(self, block: ir.Block, statements: Sequence[ast.stmt], after: ir.Block) -> None:
        self.builder.position_at_end(block)
        self.block(statements)
        if not self.builder.block.is_terminated:
            self.builder.branch(after)

    def new_block(self, name: str) -> ir.Block:
        return self.function.append_basic_block(name)

    def assign(self, name: str, value: ir.Value) -> None:
        value = self.as_word(value)
        if name in self.settled:
            self.variables[name] = value
            return
        if name not in self.variables:
            self.variables[name] = self.entry.alloca(value.type)
        self.builder.store(value, self.variables[name])

    # Expressions

    def value(self, expression: ast.expr) -> Any:
        return getattr(self, type(expression).__name__)(expression)

    def as_word(self, value: ir.Value) -> ir.Value:
        return self.builder.zext(value, _WORD) if value.type == _BIT else value

    def truth(self, expression: ast.expr) -> ir.Value:
        value = self.value(expression)
        return value if value.type == _BIT else self.builder.icmp_signed("!=", value, ir.Constant(_WORD, 0))

    def Constant(self, expression: ast.Constant) -> ir.Value:
        value = expression.value
        return ir.Constant({bool: _BIT, int: _WORD, float: _REAL}[type(value)], value)

    def Name(self, expression: ast.Name) -> ir.Value:
        if expression.id in self.variables:
            variable = self.variables[expression.id]
            return variable if expression.id in self.settled else self.builder.load(variable)
        return self.Constant(ast.Constant(self.names[expression.id]))

    def BinOp(self, expression: ast.BinOp) -> ir.Value:
        left, right = self.as_word(self.value(expression.left)), self.as_word(self.value(expression.right))
        return getattr(self.builder, _BINARY[type(expression.op)])(left, right)

    def UnaryOp(self, expression: ast.UnaryOp) -> ir.Value:
        if isinstance(expression.op, ast.Not):
            return self.builder.not_(self.truth(expression.operand))
        value = self.value(expression.operand)
        if value.type == _REAL:
            return self.builder.fneg(value)
        return self.builder.neg(value) if isinstance(expression.op, ast.USub) else self.builder.not_(value)

    def Compare(self, expression: ast.Compare) -> ir.Value:
        left, (right,) = self.value(expression.left), [self.value(x) for x in expression.comparators]
        sign = _COMPARE[type(expression.ops[0])]
        if left.type == _REAL:
            return self.builder.fcmp_ordered(sign, left, right)
        return self.builder.icmp_signed(sign, self.as_word(left), self.as_word(right))

    def BoolOp(self, expression: ast.BoolOp) -> ir.Value:
        """The rest is looked at only where it decides."""
        is_and, after = isinstance(expression.op, ast.And), self.new_block("after")
        known: list[tuple[ir.Value, ir.Block]] = []
        for part in expression.values[:-1]:
            truth, rest = self.truth(part), self.new_block("rest")
            known.append((ir.Constant(_BIT, not is_and), self.builder.block))
            self.builder.cbranch(truth, *((rest, after) if is_and else (after, rest)))
            self.builder.position_at_end(rest)
        known.append((self.truth(expression.values[-1]), self.builder.block))
        return self.joined(known, after)

    def IfExp(self, expression: ast.IfExp) -> ir.Value:
        then, other, after = self.new_block("then"), self.new_block("else"), self.new_block("after")
        self.builder.cbranch(self.truth(expression.test), then, other)
        known = []
        for block, part in ((then, expression.body), (other, expression.orelse)):
            self.builder.position_at_end(block)
            known.append((self.as_word(self.value(part)), self.builder.block))
        self.builder.position_at_end(known[0][1])
        self.builder.branch(after)
        self.builder.position_at_end(known[1][1])
        return self.joined(known, after)

    def joined(self, known: list[tuple[ir.Value, ir.Block]], after: ir.Block) -> ir.Value:
        """Go on in `after` with the value of the block that was come from."""
        self.builder.branch(after)
        self.builder.position_at_end(after)
        made = self.builder.phi(known[0][0].type)
        for value, block in known:
            made.add_incoming(value, block)
        return made

    def Call(self, expression: ast.Call) -> Any:
        assert isinstance(expression.func, ast.Name)
        name = expression.func.id
        if name == "stack":
            size = self.value(expression.args[0]).constant
            return self.builder.ptrtoint(self.entry.alloca(ir.ArrayType(_WORD, size)), _WORD)
        args = [self.value(x) for x in expression.args]
        if name in _READ:
            found = self.builder.load(self.builder.inttoptr(args[0], _READ[name].as_pointer()), align=1)
            if name == "single":
                return self.builder.fpext(found, _REAL)
            return self.builder.zext(found, _WORD) if name == "half" else found
        if name in _WRITE:
            return self.builder.store(
                self.narrowed(args[1], _WRITE[name]),
                self.builder.inttoptr(args[0], _WRITE[name].as_pointer()),
                align=1,
            )
        args = [self.as_word(x) for x in args]
        if name in _CALL:
            kind = ir.FunctionType(_CALL[name], [_WORD] * (len(args) - 1))
            return self.builder.call(self.builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return self.builder.call(self.declare(self.names[name]), args)

    def narrowed(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        if value.type == _REAL:
            return value if kind == _REAL else self.builder.fptrunc(value, kind)
        value = self.as_word(value)
        return value if kind == _WORD else self.builder.trunc(value, kind)
