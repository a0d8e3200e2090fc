"""How Python calls a kernel: a C function for a builtin (`METH_FASTCALL`), made beside each kernel.

It takes addresses out of arrays and numbers out of ints, lets go of the GIL and calls the kernel. That takes 0.1 us.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from rushlight.kernels.cpu.intrinsics import DATA_OFFSET
from rushlight.kernels.cpu.language import ADDRESS, INT, ArrayTuple, Float, Pointer, Type, declared, types

_DOUBLE, _NOTHING = ir.DoubleType(), ir.VoidType()


def add_answer(module: ir.Module, name: str, args: Sequence[Type], result: Type) -> None:
    """Add `answer_<name>(self, args, count)` to the module of `kernel_<name>`."""
    function = ir.Function(module, ir.FunctionType(ADDRESS, [ADDRESS, ADDRESS.as_pointer(), INT]), f"answer_{name}")
    # As it stands, in a seventh less time for the kernel: LLVM would put a second copy of the kernel into it.
    function.attributes.add("noinline")
    function.attributes.add("optnone")
    _Answer(module, function).write(module.globals[f"kernel_{name}"], args, result)


class _Answer:
    """The function, in the making."""

    def __init__(self, module: ir.Module, function: ir.Function) -> None:
        self.module, self.function = module, function
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.failed = function.append_basic_block("failed")
        with self.builder.goto_block(self.failed):
            self.builder.ret(ir.Constant(ADDRESS, None))

    def write(self, kernel: ir.Function, args: Sequence[Type], result: Type) -> None:
        builder = self.builder
        places = [builder.bitcast(builder.alloca(INT), ADDRESS.as_pointer()) for _ in range(2)]
        self.check_count(len(args))
        given = self.function.args[1]
        values = []
        for k, kind in enumerate(args):
            item = builder.load(builder.gep(given, [ir.Constant(INT, k)]))
            values.append(self.array(item, kind) if isinstance(kind, Pointer | ArrayTuple) else self.number(item, kind))
        state = self.python("save", ADDRESS)
        builder.call(kernel, [*places, *values])
        self.python("restore", _NOTHING, state)
        builder.ret(self.answer(places[0], result))

    def python(self, name: str, returns: ir.Type, *args: Any) -> Any:
        """Call a function of Python's C API; `objects` says which it is."""
        kind = ir.FunctionType(returns, [arg.type for arg in args])
        return self.builder.call(declared(self.module, kind, f"rushlight_{name}"), args)

    def object(self, name: str) -> ir.GlobalVariable:
        return ir.GlobalVariable(self.module, ir.IntType(8), f"rushlight_{name}")

    def unless(self, bad: Any) -> None:
        """Go on, or give back that an exception is set."""
        fine = self.function.append_basic_block("fine")
        self.builder.cbranch(bad, self.failed, fine)
        self.builder.position_at_end(fine)

    def check_count(self, count: int) -> None:
        builder = self.builder
        right = builder.icmp_signed("==", self.function.args[2], ir.Constant(INT, count))
        with builder.if_then(builder.not_(right), likely=False):
            text = bytearray(f"this kernel takes {count} arguments\0".encode())
            message = ir.GlobalVariable(self.module, ir.ArrayType(ir.IntType(8), len(text)), "message")
            message.linkage, message.global_constant = "internal", True
            message.initializer = ir.Constant(message.value_type, text)
            kind = builder.load(builder.bitcast(self.object("type_error"), ADDRESS.as_pointer()))
            self.python("refuse", _NOTHING, kind, builder.bitcast(message, ADDRESS))
            builder.ret(ir.Constant(ADDRESS, None))

    def array(self, item: Any, kind: Type) -> Any:
        """The first element of an array, or the first item of a tuple."""
        builder = self.builder
        if isinstance(kind, ArrayTuple):
            return builder.bitcast(builder.gep(item, [ir.Constant(INT, tuple.__basicsize__)]), kind.value)
        field = builder.gep(item, [ir.Constant(INT, DATA_OFFSET)])
        return builder.load(builder.bitcast(field, kind.value.as_pointer()))

    def number(self, item: Any, kind: Any) -> Any:
        """An int, or what can be one, of which the low bits count; or a float."""
        builder, real = self.builder, isinstance(kind, Float)
        number = self.python("as_double", _DOUBLE, item) if real else self.python("as_integer", INT, item)
        minus = ir.Constant(number.type, -1.0 if real else -1)
        suspect = builder.fcmp_ordered("==", number, minus) if real else builder.icmp_signed("==", number, minus)
        look, after = self.function.append_basic_block("look"), self.function.append_basic_block("after")
        builder.cbranch(suspect, look, after)
        builder.position_at_end(look)
        error = builder.ptrtoint(self.python("failed", ADDRESS), INT)
        self.unless(builder.icmp_signed("!=", error, ir.Constant(INT, 0)))
        builder.branch(after)
        builder.position_at_end(after)
        if real:
            return number if kind is types.float64 else builder.fptrunc(number, kind.value)
        return number if kind.bitwidth == 64 else builder.trunc(number, kind.value)

    def answer(self, place: Any, result: Any) -> Any:
        """A new reference to the result."""
        builder = self.builder
        if result is types.void:
            none = self.object("none")
            self.python("keep", _NOTHING, none)
            return none
        value = builder.load(builder.bitcast(place, result.value.as_pointer()))
        if isinstance(result, Float):
            value = value if result is types.float64 else builder.fpext(value, _DOUBLE)
            return self.python("new_double", ADDRESS, value)
        if result.bitwidth < 64:
            value = (builder.sext if result.signed else builder.zext)(value, INT)
        return self.python("new_integer", ADDRESS, value)
