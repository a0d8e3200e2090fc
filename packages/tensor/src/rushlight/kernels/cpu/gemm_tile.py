"""The innermost loop of matrix products, as vector instructions. Imports numba.

A processor multiplies and adds whole vectors, two of them a cycle, but loads and stores hardly more. So a product is
fast when each number that is loaded is used many times while it is in a register. `multiply_tile` keeps a tile of the
result, ROWS rows by VECTORS vectors, in registers for the whole sum. Each step takes one row of B's panel (VECTORS
loads) and one number of each of A's rows (ROWS loads), and does ROWS * VECTORS multiply-adds with them: 28 for 16 loads
with AVX-512. The sums are independent of each other, so the 4 cycles that a multiply-add takes do not show.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

_INT = cgutils.intp_t


def _registers() -> tuple[int, int]:
    """Bytes of a vector register, and how many of them there are."""
    features = config.CPU_FEATURES if config.CPU_FEATURES is not None else binding.get_host_cpu_features().flatten()
    names = set(features.split(","))
    if "+avx512f" in names:
        return 64, 32
    return (32, 16) if "+avx" in names else (16, 32 if "+neon" in names else 16)


BYTES, REGISTERS = _registers()
VECTORS = 2
# Sums take all registers but VECTORS for a row of B and two for numbers of A: 14 rows with AVX-512, NEON; 6 with AVX.
ROWS = REGISTERS // VECTORS - 2
# Rows of a panel that are asked for in advance: 153 instead of 135 Gflop/s where the panel comes from the second cache.
AHEAD = 16


def lanes(itemsize: int) -> int:
    """Numbers of so many bytes in a register."""
    return BYTES // itemsize


class _Code:
    """Writes instructions on vectors of one element type."""

    def __init__(self, builder: Any, element: Any):
        self.builder, self.element = builder, element
        self.size = 4 if isinstance(element, ir.FloatType) else 8
        self.lanes = lanes(self.size)
        self.kind = ir.VectorType(element, self.lanes)

    def at(self, pointer: Any, index: Any) -> Any:
        return self.builder.gep(pointer, [index if isinstance(index, ir.Value) else ir.Constant(_INT, index)])

    def row(self, pointer: Any, index: int, stride: Any) -> Any:
        return self.at(pointer, self.builder.mul(ir.Constant(_INT, index), stride))

    def load(self, pointer: Any) -> Any:
        return self.builder.load(self.builder.bitcast(pointer, self.kind.as_pointer()), align=self.size)

    def store(self, value: Any, pointer: Any) -> None:
        self.builder.store(value, self.builder.bitcast(pointer, self.kind.as_pointer()), align=self.size)

    def prefetch(self, pointer: Any) -> None:
        """Asks for a cache line that will be read soon; an address out of bounds does no harm."""
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, *[ir.IntType(32)] * 3])
        function = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0i8")
        read, keep, data = (ir.Constant(ir.IntType(32), flag) for flag in (0, 3, 1))
        self.builder.call(function, [self.builder.bitcast(pointer, cgutils.voidptr_t), read, keep, data])

    def everywhere(self, number: Any) -> Any:
        nothing = ir.Constant(self.kind, ir.Undefined)
        one = self.builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
        return self.builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), None))

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        kind = ir.FunctionType(self.kind, [self.kind] * 3)
        name = f"llvm.fmuladd.v{self.lanes}f{8 * self.size}"
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [a, b, c])

    def interleave(self, a: Any, b: Any, upper: bool) -> Any:
        """a0, b0, a1, b1, ... of the lower or the upper halves."""
        first = self.lanes // 2 if upper else 0
        order = [lane for k in range(first, first + self.lanes // 2) for lane in (k, self.lanes + k)]
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), order))


def _tile(module: Any, element: Any, rows: int) -> Any:
    """The function for so many rows: c = alpha * a @ b, or c += alpha * a @ b."""
    name = f"tile_of_{rows}_rows_{element}"
    if name in module.globals:
        return module.globals[name]
    pointer = element.as_pointer()
    arguments = [pointer, _INT, _INT, pointer, _INT, _INT, pointer, _INT, _INT, element]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), arguments), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    set.add(function.attributes, '"prefer-vector-width"="512"')  # see `wide_vectors`
    a, a_row, a_depth, b, b_depth, depth, c, c_row, add, alpha = function.args
    start, loop, end, write, increase = (function.append_basic_block() for _ in range(5))

    builder = ir.IRBuilder(start)
    code = _Code(builder, element)
    builder.cbranch(builder.icmp_signed(">", depth, ir.Constant(_INT, 0)), loop, end)

    builder.position_at_end(loop)
    count = rows * VECTORS
    k, column, row, *sums = (builder.phi(kind) for kind in (_INT, pointer, pointer, *[code.kind] * count))
    right = [code.load(code.at(row, j * code.lanes)) for j in range(VECTORS)]
    for j in range(VECTORS):
        code.prefetch(code.at(code.row(row, AHEAD, b_depth), j * code.lanes))
    added = []
    for i in range(rows):
        left = code.everywhere(builder.load(code.row(column, i, a_row)))
        added += [code.multiply_add(left, right[j], sums[i * VECTORS + j]) for j in range(VECTORS)]
    following = [builder.add(k, ir.Constant(_INT, 1)), code.at(column, a_depth), code.at(row, b_depth), *added]
    zero = ir.Constant(code.kind, None)
    for phi, first, next in zip(
        (k, column, row, *sums), (ir.Constant(_INT, 0), a, b, *[zero] * count), following, strict=True
    ):
        phi.add_incoming(first, start)
        phi.add_incoming(next, loop)
    builder.cbranch(builder.icmp_signed("<", following[0], depth), loop, end)

    builder.position_at_end(end)
    totals = [builder.phi(code.kind) for _ in range(count)]
    for phi, total in zip(totals, added, strict=True):
        phi.add_incoming(zero, start)
        phi.add_incoming(total, loop)
    scale = code.everywhere(alpha)
    scaled = [builder.fmul(scale, total) for total in totals]
    builder.cbranch(builder.icmp_signed("==", add, ir.Constant(_INT, 0)), write, increase)
    for block in (write, increase):
        builder.position_at_end(block)
        for i in range(rows):
            for j in range(VECTORS):
                value = scaled[i * VECTORS + j]
                place = code.at(code.row(c, i, c_row), j * code.lanes)
                code.store(value if block is write else builder.fadd(code.load(place), value), place)
        builder.ret_void()
    return function


@intrinsic
def multiply_tile(
    typingctx: Any, rows: Any, a: Any, a_row: Any, a_depth: Any, b: Any, b_depth: Any, depth: Any, c: Any, c_row: Any,
    add: Any, alpha: Any,
) -> Any:  # fmt: skip
    """c[i, j] = alpha * sum over k of a[i, k] * b[k, j] for `rows` rows (at most ROWS) and a panel's columns; with
    `add`, c[i, j] += ..."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        end = builder.append_basic_block("multiplied")
        switch = builder.switch(args[0], end)
        for count in range(1, ROWS + 1):
            block = builder.append_basic_block(f"rows{count}")
            switch.add_case(ir.Constant(_INT, count), block)
            with builder.goto_block(block):
                builder.call(_tile(builder.module, args[1].type.pointee, count), args[1:])
                builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    n = types.int64
    return types.void(n, a, n, n, b, n, n, c, n, n, a.dtype), codegen


@intrinsic
def transpose_block(typingctx: Any, source: Any, pitch: Any, target: Any, width: Any) -> Any:
    """target[k * width + i] = source[i * pitch + k] for a square block with the sides of a vector.

    Interleaving vector i with vector i + half, for all i, moves the highest bit of a row's number to the lowest bit
    of a lane's. After as many rounds as the number has bits, rows are lanes.
    """

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        source, pitch, target, width = args
        code = _Code(builder, source.type.pointee)
        vectors = [code.load(code.row(source, i, pitch)) for i in range(code.lanes)]
        half = code.lanes // 2
        for _ in range(code.lanes.bit_length() - 1):
            pairs = zip(vectors[:half], vectors[half:], strict=True)
            vectors = [code.interleave(a, b, upper) for a, b in pairs for upper in (False, True)]
        for k, vector in enumerate(vectors):
            code.store(vector, code.row(target, k, width))
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64), codegen


@intrinsic
def invoke(typingctx: Any, kernel: Any, arguments: Any) -> Any:
    """Call the kernel at an address with a tuple of arguments of exactly its types."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        values = [builder.extract_value(args[1], k) for k in range(len(arguments))]
        result, exception = (cgutils.alloca_once(builder, cgutils.voidptr_t) for _ in range(2))
        kinds = [cgutils.voidptr_t.as_pointer()] * 2 + [value.type for value in values]
        kind = ir.FunctionType(ir.IntType(32), kinds).as_pointer()
        builder.call(builder.inttoptr(args[0], kind), [result, exception, *values])
        return context.get_dummy_value()

    return types.void(types.int64, arguments), codegen


@intrinsic
def moved(typingctx: Any, pointer: Any, index: Any) -> Any:
    """The array from element `index` on."""
    return pointer(pointer, types.int64), lambda context, builder, sig, args: builder.gep(args[0], [args[1]])


NAMESPACE: dict[str, Any] = {
    "multiply_tile": multiply_tile, "transpose_block": transpose_block, "invoke": invoke, "moved": moved,
}  # fmt: skip
