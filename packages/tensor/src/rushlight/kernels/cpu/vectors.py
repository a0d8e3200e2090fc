"""Vectors in kernels written by hand: what LLVM's vectoriser does not find in a plain loop.

It takes one loop at a time and keeps nothing in registers over the loops around it. A kernel that holds a row of
results in registers while it walks over a window or a row of a matrix says so with these: `vload(p, i, 16)` are 16
elements from element `i` on. LLVM cuts vectors to what the processor has. `lanes` is a literal.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from rushlight.kernels.cpu.language import INT, Vector, declared, intrinsic, plain, types, vector_of


def _place(builder: Any, kind: Vector, pointer: Any, index: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [index]), kind.value.as_pointer())


@intrinsic
def vload(typingctx: Any, pointer: Any, index: Any, lanes: Any) -> Any:
    """Elements index, index + 1, ... of an array."""
    kind = vector_of(pointer.dtype, lanes.literal_value)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = builder.load(_place(builder, kind, *args[:2]))
        value.align = pointer.dtype.bitwidth // 8
        return value

    return kind(pointer, types.int64, lanes), codegen


@intrinsic
def vstore(typingctx: Any, pointer: Any, index: Any, vector: Any) -> Any:
    """Writes elements index, index + 1, ... of an array."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        instruction = builder.store(args[2], _place(builder, vector, *args[:2]))
        instruction.align = pointer.dtype.bitwidth // 8

    return types.void(pointer, types.int64, vector), codegen


def _named(kind: Vector) -> str:
    return f"v{kind.lanes}f{kind.dtype.bitwidth}"


def _lanes_between(builder: Any, lanes: int, first: Any, end: Any) -> Any:
    """The mask of the lanes from `first` to below `end`, which fit 32 bits."""
    short = ir.IntType(32)
    numbers = ir.Constant(ir.VectorType(short, lanes), list(range(lanes)))
    first, end = (fill(builder, builder.trunc(bound, short), lanes) for bound in (first, end))
    return builder.and_(builder.icmp_signed(">=", numbers, first), builder.icmp_signed("<", numbers, end))


@intrinsic
def vload_between(typingctx: Any, pointer: Any, index: Any, first: Any, end: Any, lanes: Any) -> Any:
    """Elements index, index + 1, ... of an array in the lanes from `first` to below `end`; zero in the others, whose
    elements are not touched."""
    kind = vector_of(pointer.dtype, lanes.literal_value)
    size = pointer.dtype.bitwidth // 8

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = _place(builder, kind, *args[:2])
        mask = _lanes_between(builder, kind.lanes, *args[2:4])
        zero = ir.Constant(place.type.pointee, None)
        arguments = (place, ir.Constant(ir.IntType(32), size), mask, zero)
        signature = ir.FunctionType(zero.type, [value.type for value in arguments])
        name = f"llvm.masked.load.{_named(kind)}.p0{_named(kind)}"
        return builder.call(declared(builder.module, signature, name), arguments)

    return kind(pointer, types.int64, types.int64, types.int64, lanes), codegen


@intrinsic
def vstore_below(typingctx: Any, pointer: Any, index: Any, vector: Any, end: Any) -> Any:
    """Writes elements index, index + 1, ... of an array from the lanes below `end`."""
    size = pointer.dtype.bitwidth // 8

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = _place(builder, vector, *args[:2])
        mask = _lanes_between(builder, vector.lanes, ir.Constant(INT, 0), args[3])
        arguments = (args[2], place, ir.Constant(ir.IntType(32), size), mask)
        signature = ir.FunctionType(ir.VoidType(), [value.type for value in arguments])
        name = f"llvm.masked.store.{_named(vector)}.p0{_named(vector)}"
        builder.call(declared(builder.module, signature, name), arguments)

    return types.void(pointer, types.int64, vector, types.int64), codegen


def fill(builder: Any, value: Any, lanes: int) -> Any:
    kind = ir.VectorType(value.type, lanes)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), None)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)


@intrinsic
def splat(typingctx: Any, value: Any, lanes: Any) -> Any:
    """One number in every lane."""
    kind = plain(value)
    count = lanes.literal_value
    return vector_of(kind, count)(kind, lanes), lambda context, builder, sig, args: fill(builder, args[0], count)


def _binary(on_floats: str, on_integers: str) -> Any:
    @intrinsic
    def function(typingctx: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            if isinstance(a.dtype, types.Float):
                return getattr(builder, on_floats)(*args, flags=("contract",))
            return getattr(builder, on_integers)(*args)

        return a(a, a), codegen

    return function


@intrinsic
def vselect(typingctx: Any, mask: Any, a: Any, b: Any) -> Any:
    """Per lane `a if mask else b`."""
    return a(mask, a, a), lambda context, builder, sig, args: builder.select(*args)


@intrinsic
def vexceeds(typingctx: Any, a: Any, b: Any) -> Any:
    """Per lane: is `a` larger than `b`, or NaN? (`a <= b` or `b` NaN alone say no.)"""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        larger = builder.fcmp_ordered(">", *args)
        return builder.or_(larger, builder.fcmp_unordered("uno", args[0], args[0]))

    return vector_of(types.boolean, a.lanes)(a, a), codegen


@intrinsic
def vwiden(typingctx: Any, a: Any) -> Any:
    """int32 lanes as int64."""
    kind = vector_of(types.int64, a.lanes)
    return kind(a), lambda context, builder, sig, args: builder.sext(args[0], kind.value)


def _shuffle(order: Any) -> Any:
    """The lanes `order(lanes)` of two vectors put one behind the other."""

    @intrinsic
    def function(typingctx: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            kind = ir.VectorType(ir.IntType(32), a.lanes)
            return builder.shuffle_vector(*args, ir.Constant(kind, order(a.lanes)))

        return a(a, a), codegen

    return function


def _alternating(first: int, lanes: int) -> list[int]:
    return [first + k // 2 + lanes * (k % 2) for k in range(lanes)]


NAMESPACE: dict[str, Any] = {
    "vload": vload, "vstore": vstore, "vload_between": vload_between, "vstore_below": vstore_below, "splat": splat,
    "vselect": vselect, "vexceeds": vexceeds, "vwiden": vwiden,
    "vadd": _binary("fadd", "add"), "vmul": _binary("fmul", "mul"), "vdiv": _binary("fdiv", "sdiv"),
    "veven": _shuffle(lambda n: list(range(0, 2 * n, 2))), "vodd": _shuffle(lambda n: list(range(1, 2 * n, 2))),
    "vlower": _shuffle(lambda n: _alternating(0, n)), "vupper": _shuffle(lambda n: _alternating(n // 2, n)),
}  # fmt: skip
