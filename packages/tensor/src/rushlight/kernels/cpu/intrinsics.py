"""The instructions that generated kernels use, in a form that LLVM vectorises.

Imported only when a kernel is compiled (it imports llvmlite). `NAMESPACE` is what generated source sees.
"""

from __future__ import annotations

import math
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from llvmlite import ir

from rushlight.kernels.cpu.language import (
    INT,
    SCALARS,
    Boolean,
    LibraryFunction,
    declared,
    in_memory,
    intrinsic,
    pointer_to,
    types,
)

DATA_OFFSET = object.__basicsize__  # PyArrayObject: PyObject_HEAD, then `char *data`


@intrinsic
def array_address(typingctx: Any, arrays: Any, index: Any) -> Any:
    """The address of the first element of an array in a tuple, as a number."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        array = builder.load(builder.gep(args[0], [args[1]]))
        field = builder.add(array, ir.Constant(INT, DATA_OFFSET))
        return builder.load(builder.inttoptr(field, INT.as_pointer()))

    return types.int64(arrays, types.int64), codegen


# Who may touch the same memory. An elementwise loop may run in vectors even when an output is one of its inputs: each
# lane reads its element before writing it. LLVM cannot know and would fall to a scalar loop for x.add_(y), so loads
# and stores are declared apart. Partial overlap is excluded by the caller. Scratch memory (accumulators of
# reductions) is read after being written. Loops that write several arrays give each a kind of its own.
_OWN = tuple([f"own{k}" for k in range(8)])
_KINDS = ("load", "store", "scratch", *_OWN)


def _tag(builder: Any, instruction: Any, kind: str) -> None:
    known = _scopes.setdefault(builder.module, {})
    if kind not in known:
        module = builder.module
        domain = module.add_metadata(["rushlight"])
        scopes = {name: module.add_metadata([f"rushlight {name}", domain]) for name in _KINDS}
        others = module.add_metadata([scopes[other] for other in _KINDS if other != kind])
        known[kind] = module.add_metadata([scopes[kind]]), others
    instruction.metadata["alias.scope"], instruction.metadata["noalias"] = known[kind]


# What `_tag` adds to each module, by kind.
_scopes: WeakKeyDictionary[Any, dict[str, tuple[Any, Any]]] = WeakKeyDictionary()


def _loader(kind: str) -> Any:
    @intrinsic
    def load(typingctx: Any, pointer: Any, index: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = builder.load(builder.gep(args[0], [args[1]]))
            _tag(builder, value, kind)
            return builder.trunc(value, pointer.dtype.value) if isinstance(pointer.dtype, Boolean) else value

        return pointer.dtype(pointer, types.uint64), codegen

    return load


def _storer(kind: str) -> Any:
    @intrinsic
    def store(typingctx: Any, pointer: Any, index: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = builder.zext(args[2], in_memory(pointer.dtype)) if isinstance(pointer.dtype, Boolean) else args[2]
            _tag(builder, builder.store(value, builder.gep(args[0], [args[1]])), kind)

        return types.void(pointer, types.uint64, pointer.dtype), codegen

    return store


@intrinsic
def address(typingctx: Any, pointer: Any) -> Any:
    """The address of an array's first element, as a number."""
    return types.int64(pointer), lambda context, builder, sig, args: builder.ptrtoint(args[0], INT)


@intrinsic
def pointer(typingctx: Any, number: Any, dtype: Any) -> Any:
    """The array whose first element has the address `number`: for kernels that take addresses in a table."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], sig.return_type.value)

    return pointer_to(dtype.dtype)(number, dtype), codegen


@intrinsic
def stack_array(typingctx: Any, dtype: Any, size: Any) -> Any:
    """Uninitialised memory that lives as long as the call."""
    length = size.literal_value

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(in_memory(dtype.dtype), length))
        return builder.bitcast(memory, sig.return_type.value)

    return pointer_to(dtype.dtype)(dtype, size), codegen


@intrinsic
def wide_vectors(typingctx: Any) -> Any:
    """Lets LLVM use 512-bit registers in the calling function, where the CPU has them; by default it stops at 256.

    exp of float32 takes 0.35 instead of 0.55 ns an element with them (Sapphire Rapids). Not inlined, because the
    attribute would not go along into the function that calls it.
    """

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        attributes = builder.function.attributes
        set.add(attributes, '"prefer-vector-width"="512"')  # llvmlite has a fixed list of attributes without a value
        attributes.discard("alwaysinline")
        attributes.add("noinline")

    return types.void(), codegen


@intrinsic
def select(typingctx: Any, condition: Any, a: Any, b: Any) -> Any:
    """`a if condition else b` without a branch, so that it becomes a vector instruction."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(*args)

    return a(types.boolean, a, a), codegen


@intrinsic
def bitcast(typingctx: Any, x: Any, dtype: Any) -> Any:
    """The same bits as a number of another type of that size."""
    target = dtype.dtype

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], target.value)

    return target(x, dtype), codegen


def _llvm_intrinsic(name: str, arity: int, *flags: str) -> Any:
    """`llvm.<name>` on `arity` operands of one floating type: what LLVM has a vector form for. `flags` are freedoms
    that it gets."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = args[0].type
        suffix = {"float": "f32", "double": "f64"}[str(kind)]
        function = declared(
            builder.module, ir.FunctionType(kind, [kind] * arity), f"llvm.{name}.{suffix}"
        )
        return builder.call(function, args, fastmath=flags)

    if arity == 1:
        return intrinsic(lambda typingctx, a: (a(a), codegen))
    if arity == 2:
        return intrinsic(lambda typingctx, a, b: (a(a, a), codegen))
    return intrinsic(lambda typingctx, a, b, c: (a(a, a, a), codegen))


def _reassociable(instruction: str) -> Any:
    """A float addition or multiplication whose chain LLVM may cut into lanes: accumulators of reductions."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args, flags=("reassoc", "contract"))

    return intrinsic(lambda typingctx, a, b: (a(a, a), codegen))


def _guarded_division(remainder: bool) -> Any:
    """Integer quotient towards zero, or its remainder, without the trap that x / 0 and INT_MIN / -1 are in hardware."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a, b = args
        signed = sig.return_type.signed
        zero, one = ir.Constant(a.type, 0), ir.Constant(a.type, 1)
        is_zero = builder.icmp_unsigned("==", b, zero)
        unsafe, negated = is_zero, None
        if signed:
            negated = builder.icmp_signed("==", b, ir.Constant(a.type, -1))
            unsafe = builder.or_(is_zero, negated)
        safe = builder.select(unsafe, one, b)
        quotient = builder.sdiv(a, safe) if signed else builder.udiv(a, safe)
        if remainder:
            return builder.select(unsafe, zero, builder.sub(a, builder.mul(quotient, safe)))
        if negated is not None:
            quotient = builder.select(negated, builder.neg(a), quotient)
        return builder.select(is_zero, zero, quotient)

    return intrinsic(lambda typingctx, a, b: (a(a, a), codegen))


@intrinsic
def fmod(typingctx: Any, a: Any, b: Any) -> Any:
    """The remainder of floats with the sign of `a`."""
    return a(a, a), lambda context, builder, sig, args: builder.frem(*args)


@intrinsic
def left_shift(typingctx: Any, a: Any, b: Any) -> Any:
    """`a << b`, and 0 where `b` is negative or no less than the width, which hardware leaves open."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        x, n = args
        inside = builder.icmp_unsigned("<", n, ir.Constant(n.type, a.bitwidth))
        zero = ir.Constant(x.type, 0)
        return builder.select(inside, builder.shl(x, builder.select(inside, n, zero)), zero)

    return a(a, a), codegen


@intrinsic
def right_shift(typingctx: Any, a: Any, b: Any) -> Any:
    """`a >> b`; where `b` is negative or no less than the width, what is left of all bits: the sign, or 0."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        x, n = args
        inside = builder.icmp_unsigned("<", n, ir.Constant(n.type, a.bitwidth))
        if a.signed:
            return builder.ashr(x, builder.select(inside, n, ir.Constant(n.type, a.bitwidth - 1)))
        zero = ir.Constant(x.type, 0)
        return builder.select(inside, builder.lshr(x, builder.select(inside, n, zero)), zero)

    return a(a, a), codegen


@intrinsic
def whole_floor(typingctx: Any, x: Any) -> Any:
    """Python's `math.floor`: an integer."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        name = "llvm.floor.f32" if x.bitwidth == 32 else "llvm.floor.f64"
        floor = declared(builder.module, ir.FunctionType(x.value, [x.value]), name)
        return builder.fptosi(builder.call(floor, args), INT)

    return types.int64(x), codegen


truncate_divide = _guarded_division(remainder=False)
truncate_remainder = _guarded_division(remainder=True)


def integer_pow(base, exponent, negative):
    """base ** exponent modulo 2**64 for an int64 and a uint64; every narrower result is its low bits."""
    if negative:  # 1 / base**n rounds to zero except for the units
        return (base if exponent & 1 else 1) if base == 1 or base == -1 else 0
    result = 1
    while exponent != 0:
        if exponent & 1:
            result = result * base
        base = base * base
        exponent = exponent >> 1
    return result


def gcd(a, b):
    """The greatest common divisor; 0 for two zeros."""
    while b != 0:
        a, b = b, truncate_remainder(a, b)
    return a if a > 0 else -a


NAMESPACE: dict[str, Any] = {
    **SCALARS,
    "wide_vectors": wide_vectors, "load": _loader("load"), "store": _storer("store"),
    "scratch_load": _loader("scratch"), "scratch_store": _storer("scratch"), "select": select, "bitcast": bitcast,
    "inf": math.inf, "nan": math.nan, "reassociable_add": _reassociable("fadd"),
    "reassociable_multiply": _reassociable("fmul"), "reassociable_maximum": _llvm_intrinsic("maximum", 2, "nsz"),
    "reassociable_minimum": _llvm_intrinsic("minimum", 2, "nsz"), "left_shift": left_shift, "right_shift": right_shift,
    "truncate_divide": truncate_divide, "truncate_remainder": truncate_remainder, "integer_pow": integer_pow,
    "gcd": gcd, "sqrt": _llvm_intrinsic("sqrt", 1), "fabs": _llvm_intrinsic("fabs", 1),
    "floor": _llvm_intrinsic("floor", 1), "ceil": _llvm_intrinsic("ceil", 1), "trunc": _llvm_intrinsic("trunc", 1),
    "rint": _llvm_intrinsic("rint", 1), "copysign": _llvm_intrinsic("copysign", 2),
    "maximum": _llvm_intrinsic("maximum", 2), "minimum": _llvm_intrinsic("minimum", 2),
    "fmod": fmod, "fmax": _llvm_intrinsic("maxnum", 2), "fmin": _llvm_intrinsic("minnum", 2),
    "fma": _llvm_intrinsic("fma", 3),
}  # fmt: skip
NAMESPACE |= {f"{kind}_load": _loader(kind) for kind in _OWN} | {f"{kind}_store": _storer(kind) for kind in _OWN}
NAMESPACE |= {"address": address, "pointer": pointer, "stack_array": stack_array}
# Functions of the C library, as LLVM knows them and as Python calls them.
_LIBRARY = {
    "exp": math.exp, "log": math.log, "log10": math.log10, "exp2": np.exp2, "log2": np.log2, "pow": math.pow,
    "sin": math.sin, "cos": math.cos,
}  # fmt: skip
NAMESPACE |= {name: LibraryFunction(f"llvm.{name}", function) for name, function in _LIBRARY.items()}
_LIBRARY = {
    "expm1": math.expm1, "log1p": math.log1p, "hypot": math.hypot, "nextafter": np.nextafter, "tan": math.tan,
    "asin": math.asin, "acos": math.acos, "atan": math.atan, "atan2": math.atan2, "sinh": math.sinh,
    "cosh": math.cosh, "tanh": math.tanh, "asinh": math.asinh, "acosh": math.acosh, "atanh": math.atanh,
    "erf": math.erf, "erfc": math.erfc, "lgamma": math.lgamma,
}  # fmt: skip
NAMESPACE |= {name: LibraryFunction(name, function) for name, function in _LIBRARY.items()}
# What Python's functions are in kernels: opaque definitions name them.
PYTHON: dict[Any, Any] = {x.function: x for x in NAMESPACE.values() if isinstance(x, LibraryFunction)}
PYTHON |= {getattr(math, name): NAMESPACE[name] for name in ("sqrt", "fabs", "copysign")}
PYTHON[math.floor] = whole_floor
