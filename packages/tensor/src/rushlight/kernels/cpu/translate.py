"""From the source of a kernel to LLVM, without numba.

The sources of kernels use little of Python: numbers and addresses, assignments, `if`, `for` over a range, `while`, and
calls of what `language` describes. For so little numba takes 100 ms to 4 s, nearly all of it to find out types; here
one walk over the syntax tree does that, and writes the instructions. What a source means is what numba makes of it:
integers are computed with 64 bits, signed where one operand is; float32 stays float32. Whatever differs in detail, or
is not known here, raises `Untranslatable`, and numba compiles the kernel.

A function returns a status, which is always 0, and takes two addresses that nobody reads before its arguments: as
numba's functions do, so that kernels of both kinds can call each other by address.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llvmlite import ir

from rushlight.core.scalar import Opaque
from rushlight.kernels.cpu.convert import Untranslatable, unified
from rushlight.kernels.cpu.expressions import Builder, Expressions, Value
from rushlight.kernels.cpu.language import (
    ADDRESS,
    INT,
    Complex,
    Integer,
    Literal,
    Tuple,
    Type,
    TypeName,
    plain,
    types,
)
from rushlight.kernels.cpu.syntax import settled_names

_STATUS = ir.IntType(32)


class Variable:
    """A place on the stack. `scope` is the list of statements that gave it its first value; `leaked` says that others
    than that list's statements read it, `split` that they may not, because the name has had another type elsewhere."""

    def __init__(self, kind: Type, place: Any, scope: int, leaked: bool = False, split: bool = False) -> None:
        self.kind, self.place, self.scope, self.leaked, self.split = kind, place, scope, leaked, split


def translate(
    source: str, name: str, args: Sequence[Type], result: Type, names: Mapping[str, Any], opaques: Sequence[Opaque]
) -> ir.Module:
    """The module with the function `kernel` of a source, under another name.

    Raises:
        Untranslatable: for numba to do.
    """
    if any(isinstance(kind, Complex) for kind in (*args, result)):
        raise Untranslatable("a complex number as an argument or a result")
    module = Module()
    known = {**names, **{opaque.name: opaque for opaque in opaques}}
    functions = []
    for statement in ast.parse(source).body:
        match statement:
            case ast.FunctionDef(name="kernel"):
                functions.append(statement)
            case ast.Assign(targets=[ast.Name(id=constant)], value=ast.Constant(value=number)):
                known[constant] = number
            case ast.Assign(targets=[ast.Name(id=constant)], value=ast.Name(id=other)):
                known[constant] = known[other]
            case _:
                raise Untranslatable(f"a source with {ast.unparse(statement)[:60]}")
    (tree,) = functions
    addresses = [ADDRESS.as_pointer(), ADDRESS.as_pointer()]
    made = ir.Function(module, ir.FunctionType(_STATUS, [*addresses, *[kind.value for kind in args]]), name)
    translation = _Translation(module)
    body = _Body(made, known, translation, result, place=made.args[0])
    body.write(tree.args, list(map(Value, args, made.args[2:])), tree.body)
    return module


class Module(ir.Module):
    """A module whose loops can say that they are to be left as they are."""

    def __init__(self) -> None:
        self.left: list[_Left] = []
        super().__init__()

    def leave(self, branch: Any) -> None:
        """Leave the loop with this branch back as it is."""
        self.left.append(_Left(len(self.left)))
        branch.metadata["llvm.loop"] = self.left[-1]

    def __repr__(self) -> str:
        numbers = [loop.get_reference() for loop in self.left]
        hints = ['!"llvm.loop.vectorize.enable", i1 false', '!"llvm.loop.unroll.disable"']
        lines = [f"{number} = distinct !{{{number}, !{_Left.FIRST - 1}, !{_Left.FIRST - 2}}}" for number in numbers]
        lines += [f"!{_Left.FIRST - 1 - k} = !{{{hint}}}" for k, hint in enumerate(hints)] if numbers else []
        return "\n".join([super().__repr__(), *lines, ""])


class _Left:
    """What names a loop in LLVM's text: a node that contains itself, which llvmlite cannot write."""

    FIRST = 1_000_000  # beyond llvmlite's own numbers

    def __init__(self, number: int) -> None:
        self.number = self.FIRST + number

    def get_reference(self) -> str:
        """Its name."""
        return f"!{self.number}"


class _Translation:
    """Functions that were met on the way, by the types of their arguments."""

    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self.made: dict[tuple[Any, ...], tuple[ir.Function, Type]] = {}
        self.under_way: set[Any] = set()

    def function(self, function: Callable, args: tuple[Type, ...]) -> tuple[ir.Function, Type]:
        """The translation of a plain function for arguments of these types, and the type that it returns."""
        key = (function, *args)
        if key not in self.made:
            if function in self.under_way:
                raise Untranslatable(f"{function.__name__} calls itself")
            self.under_way.add(function)
            self.made[key] = self._make(function, args)
            self.under_way.discard(function)
        return self.made[key]

    def _make(self, function: Callable, args: tuple[Type, ...]) -> tuple[ir.Function, Type]:
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        except (OSError, SyntaxError) as error:
            raise Untranslatable(f"no source of {function.__name__}") from error
        if not isinstance(tree, ast.FunctionDef):
            raise Untranslatable(f"the source of {function.__name__}")
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        names = {**_BUILTINS, **function.__globals__, **{name: cell.cell_contents for name, cell in cells}}
        # What it returns is known when it is written, and the type of a function before that: write it twice.
        result = types.void
        for final in (False, True):
            module = self.module if final else ir.Module()
            inner = self if final else _Translation(module)
            inner.under_way |= self.under_way
            name = f"{function.__name__}_{len(self.made)}" if final else "draft"
            made = ir.Function(module, ir.FunctionType(result.value, [kind.value for kind in args]), name)
            made.linkage = "internal"
            body = _Body(made, names, inner, result if final else None)
            body.write(tree.args, list(map(Value, args, made.args)), tree.body)
            result = body.returned if not final else result
        return made, result


class _Body(Expressions):
    """The translation of one function: variables are places on the stack, which LLVM turns into registers, but for
    `settled` ones, which are values.

    `result` is the type that it returns, None where that is to be found out; a kernel writes its result to `place`.
    """

    def __init__(
        self,
        function: ir.Function,
        names: Mapping[str, Any],
        translation: _Translation,
        result: Type | None,
        place: Any = None,
    ) -> None:
        self.function, self.names, self.translation = function, names, translation
        self.result, self.place, self.returned = result, place, types.void
        self.entry = Builder(function.append_basic_block("entry"))
        self.builder = Builder(function.append_basic_block("body"))
        self.variables: dict[str, Variable | Value] = {}
        self.settled: set[str] = set()
        self.scopes = [0]  # the lists of statements that are being written, by number
        self.lists = 0
        self.loops: list[tuple[ir.Block, ir.Block]] = []  # where `continue` and `break` go

    def write(self, arguments: ast.arguments, values: Sequence[Value], statements: Sequence[ast.stmt]) -> None:
        """Write the function's instructions."""
        first = self.builder.block
        self.settled = settled_names(arguments, statements)
        if len(arguments.args) != len(values):
            raise Untranslatable("arguments with defaults")
        for argument, value in zip(arguments.args, values):
            self.assign(argument.arg, value)
        self.block(statements)
        if not self.builder.block.is_terminated:
            if self.returned is not types.void:
                self.builder.unreachable()
            else:
                self.give_back(None)
        self.entry.position_at_end(self.entry.block)  # others have written there, too
        self.entry.branch(first)

    # statements

    def block(self, statements: Sequence[ast.stmt]) -> None:
        self.lists += 1
        self.scopes.append(self.lists)
        for statement in statements:
            write = getattr(self, f"write_{type(statement).__name__}", None)
            if write is None:
                raise Untranslatable(f"the statement {ast.unparse(statement)[:60]}")
            write(statement)
            if self.builder.block.is_terminated:
                break
        self.scopes.pop()

    def write_Expr(self, statement: ast.Expr) -> None:
        if not isinstance(statement.value, ast.Constant):  # a docstring
            self.value(statement.value)

    def write_Pass(self, statement: ast.Pass) -> None:
        pass

    def write_Assign(self, statement: ast.Assign) -> None:
        if isinstance(statement.value, ast.Tuple) and isinstance(statement.targets[0], ast.Tuple):
            values = [self.value(part) for part in statement.value.elts]
            for target, value in zip(statement.targets[0].elts, values, strict=True):
                self.assign(_name(target), value)
            return
        value = self.value(statement.value)
        for target in statement.targets:
            if isinstance(target, ast.Subscript):
                kind, place = self.element(target)
                self.builder.store(self.converted(value, kind), place)
            else:
                self.assign(_name(target), value)

    def write_AugAssign(self, statement: ast.AugAssign) -> None:
        name = _name(statement.target)
        self.assign(name, self.operation(statement.op, self.variable(name), self.value(statement.value)))

    def write_Return(self, statement: ast.Return) -> None:
        self.give_back(None if statement.value is None else self.value(statement.value))

    def give_back(self, value: Value | None) -> None:
        builder = self.builder
        if self.place is not None:  # a kernel
            if self.result is not types.void:
                if value is None:
                    raise Untranslatable("a path without a result")
                given = self.converted(value, self.result)
                builder.store(given, builder.bitcast(self.place, given.type.as_pointer()))
            builder.ret(ir.Constant(_STATUS, 0))
        elif self.result is None:  # a draft
            self.returned = unified(self.returned, plain(value.kind)) if value is not None else types.void
            builder.unreachable()
        elif self.result is types.void or value is None:
            builder.ret_void()
        else:
            self.returned = self.result
            builder.ret(self.converted(value, self.result))

    def write_If(self, statement: ast.If) -> None:
        test = self.truth(self.value(statement.test))
        then, after = self.new_block("then"), self.new_block("after")
        other = self.new_block("else") if statement.orelse else after
        self.builder.cbranch(test, then, other)
        self.branch_from(then, statement.body, after)
        if statement.orelse:
            self.branch_from(other, statement.orelse, after)
        self.builder.position_at_end(after)

    def branch_from(self, block: ir.Block, statements: Sequence[ast.stmt], after: ir.Block) -> None:
        self.builder.position_at_end(block)
        self.block(statements)
        if not self.builder.block.is_terminated:
            self.builder.branch(after)

    def write_While(self, statement: ast.While) -> None:
        head, body, after = self.new_block("head"), self.new_block("body"), self.new_block("after")
        self.builder.branch(head)
        self.builder.position_at_end(head)
        self.builder.cbranch(self.truth(self.value(statement.test)), body, after)
        self.loop(body, statement.body, head, after)

    def loop(self, body: ir.Block, statements: Sequence[ast.stmt], again: ir.Block, after: ir.Block) -> None:
        self.loops.append((again, after))
        self.branch_from(body, statements, again)
        self.loops.pop()
        self.builder.position_at_end(after)

    def write_For(self, statement: ast.For) -> None:
        match statement.iter:
            case ast.Call(func=ast.Name(id="range" | "few" as counting), args=[*bounds], keywords=[]):
                values = [self.value(bound) for bound in bounds]
            case _:
                raise Untranslatable(f"a loop over {ast.unparse(statement.iter)[:60]}")
        if statement.orelse or not all(isinstance(value.kind, Integer) for value in values):
            raise Untranslatable("a loop")
        kinds = {plain(value.kind) for value in values if not isinstance(value.kind, Literal)}
        unsigned = kinds == {types.uint64} and not any(isinstance(value.kind, Literal) for value in values)
        kind = types.uint64 if unsigned else types.int64
        words = [self.converted(value, kind) for value in values]
        zero, one = Value(kind, ir.Constant(INT, 0)).value, ir.Constant(INT, 1)
        start, stop, step = {1: (zero, *words, one), 2: (*words, one), 3: tuple(words)}[len(words)]
        constant = step.constant if isinstance(step, ir.Constant) else 0
        if unsigned and constant <= 0:
            raise Untranslatable("a loop that counts down")
        head, body = self.new_block("head"), self.new_block("body")
        again, after = self.new_block("again"), self.new_block("after")
        before = self.builder.block
        self.builder.branch(head)
        self.builder.position_at_end(head)
        at = self.builder.phi(INT)
        at.add_incoming(start, before)
        compare = self.builder.icmp_unsigned if unsigned else self.builder.icmp_signed
        below = compare("<" if constant >= 0 else ">", at, stop)
        if constant == 0:  # not known yet, and perhaps negative
            up = self.builder.icmp_signed(">", step, zero)
            below = self.builder.select(up, below, compare(">", at, stop))
        self.builder.cbranch(below, body, after)
        self.builder.position_at_end(body)
        self.assign(_name(statement.target), Value(kind, at))
        self.loop(body, statement.body, again, after)
        self.builder.position_at_end(again)
        # Below `stop` one more does not leave the range of the type.
        flags = () if constant != 1 else ("nuw",) if unsigned else ("nsw",)
        at.add_incoming(self.builder.add(at, step, flags=flags), again)
        back = self.builder.branch(head)
        if counting == "few" and isinstance(self.function.module, Module):
            self.function.module.leave(back)
        self.builder.position_at_end(after)

    def write_Break(self, statement: ast.Break) -> None:
        self.builder.branch(self.loops[-1][1])

    def write_Continue(self, statement: ast.Continue) -> None:
        self.builder.branch(self.loops[-1][0])

    # variables

    def assign(self, name: str, value: Value) -> None:
        kind = plain(value.kind)
        if kind is types.void or isinstance(kind, TypeName | Tuple):
            raise Untranslatable(f"{name} = {kind}")
        if name in self.settled:
            self.variables[name] = Value(kind, self.converted(value, kind))
            return
        known, scope = self.variables.get(name), self.scopes[-1]
        assert not isinstance(known, Value)
        if known is not None and known.kind is kind and not known.split:
            if known.scope not in self.scopes:
                known = self.variables[name] = Variable(kind, known.place, scope, leaked=known.leaked)
        elif known is None or known.kind is not kind or known.scope not in self.scopes:
            # Perhaps another variable under an old name, where no statement can see both.
            if known is not None and (known.leaked or (known.scope in self.scopes and known.scope != scope)):
                raise Untranslatable(f"{name} is {known.kind} and {kind}")
            self.entry.position_at_end(self.entry.block)
            place = self.entry.alloca(kind.value)
            known = self.variables[name] = Variable(kind, place, scope, split=known is not None)
        self.builder.store(self.converted(value, kind), known.place)

    def variable(self, name: str) -> Value:
        known = self.variables[name]
        if isinstance(known, Value):
            return known
        if known.scope not in self.scopes:
            if known.split:
                raise Untranslatable(f"{name} has several types")
            known.leaked = True
        return Value(known.kind, self.builder.load(known.place))

    def call(self, function: Callable, args: Sequence[Value]) -> Value:
        kinds = tuple([plain(arg.kind) for arg in args])
        made, result = self.translation.function(function, kinds)
        values = [self.converted(arg, kind) for arg, kind in zip(args, kinds)]
        return Value(result, self.builder.call(made, values))


def _name(target: ast.expr) -> str:
    if not isinstance(target, ast.Name):
        raise Untranslatable(f"an assignment to {ast.unparse(target)[:60]}")
    return target.id


_BUILTINS: dict[str, Any] = {"min": min, "max": max, "abs": abs, "complex": complex}
