"""The transforms of Winograd's convolution with six points, written as LLVM instructions.

A filter of R taps and an input of 6 elements are polynomials; they are evaluated at the points 0, a, -a, b, -b and
infinity, and their product there gives 7 - R outputs. In two dimensions 36 products make 16 outputs of 3 x 3 taps, a
quarter of the 144 of a sum over windows, or 9 outputs of 4 x 4.

The points decide the error. For 64 channels of normal numbers and 3 x 3 taps that of a = 5/8, b = 3/2 (exact in binary)
is 13 units in the last place of a typical result (root mean square; at most 120), 5 times that of a plain sum and half
that of the usual points 1 and 2, whose largest errors are 5 times these.

A vector has one element of as many tiles as it has lanes. Tiles overlap and lie at any places, so they are read in
fours of elements, and the 4 x 4 blocks of four tiles are transposed in registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from rushlight.kernels.cpu.language import INT, intrinsic, types, vector_of
from rushlight.kernels.cpu.tiles import BYTES, Code

A, B = 0.625, 1.5


def filter_transform(taps: int) -> np.ndarray:
    """The matrix (6, taps) that evaluates a filter at the points, divided by what the points have in common."""
    by_a, by_b = 2 * A * A * (A * A - B * B), 2 * B * B * (B * B - A * A)
    rows = [[1 / (A * A * B * B)] + [0] * (taps - 1)]
    rows += [[x**t / by for t in range(taps)] for by, x in ((by_a, A), (by_a, -A), (by_b, B), (by_b, -B))]
    return np.array([*rows, [0] * (taps - 1) + [1]])


def _of_filter(code: Code, w: list[Any]) -> list[Any]:
    """The 3 or 4 taps of a filter at the 6 points."""
    ways, zero = filter_transform(len(w)), code.zero
    result = []
    for row in ways:
        value = zero
        for tap, factor in zip(w, row, strict=True):
            value = code.multiply_add(code.number(factor), tap, value) if factor else value
        result.append(value)
    return result


def _of_input(code: Code, d: list[Any]) -> list[Any]:
    """6 elements of the input at the 6 points."""
    number, multiply_add = code.number, code.multiply_add
    both, sum_of_squares = number(A * A * B * B), number(-(A * A + B * B))
    result = [multiply_add(both, d[0], multiply_add(sum_of_squares, d[2], d[4]))]
    for point, other in ((A, B), (B, A)):
        even = multiply_add(number(-other * other), d[2], d[4])
        odd = multiply_add(number(-other * other), d[1], d[3])
        result += [multiply_add(number(sign * point), odd, even) for sign in (1, -1)]
    return [*result, multiply_add(both, d[1], multiply_add(sum_of_squares, d[3], d[5]))]


def _to_output(code: Code, m: list[Any], count: int) -> list[Any]:
    """So many outputs (3 or 4) from the products at the 6 points."""
    builder, number, multiply_add = code.builder, code.number, code.multiply_add
    sums = [builder.fadd(m[1], m[2]), builder.fadd(m[3], m[4])]
    differences = [builder.fsub(m[1], m[2]), builder.fsub(m[3], m[4])]

    def powers(k: int) -> Any:
        parts = differences if k % 2 else sums
        return multiply_add(number(A**k), parts[0], builder.fmul(number(B**k), parts[1]))

    result = [builder.fadd(m[0], builder.fadd(*sums)), *[powers(k) for k in range(1, count)]]
    return [*result[:-1], builder.fadd(result[-1], m[5])]


class _Fours:
    """Vectors of a code as groups of four lanes, which are the elements of one tile before they are transposed."""

    def __init__(self, code: Code):
        self.code, self.builder = code, code.builder
        self.groups = code.lanes // 4
        self.kind = ir.VectorType(code.kind.element, 4)

    def gathered(self, pointers: list[Any], offset: Any) -> list[Any]:
        """Element 0, 1, 2, 3 behind an offset from each pointer, as a vector each."""
        return self._transposed([self._joined(pointers[i::4], offset) for i in range(4)])

    def _joined(self, pointers: list[Any], offset: Any) -> Any:
        """The fours at some pointers one after the other."""
        fours = [self._load(self.code.at(pointer, offset)) for pointer in pointers]
        while len(fours) > 1:
            count = 2 * fours[0].type.count
            fours = [self._shuffled(a, b, range(count)) for a, b in zip(fours[::2], fours[1::2])]
        return fours[0]

    def _load(self, pointer: Any) -> Any:
        return self.builder.load(self.builder.bitcast(pointer, self.kind.as_pointer()), align=self.code.size)

    def _shuffled(self, a: Any, b: Any, order: Any) -> Any:
        kind = ir.VectorType(ir.IntType(32), len(order))
        return self.builder.shuffle_vector(a, b, ir.Constant(kind, list(order)))

    def _transposed(self, v: list[Any]) -> list[Any]:
        """The 4 x 4 blocks in each group of lanes of four vectors, transposed."""
        lanes = self.code.lanes

        def zipped(a: Any, b: Any, picked: tuple[int, ...]) -> Any:
            """Per group, lanes of a (0 to 3) and b (4 to 7)."""
            order = [k + g if k < 4 else k - 4 + g + lanes for g in range(0, lanes, 4) for k in picked]
            return self._shuffled(a, b, order)

        low = zipped(v[0], v[1], (0, 4, 1, 5)), zipped(v[2], v[3], (0, 4, 1, 5))
        high = zipped(v[0], v[1], (2, 6, 3, 7)), zipped(v[2], v[3], (2, 6, 3, 7))
        return [zipped(a, b, picked) for a, b in (low, high) for picked in ((0, 1, 4, 5), (2, 3, 6, 7))]

    def scattered(self, vectors: list[Any], pointers: list[Any]) -> None:
        """The reverse of `gathered`: element 0, 1, ... of each vector's lanes go to the pointers. Of three elements all
        but the last pointer get a fourth, which the elements of the next one follow."""
        count = len(vectors)
        vectors = self._transposed([*vectors, *[self.code.zero] * (4 - count)])
        for lane, pointer in enumerate(pointers):
            vector, first = vectors[lane % 4], lane // 4 * 4
            exact = count == 4 or lane < len(pointers) - 1
            part = self._shuffled(vector, vector, range(first, first + (4 if exact else 2)))
            place = self.builder.bitcast(pointer, part.type.as_pointer())
            self.builder.store(part, place, align=self.code.size)
            if not exact:
                last = self.builder.extract_element(vector, ir.Constant(ir.IntType(32), first + 2))
                self.builder.store(last, self.code.at(pointer, 2))


def _places(code: Code, base: Any, table: Any) -> list[Any]:
    """The places of a vector of tiles from a base on."""
    return [code.at(base, code.builder.load(code.at(table, k))) for k in range(code.lanes)]


@intrinsic
def winograd_filter(typingctx: Any, taps: Any, source: Any, table: Any, target: Any, pitch: Any) -> Any:
    """A vector of filters at the points: tap number k, counted along rows, is at source + table[k]; product number k
    goes to target + k * pitch."""
    count = taps.literal_value

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        _, source, table, target, pitch = args
        code = Code(builder, source)
        square = [code.load(code.at(source, builder.load(code.at(table, k)))) for k in range(count * count)]
        columns = [_of_filter(code, square[k::count]) for k in range(count)]
        for i in range(6):
            for j, value in enumerate(_of_filter(code, [column[i] for column in columns])):
                code.store(value, code.at(target, builder.mul(pitch, ir.Constant(INT, 6 * i + j))))

    return types.void(taps, source, table, target, types.int64), codegen


@intrinsic
def winograd_down(typingctx: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, target: Any, pitch: Any) -> Any:
    """Six vectors, one below the other, at the six points: vector k goes to target + k * pitch."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        *rows, target, pitch = args
        code = Code(builder, target)
        for k, value in enumerate(_of_input(code, rows)):
            code.store(value, code.at(target, builder.mul(pitch, ir.Constant(INT, k))))

    return types.void(a, a, a, a, a, a, target, types.int64), codegen


@intrinsic
def winograd_taps_down(typingctx: Any, a: Any, b: Any, c: Any, d: Any, target: Any, pitch: Any) -> Any:
    """Four vectors of taps, one below the other, at the six points: vector k goes to target + k * pitch."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        *rows, target, pitch = args
        code = Code(builder, target)
        for k, value in enumerate(_of_filter(code, rows)):
            code.store(value, code.at(target, builder.mul(pitch, ir.Constant(INT, k))))

    return types.void(a, a, a, a, target, types.int64), codegen


@intrinsic
def winograd_taps_along(typingctx: Any, lines: Any, line: Any, target: Any, pitch: Any) -> Any:
    """Six lines, `line` apart, at the six points of a vector of tiles with four taps each, which lie side by side;
    number k of the tiles goes to target + k * pitch."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lines, line, target, pitch = args
        code = Code(builder, lines)
        fours, places = _Fours(code), [code.at(lines, 4 * k) for k in range(code.lanes)]
        for i in range(6):
            row = fours.gathered(places, builder.mul(line, ir.Constant(INT, i)))
            for j, value in enumerate(_of_filter(code, row)):
                code.store(value, code.at(target, builder.mul(pitch, ir.Constant(INT, 6 * i + j))))

    return types.void(lines, types.int64, target, types.int64), codegen


@intrinsic
def winograd_channels(typingctx: Any, source: Any, line: Any, column: Any, target: Any, pitch: Any) -> Any:
    """A tile of a vector of channels, whose lines have been evaluated at the points and are `line` apart, its columns
    `column` apart: at the six points of the columns, too; number k goes to target + k * pitch."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        source, line, column, target, pitch = args
        code = Code(builder, source)
        for i in range(6):
            start = code.at(source, builder.mul(line, ir.Constant(INT, i)))
            row = [code.load(code.at(start, builder.mul(column, ir.Constant(INT, j)))) for j in range(6)]
            for j, value in enumerate(_of_input(code, row)):
                code.store(value, code.at(target, builder.mul(pitch, ir.Constant(INT, 6 * i + j))))

    return types.void(source, types.int64, types.int64, target, types.int64), codegen


@intrinsic
def winograd_along(typingctx: Any, lines: Any, table: Any, line: Any, target: Any, pitch: Any) -> Any:
    """Six lines, `line` apart, at the six points of a vector of tiles, tile k of which begins at place table[k] of a
    line; product number k of the tiles goes to target + k * pitch."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lines, table, line, target, pitch = args
        code = Code(builder, lines)
        fours, places = _Fours(code), _places(code, lines, table)
        for i in range(6):
            offset = builder.mul(line, ir.Constant(INT, i))
            behind = builder.add(offset, ir.Constant(INT, 4))
            row = [*fours.gathered(places, offset), *fours.gathered(places, behind)[:2]]
            for j, value in enumerate(_of_input(code, row)):
                code.store(value, code.at(target, builder.mul(pitch, ir.Constant(INT, 6 * i + j))))

    return types.void(lines, table, types.int64, target, types.int64), codegen


@intrinsic
def winograd_output(
    typingctx: Any, count: Any, source: Any, pitch: Any, target: Any, table: Any, row: Any, added: Any
) -> Any:
    """count x count outputs of a vector of tiles, plus a number, from their products, `pitch` apart: those of tile k go
    to target + table[k], rows `row` apart. Returns a vector of zeros, or of NaN where one of a tile is not finite."""
    outputs = count.literal_value

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        _, source, pitch, target, table, row, added = args
        code = Code(builder, source)
        products = [code.load(code.at(source, builder.mul(pitch, ir.Constant(INT, k)))) for k in range(36)]
        fours, places = _Fours(code), _places(code, target, table)
        columns = [_to_output(code, products[j::6], outputs) for j in range(6)]
        more, seen = code.everywhere(added), code.zero
        for i in range(outputs):
            values = _to_output(code, [column[i] for column in columns], outputs)
            values = [builder.fadd(value, more) for value in values]
            for value in values:
                seen = code.multiply_add(value, code.zero, seen)
            offset = builder.mul(row, ir.Constant(INT, i))
            fours.scattered(values, [code.at(place, offset) for place in places])
        return seen

    kind = vector_of(source.dtype, 8 * BYTES // source.dtype.bitwidth)
    return kind(count, source, types.int64, target, table, types.int64, source.dtype), codegen


NAMESPACE: dict[str, Any] = {
    "winograd_filter": winograd_filter,
    "winograd_down": winograd_down, "winograd_along": winograd_along, "winograd_output": winograd_output,
    "winograd_taps_down": winograd_taps_down, "winograd_taps_along": winograd_taps_along,
    "winograd_channels": winograd_channels,
}  # fmt: skip
