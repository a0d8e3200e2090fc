"""What machine code needs to work with Python objects: memory by address, and calls of C functions by address.

Objects, arrays and C functions are their addresses, as int64 numbers. `rushlight.kernels.cpu.calls` is written in this.
Imports numba.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_WORD = ir.IntType(64)


def _reader(kind: ir.Type, result: types.Type) -> Any:
    @intrinsic
    def read(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = builder.load(builder.inttoptr(args[0], kind.as_pointer()), align=1)
            return builder.zext(value, _WORD) if isinstance(kind, ir.IntType) and kind.width < 64 else value

        return result(types.int64), codegen

    return read


def _writer(kind: ir.Type, takes: types.Type) -> Any:
    @intrinsic
    def write(typingctx: Any, address: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = args[1]
            if isinstance(kind, ir.IntType) and kind.width < 64:
                value = builder.trunc(value, kind)
            elif isinstance(kind, ir.FloatType):
                value = builder.fptrunc(value, kind)
            builder.store(value, builder.inttoptr(args[0], kind.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, takes), codegen

    return write


word, half, real = (
    _reader(_WORD, types.int64), _reader(ir.IntType(32), types.int64), _reader(ir.DoubleType(), types.float64),
)  # fmt: skip
put_word, put_half = _writer(_WORD, types.int64), _writer(ir.IntType(32), types.int64)
put_short, put_byte = _writer(ir.IntType(16), types.int64), _writer(ir.IntType(8), types.int64)
put_double, put_single = _writer(ir.DoubleType(), types.float64), _writer(ir.FloatType(), types.float64)


def _caller(result: types.Type, kind: ir.Type) -> Any:
    @intrinsic
    def call(typingctx: Any, function: Any, *args: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, given: Any) -> Any:
            words = cgutils.unpack_tuple(builder, given[1])
            words = [context.cast(builder, x, t, types.int64) for x, t in zip(words, sig.args[1], strict=True)]
            pointer = builder.inttoptr(given[0], ir.FunctionType(kind, [_WORD] * len(words)).as_pointer())
            return builder.call(pointer, words)

        return result(types.int64, types.StarArgTuple(args)), codegen

    return call


call, call_real = _caller(types.int64, _WORD), _caller(types.float64, ir.DoubleType())


@intrinsic(prefer_literal=True)
def stack(typingctx: Any, words: Any) -> Any:
    """The address of so many words of memory that live as long as the call."""
    size = words.literal_value

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(_WORD, size))
        return builder.ptrtoint(memory, _WORD)

    return types.int64(words), codegen
