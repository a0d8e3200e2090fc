"""Types and instructions of kernels as numba knows them. Imports numba."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.datamodel import models
from numba.extending import NativeValue, intrinsic, register_model, unbox

from rushlight.kernels.cpu import language
from rushlight.kernels.cpu.intrinsics import DATA_OFFSET


class DataPointer(types.CPointer):
    """A numpy array passed as the bare address of its first element.

    numba's own array argument costs about 80 ns each and fixes rank, contiguity and dtype in the signature. This one
    reads the address out of the array object (its public C struct: the field after the object header) in a few
    instructions. The caller vouches that the object is an ndarray whose memory the kernel's index range fits.
    """

    def __init__(self, dtype: types.Type):
        super().__init__(dtype)
        self.name = f"DataPointer({dtype})"


class ItemsOfTuple(types.CPointer):
    """`language.ArrayTuple`: the place of a tuple's items, which are the addresses of array objects."""

    def __init__(self) -> None:
        super().__init__(types.int64)
        self.name = "ItemsOfTuple"


class VectorType(types.Type):
    """`language.Vector`."""

    def __init__(self, dtype: types.Type, lanes: int):
        self.dtype, self.lanes = dtype, lanes
        super().__init__(f"Vector({dtype}, {lanes})")


register_model(DataPointer)(models.PointerModel)
register_model(ItemsOfTuple)(models.PointerModel)


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: VectorType):
        super().__init__(manager, kind, to_ours(kind).value)


@unbox(DataPointer)
def _unbox_array(typ: Any, obj: Any, c: Any) -> NativeValue:
    address = c.builder.gep(c.builder.bitcast(obj, language.ADDRESS), [ir.Constant(language.INT, DATA_OFFSET)])
    return NativeValue(c.builder.load(c.builder.bitcast(address, c.context.get_value_type(typ).as_pointer())))


@unbox(ItemsOfTuple)
def _unbox_tuple(typ: Any, obj: Any, c: Any) -> NativeValue:
    items = c.builder.gep(c.builder.bitcast(obj, language.ADDRESS), [ir.Constant(language.INT, tuple.__basicsize__)])
    return NativeValue(c.builder.bitcast(items, c.context.get_value_type(typ)))


def to_numba(kind: language.Type) -> Any:
    """numba's type for one of ours."""
    match kind:
        case language.Literal():
            return types.literal(kind.literal_value)
        case language.Pointer():
            return DataPointer(to_numba(kind.dtype))
        case language.ArrayTuple():
            return ItemsOfTuple()
        case language.Vector():
            return VectorType(to_numba(kind.dtype), kind.lanes)
        case language.Tuple():
            return types.Tuple([to_numba(part) for part in kind.types])
        case language.TypeName():
            return types.NumberClass(to_numba(kind.dtype))
        case language.Boolean():
            return types.boolean
    return types.void if kind is language.types.void else getattr(types, kind.name)


def to_ours(kind: Any) -> language.Type:
    """Our type for one of numba's."""
    match kind:
        case types.IntegerLiteral():
            return language.Literal(kind.literal_value)
        case DataPointer():
            return language.pointer_to(to_ours(kind.dtype))
        case ItemsOfTuple():
            return language.ARRAYS
        case VectorType():
            return language.vector_of(to_ours(kind.dtype), kind.lanes)
        case types.BaseTuple():
            return language.Tuple([to_ours(part) for part in kind])
        case types.NumberClass():
            return language.TypeName(to_ours(kind.dtype))
        case types.Boolean():
            return language.types.boolean
    return getattr(language.types, str(kind))


@cache
def as_intrinsic(function: language.Intrinsic) -> Any:
    """An instruction of kernels for numba."""

    def resolved(*args: Any) -> Any:
        ours, write = function.typing(None, *map(to_ours, args))

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            made = write(None, builder, ours, values)
            return context.get_dummy_value() if ours.return_type is language.types.void else made

        return to_numba(ours.return_type)(*map(to_numba, ours.args)), codegen

    # numba looks at the names of parameters, so they are written out.
    names = ", ".join([f"a{k}" for k in range(function.typing.__code__.co_argcount - 1)])
    namespace: dict[str, Any] = {"resolved": resolved}
    exec(f"def typed(typing, {names}):\n    return resolved({names})\n", namespace)
    return intrinsic(prefer_literal=True)(namespace["typed"])
