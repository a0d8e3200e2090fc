"""The transforms of Winograd's convolution F(4 x 4, 3 x 3), written as LLVM instructions.

A filter of 3 and an input of 6 are polynomials; they are evaluated at the points 0, a, -a, b, -b and infinity, and
their product there gives 4 outputs. In two dimensions 36 products make 16 outputs, a quarter of the 144 of a sum over
windows.

The points decide the error. For 64 channels of normal numbers that of a = 5/8, b = 3/2 (exact in binary) is 13 units in
the last place of a typical result (root mean square; at most 120), 5 times that of a plain sum and half that of the
usual points 1 and 2, whose largest errors are 5 times these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from rushlight.kernels.cpu.language import INT, intrinsic, types
from rushlight.kernels.cpu.tiles import Code

A, B = 0.625, 1.5


def filter_transform() -> np.ndarray:
    """The matrix (6, 3) that evaluates a filter at the points, divided by what the points have in common."""
    by_a, by_b = 2 * A * A * (A * A - B * B), 2 * B * B * (B * B - A * A)
    rows = [[1 / (A * A * B * B), 0, 0]]
    rows += [[1 / by, x / by, x * x / by] for by, x in ((by_a, A), (by_a, -A), (by_b, B), (by_b, -B))]
    return np.array([*rows, [0, 0, 1]])


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


def _to_output(code: Code, m: list[Any]) -> list[Any]:
    """4 outputs from the products at the 6 points."""
    builder, number, multiply_add = code.builder, code.number, code.multiply_add
    sums = [builder.fadd(m[1], m[2]), builder.fadd(m[3], m[4])]
    differences = [builder.fsub(m[1], m[2]), builder.fsub(m[3], m[4])]

    def powers(k: int, parts: list[Any]) -> Any:
        return multiply_add(number(A**k), parts[0], builder.fmul(number(B**k), parts[1]))

    return [
        builder.fadd(m[0], builder.fadd(*sums)),
        powers(1, differences),
        powers(2, sums),
        builder.fadd(powers(3, differences), m[5]),
    ]


def _both_ways(code: Code, transform: Callable[[Code, list], list], square: list[list[Any]]) -> list[list[Any]]:
    """A transform of the columns and then of the rows of 6 x 6 vectors."""
    columns = [transform(code, [row[k] for row in square]) for k in range(6)]
    return [transform(code, list(row)) for row in zip(*columns)]


@intrinsic
def winograd_input(typingctx: Any, source: Any, table: Any, target: Any, pitch: Any) -> Any:
    """A vector of tiles: element k of the 6 x 6 of each is at source + table[k], its transform goes to target + k *
    pitch."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        source, table, target, pitch = args
        code = Code(builder, source)
        places = [code.at(source, builder.load(code.at(table, k))) for k in range(36)]
        square = [[code.load(places[6 * i + j]) for j in range(6)] for i in range(6)]
        for k, value in enumerate(sum(_both_ways(code, _of_input, square), [])):
            code.store(value, code.at(target, builder.mul(pitch, ir.Constant(INT, k))))

    return types.void(source, table, target, types.int64), codegen


@intrinsic
def winograd_output(typingctx: Any, source: Any, pitch: Any, target: Any, row_pitch: Any) -> Any:
    """A vector of tiles: product k of each is at source + k * pitch; its 4 rows of 4 outputs go to target, rows
    `row_pitch` apart, those of neighbouring tiles one after the other."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        source, pitch, target, row_pitch = args
        code = Code(builder, source)
        places = [code.at(source, builder.mul(pitch, ir.Constant(INT, k))) for k in range(36)]
        square = [[code.load(places[6 * i + j]) for j in range(6)] for i in range(6)]
        for i, row in enumerate(_both_ways(code, _to_output, square)):
            place = code.at(target, builder.mul(row_pitch, ir.Constant(INT, i)))
            even, odd = code.zipped(row[0], row[2]), code.zipped(row[1], row[3])
            parts = [part for pair in zip(even, odd) for part in code.zipped(*pair)]
            for k, part in enumerate(parts):
                code.store(part, code.at(place, k * code.lanes))

    return types.void(source, types.int64, target, types.int64), codegen


NAMESPACE: dict[str, Any] = {"winograd_input": winograd_input, "winograd_output": winograd_output}
