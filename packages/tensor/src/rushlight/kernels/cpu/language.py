"""What the sources of kernels are made of: types, and functions that stand for instructions.

A kernel is a Python function on numbers and addresses, given as text. `translate` makes LLVM of it, `numba_route` has
numba do so. Both know the same names (`jit` puts them together), and both ask the same objects what to write:

    @intrinsic
    def moved(typing, pointer, index):
        return pointer(pointer, types.int64), lambda context, builder, sig, args: builder.gep(args[0], [args[1]])

The function is called with the types of its arguments, and gives a signature and what writes the instructions. That is
numba's protocol; numba itself is not imported. Arguments are converted to the signature's types before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from llvmlite import ir


class Type:
    """The type of a value in a kernel. Calling it with types of arguments makes a signature that returns it."""

    def __init__(self, name: str, value: ir.Type) -> None:
        self.name, self.value = name, value

    def __call__(self, *args: Type) -> Signature:
        return Signature(self, args)

    def __repr__(self) -> str:
        return self.name


class Signature(NamedTuple):
    """What a function takes and returns."""

    return_type: Type
    args: tuple[Type, ...]


class Boolean(Type):
    """True or False: one bit as a value, one byte in memory."""

    bitwidth, signed = 1, False


class Integer(Type):
    """An integer of so many bits."""

    def __init__(self, name: str, bitwidth: int, signed: bool) -> None:
        self.bitwidth, self.signed = bitwidth, signed
        super().__init__(name, ir.IntType(bitwidth))


class Literal(Integer):
    """An integer that is written in the source, or has a name there; where it is computed with, an int64."""

    def __init__(self, value: int) -> None:
        self.literal_value = value
        super().__init__(f"Literal({value})", 64, True)


class Float(Type):
    """A floating point number of so many bits."""

    def __init__(self, name: str, bitwidth: int, value: ir.Type) -> None:
        self.bitwidth = bitwidth
        super().__init__(name, value)


class Complex(Type):
    """Two floats: see `pairs`."""

    def __init__(self, name: str, part: Float) -> None:
        self.part = part
        super().__init__(name, ir.LiteralStructType([part.value, part.value]))


class Pointer(Type):
    """The address of an array's first element. Python passes the array: see `objects`."""

    def __init__(self, dtype: Type) -> None:
        self.dtype = dtype
        super().__init__(f"DataPointer({dtype})", in_memory(dtype).as_pointer())


class ArrayTuple(Type):
    """A tuple of arrays, so that one function takes any number of them: the place of its items in the tuple object."""

    def __init__(self) -> None:
        super().__init__("ArrayTuple", INT.as_pointer())


class Vector(Type):
    """`lanes` numbers in registers; a mask where the element is boolean."""

    def __init__(self, dtype: Type, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(f"Vector({dtype}, {lanes})", ir.VectorType(dtype.value, lanes))


class Tuple(Type):
    """Several values; only `invoke` takes them."""

    def __init__(self, types: Sequence[Type]) -> None:
        self.types = tuple(types)
        super().__init__(f"Tuple{self.types}", ir.LiteralStructType([t.value for t in types]))

    def __len__(self) -> int:
        return len(self.types)


class TypeName(Type):
    """The type of a type's name, where that is an argument: `bitcast(x, u32)`."""

    def __init__(self, dtype: Type) -> None:
        self.dtype = dtype
        super().__init__(f"TypeName({dtype})", INT)


INT, ADDRESS = ir.IntType(64), ir.IntType(8).as_pointer()


def in_memory(kind: Type) -> ir.Type:
    """How a value lies in memory."""
    return ir.IntType(8) if isinstance(kind, Boolean) else kind.value


class types:
    """The types, under the names that numba has for them."""

    Integer, Float, Type = Integer, Float, Type
    void = Type("void", ir.VoidType())
    boolean = Boolean("bool", ir.IntType(1))
    int8, int16, int32, int64 = (Integer(f"int{n}", n, True) for n in (8, 16, 32, 64))
    uint8, uint16, uint32, uint64 = (Integer(f"uint{n}", n, False) for n in (8, 16, 32, 64))
    float32, float64 = Float("float32", 32, ir.FloatType()), Float("float64", 64, ir.DoubleType())
    complex64, complex128 = Complex("complex64", float32), Complex("complex128", float64)


SCALARS: dict[str, Type] = {
    "b1": types.boolean, "i8": types.int8, "i16": types.int16, "i32": types.int32, "i64": types.int64,
    "u8": types.uint8, "u16": types.uint16, "u32": types.uint32, "u64": types.uint64,
    "f32": types.float32, "f64": types.float64, "c64": types.complex64, "c128": types.complex128,
}  # fmt: skip


@cache
def pointer_to(dtype: Type) -> Pointer:
    """The type of arrays of `dtype`: the same object each time."""
    return Pointer(dtype)


@cache
def vector_of(dtype: Type, lanes: int) -> Vector:
    """The type of `lanes` numbers in registers: the same object each time."""
    return Vector(dtype, lanes)


ARRAYS = ArrayTuple()


def plain(kind: Type) -> Type:
    """The type of a value that is computed with: a literal is an int64."""
    return types.int64 if isinstance(kind, Literal) else kind


def parse_type(text: str) -> Type:
    """The type that a kernel's signature names: "u64", "*f32" or "arrays"."""
    if text == "arrays":
        return ARRAYS
    return pointer_to(SCALARS[text[1:]]) if text.startswith("*") else SCALARS[text]


class Intrinsic:
    """A function in kernels that stands for instructions; see the module's text."""

    def __init__(self, typing: Callable[..., tuple[Signature, Callable]]) -> None:
        self.typing, self.name = typing, typing.__name__

    def __call__(self, *args: Any) -> Any:
        raise NotImplementedError(f"{self.name} exists in kernels only")


intrinsic = Intrinsic

# `for k in few(n)` is `for k in range(n)`, and says that the loop has few rounds or is rarely come to: it is left as it
# is. To make vectors of a loop takes LLVM 10 ms.
few = range


class LibraryFunction(NamedTuple):
    """A function on floats: LLVM's name (`llvm.exp`), or the C library's for doubles (`erf`), and Python's function."""

    name: str
    function: Callable[..., Any]


def declared(module: ir.Module, kind: ir.FunctionType, name: str) -> ir.Function:
    """The function of that name in a module, declared if it is not there."""
    found = module.globals.get(name)
    return ir.Function(module, kind, name) if found is None else found


def on_stack(builder: ir.IRBuilder, kind: ir.Type) -> Any:
    """Memory that lives as long as the call."""
    with builder.goto_entry_block():
        return builder.alloca(kind)
