"""The inner loops of convolution, written as LLVM instructions: sums stay in registers until they are complete.

`outer_tile` is a product of ROWS rows with a few vectors of columns, whose rows of `b` lie wherever a table says: that
is how the windows of an image are multiplied without being copied to columns. `inner_tile` is the table of dot products
of a few rows with a few others.

The sizes follow the registers: AVX-512 and ARM have 32 vectors, AVX 16.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from rushlight.kernels.cpu.atomics import atomic_claim, atomic_store
from rushlight.kernels.cpu.host import host
from rushlight.kernels.cpu.language import INT, declared, intrinsic, types
from rushlight.kernels.cpu.vectors import fill


def _registers() -> tuple[int, int]:
    """Bytes of a vector register, and how many of them there are."""
    names = set(host()[1].split(","))
    if "+avx512f" in names:
        return 64, 32
    return (32, 16) if "+avx" in names else (16, 32 if "+neon" in names else 16)


BYTES, REGISTERS = _registers()
# Rows and vectors of a tile: 24 sums of 32 registers, 12 of 16; the rest holds operands.
ROWS, VECTORS = (8, 3) if REGISTERS == 32 else (4, 3)
# Rows of one and of the other operand of a table of dot products.
INNER = (4, 6) if REGISTERS == 32 else (3, 4)


class Code:
    """Writes instructions on vectors of one element type."""

    def __init__(self, builder: Any, pointer: Any):
        self.builder = builder
        element = pointer.type.pointee
        self.size = 4 if isinstance(element, ir.FloatType) else 8
        self.lanes = BYTES // self.size
        self.kind = ir.VectorType(element, self.lanes)
        self.zero = ir.Constant(self.kind, None)
        self.name = f"v{self.lanes}f{8 * self.size}"

    def at(self, pointer: Any, index: Any) -> Any:
        return self.builder.gep(pointer, [index if isinstance(index, ir.Value) else ir.Constant(INT, index)])

    def load(self, pointer: Any) -> Any:
        return self.builder.load(self.builder.bitcast(pointer, self.kind.as_pointer()), align=self.size)

    def store(self, value: Any, pointer: Any) -> None:
        self.builder.store(value, self.builder.bitcast(pointer, self.kind.as_pointer()), align=self.size)

    def everywhere(self, number: Any) -> Any:
        return fill(self.builder, number, self.lanes)

    def number(self, value: float) -> Any:
        return ir.Constant(self.kind, [value] * self.lanes)

    def zipped(self, a: Any, b: Any) -> list[Any]:
        """The lanes of two vectors in turn, as two vectors."""
        kind = ir.VectorType(ir.IntType(32), self.lanes)
        orders = [[k // 2 + self.lanes * (k % 2) for k in range(n, n + self.lanes)] for n in (0, self.lanes)]
        return [self.builder.shuffle_vector(a, b, ir.Constant(kind, order)) for order in orders]

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        return self._call(f"llvm.fmuladd.{self.name}", self.kind, a, b, c)

    def totals(self, vectors: list[Any]) -> Any:
        """A vector with the sums of the lanes of vectors: neighbours are added, those of two vectors at once."""
        count = 1 << (len(vectors) - 1).bit_length()
        vectors = [*vectors, *[self.zero] * (count - len(vectors))]
        kind = ir.VectorType(ir.IntType(32), self.lanes)
        even, odd = (ir.Constant(kind, list(range(first, 2 * self.lanes, 2))) for first in (0, 1))
        for _ in range(self.lanes.bit_length() - 1):
            pairs = list(zip(vectors[::2], vectors[1::2])) if len(vectors) > 1 else [(vectors[0], vectors[0])]
            vectors = [
                self.builder.fadd(self.builder.shuffle_vector(*pair, even), self.builder.shuffle_vector(*pair, odd))
                for pair in pairs
            ]
        return vectors[0]

    def _call(self, name: str, result: Any, *args: Any) -> Any:
        kind = ir.FunctionType(result, [a.type for a in args])
        return self.builder.call(declared(self.builder.module, kind, name), args)

    def sums(self, first: list, start: Any, stop: Any, step: int, body: Callable[[Any, list[Any]], list[Any]]) -> list:
        """What values, sums above all, have become after `body(index, values)` for start, start + step, ..."""
        builder = self.builder
        before = builder.block
        head, loop, done = (builder.append_basic_block(f"tile_{name}") for name in ("head", "loop", "done"))
        builder.branch(head)
        builder.position_at_end(head)
        index = builder.phi(INT)
        values = [builder.phi(value.type) for value in first]
        builder.cbranch(builder.icmp_signed("<", index, stop), loop, done)
        builder.position_at_end(loop)
        following = body(index, values)
        further = builder.add(index, ir.Constant(INT, step))
        for phi, initial, next in zip((index, *values), (start, *first), (further, *following), strict=True):
            phi.add_incoming(initial, before)
            phi.add_incoming(next, builder.block)
        builder.branch(head)
        builder.position_at_end(done)
        return values


def _outer(vectors: int) -> Any:
    @intrinsic
    def outer_tile(typingctx: Any, a: Any, b: Any, table: Any, depth: Any, c: Any, pitch: Any) -> Any:
        """c[i * pitch + j] = sum over k of a[k * ROWS + i] * b[table[k] + j]: ROWS rows, some vectors of columns."""

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            a, b, table, depth, c, pitch = args
            code = Code(builder, a)

            def step(k: Any, sums: list[Any]) -> list[Any]:
                row = code.at(b, builder.load(code.at(table, k)))
                right = [code.load(code.at(row, j * code.lanes)) for j in range(vectors)]
                column = code.at(a, builder.mul(k, ir.Constant(INT, ROWS)))
                result = []
                for i in range(ROWS):
                    left = code.everywhere(builder.load(code.at(column, i)))
                    result += [code.multiply_add(left, right[j], sums[i * vectors + j]) for j in range(vectors)]
                return result

            sums = code.sums([code.zero] * (ROWS * vectors), ir.Constant(INT, 0), depth, 1, step)
            for i in range(ROWS):
                row = code.at(c, builder.mul(pitch, ir.Constant(INT, i)))
                for j in range(vectors):
                    code.store(sums[i * vectors + j], code.at(row, j * code.lanes))

        return types.void(a, b, table, types.int64, c, types.int64), codegen

    return outer_tile


@intrinsic
def inner_tile(typingctx: Any, a: Any, pitch: Any, b: Any, table: Any, length: Any, c: Any) -> Any:
    """c[i * INNER[1] + j] += sum over k below `length` of a[i * pitch + k] * b[table[j] + k], in whole vectors."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a, pitch, b, table, length, c = args
        code = Code(builder, a)
        lefts = [code.at(a, builder.mul(pitch, ir.Constant(INT, i))) for i in range(INNER[0])]
        rights = [code.at(b, builder.load(code.at(table, j))) for j in range(INNER[1])]

        def advance(k: Any, sums: list[Any]) -> list[Any]:
            left = [code.load(code.at(row, k)) for row in lefts]
            result = list(sums)
            for j, row in enumerate(rights):
                right = code.load(code.at(row, k))
                for i in range(INNER[0]):
                    at = i * INNER[1] + j
                    result[at] = code.multiply_add(left[i], right, sums[at])
            return result

        sums = code.sums([code.zero] * (INNER[0] * INNER[1]), ir.Constant(INT, 0), length, code.lanes, advance)
        for first in range(0, len(sums), code.lanes):
            some = sums[first : first + code.lanes]
            totals, place = code.totals(some), code.at(c, first)
            if len(some) == code.lanes:
                code.store(builder.fadd(code.load(place), totals), place)
                continue
            for k in range(len(some)):
                total, one = builder.extract_element(totals, ir.Constant(ir.IntType(32), k)), code.at(place, k)
                builder.store(builder.fadd(builder.load(one), total), one)

    return types.void(a, types.int64, b, table, types.int64, c), codegen


NAMESPACE: dict[str, Any] = {
    "outer_tile": _outer(VECTORS), "outer_vector": _outer(1), "inner_tile": inner_tile,
    "atomic_claim": atomic_claim, "atomic_store": atomic_store,
}  # fmt: skip
