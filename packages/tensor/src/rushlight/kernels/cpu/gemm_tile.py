"""The innermost loop of matrix products, as vector instructions.

A processor multiplies and adds whole vectors, two of them a cycle, but loads and stores hardly more. So a product is
fast when each number that is loaded is used many times while it is in a register. `multiply_tile` keeps a tile of the
result, ROWS rows by VECTORS vectors, in registers for the whole sum. Each step takes one row of B's panel (VECTORS
loads) and one number of each of A's rows (ROWS loads), and does ROWS * VECTORS multiply-adds with them: 28 for 16 loads
with AVX-512. The sums are independent of each other, so the 4 cycles that a multiply-add takes do not show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from rushlight.kernels.cpu.language import ADDRESS, INT, declared, intrinsic, on_stack, types
from rushlight.kernels.cpu.tiles import BYTES, REGISTERS, Code

VECTORS = 2
# Sums take all registers but VECTORS for a row of B and two for numbers of A: 14 rows with AVX-512, NEON; 6 with AVX.
ROWS = REGISTERS // VECTORS - 2
# Rows of A that are found from one pointer: it, a row and two rows further.
NEAR = 3
# Rows of a panel that are asked for in advance: 153 instead of 135 Gflop/s with AVX-512, whose panels come from the
# second cache. Those of AVX fit the first: there asking costs 68 instead of 78 Gflop/s where others use the core, too.
AHEAD = 16 if REGISTERS == 32 else 0


def lanes(itemsize: int) -> int:
    """Numbers of so many bytes in a register."""
    return BYTES // itemsize


class _Code(Code):
    """Writes instructions on vectors of one element type."""

    def row(self, pointer: Any, index: int, stride: Any) -> Any:
        return self.at(pointer, self.builder.mul(ir.Constant(INT, index), stride))

    def apart(self, pointer: Any) -> Any:
        """The pointer, as if nothing were known of it.

        LLVM would make all rows' addresses from one another: a chain of additions, one a row and cycle, as long as the
        multiply-adds of a step take. Whatever is late then stays late: 75 instead of 100 Gflop/s with AVX.
        """
        kind = ir.FunctionType(pointer.type, [pointer.type])
        return self.builder.asm(kind, "", "=r,0", [pointer], side_effect=False)

    def prefetch(self, pointer: Any) -> None:
        """Asks for a cache line that will be read soon; an address out of bounds does no harm."""
        kind = ir.FunctionType(ir.VoidType(), [ADDRESS, *[ir.IntType(32)] * 3])
        function = declared(self.builder.module, kind, "llvm.prefetch.p0i8")
        read, keep, data = (ir.Constant(ir.IntType(32), flag) for flag in (0, 3, 1))
        self.builder.call(function, [self.builder.bitcast(pointer, ADDRESS), read, keep, data])


def _sums(code: _Code, rows: int, a: Any, a_row: Any, a_depth: Any, b: Any, b_depth: Any, depth: Any) -> list[Any]:
    """The sums of a tile."""
    builder = code.builder
    starts = [code.row(a, i, a_row) for i in range(0, rows, NEAR)]

    def step(k: Any, state: list[Any]) -> list[Any]:
        row, columns, sums = state[0], state[1 : 1 + len(starts)], state[1 + len(starts) :]
        right = [code.load(code.at(row, j * code.lanes)) for j in range(VECTORS)]
        for j in range(VECTORS if AHEAD else 0):
            code.prefetch(code.at(code.row(row, AHEAD, b_depth), j * code.lanes))
        result = [code.at(row, b_depth), *[code.apart(code.at(column, a_depth)) for column in columns]]
        for i in range(rows):
            left = code.everywhere(builder.load(code.row(columns[i // NEAR], i % NEAR, a_row)))
            result += [code.multiply_add(left, right[j], sums[i * VECTORS + j]) for j in range(VECTORS)]
        return result

    state = code.sums([b, *starts, *[code.zero] * (rows * VECTORS)], ir.Constant(INT, 0), depth, 1, step)
    return state[1 + len(starts) :]


def _write(code: _Code, tile: list[Any], c: Any, c_row: Any, add: Any) -> None:
    """c = tile or, with `add`, c += tile."""
    builder = code.builder
    with builder.if_else(builder.icmp_signed("!=", add, ir.Constant(INT, 0))) as (increase, replace):
        for block in (increase, replace):
            with block:
                for at, value in enumerate(tile):
                    place = code.at(code.row(c, at // VECTORS, c_row), at % VECTORS * code.lanes)
                    code.store(builder.fadd(code.load(place), value) if block is increase else value, place)


def _function(module: Any, name: str, arguments: list[Any]) -> Any:
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), arguments), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    set.add(function.attributes, '"prefer-vector-width"="512"')  # see `wide_vectors`
    return function


def _tile(module: Any, element: Any, rows: int) -> Any:
    """The function for so many rows: c = alpha * a @ b, or c += alpha * a @ b."""
    name = f"tile_of_{rows}_rows_{element}"
    if name in module.globals:
        return module.globals[name]
    pointer = element.as_pointer()
    function = _function(module, name, [pointer, INT, INT, pointer, INT, INT, pointer, INT, INT, element])
    a, a_row, a_depth, b, b_depth, depth, c, c_row, add, alpha = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    code = _Code(builder, a)
    # The rows of C are far apart: asked for now, they are there at the end. Takes 5 to 15 % off products of matrices
    # that do not stay in the second cache.
    for i in range(rows):
        for j in (0, VECTORS * code.lanes - 1):
            code.prefetch(code.at(code.row(c, i, c_row), j))
    sums = _sums(code, rows, a, a_row, a_depth, b, b_depth, depth)
    scale = code.everywhere(alpha)
    _write(code, [builder.fmul(scale, value) for value in sums], c, c_row, add)
    builder.ret_void()
    return function


def _panels(module: Any, element: Any, rows: int) -> Any:
    """The function for so many rows: tile after tile along some panels."""
    name = f"panels_of_{rows}_rows_{element}"
    if name in module.globals:
        return module.globals[name]
    pointer = element.as_pointer()
    function = _function(module, name, [INT, pointer, INT, INT, pointer, INT, INT, pointer, INT, INT])
    panels, a, a_row, a_depth, b, b_panel, depth, c, c_row, add = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    code = _Code(builder, a)
    columns = ir.Constant(INT, VECTORS * code.lanes)

    def panel(number: Any, state: list[Any]) -> list[Any]:
        b, c = state
        _write(code, _sums(code, rows, a, a_row, a_depth, b, columns, depth), c, c_row, add)
        return [code.at(b, b_panel), code.at(c, columns)]

    code.sums([b, c], ir.Constant(INT, 0), panels, 1, panel)
    builder.ret_void()
    return function


def _call(builder: Any, function: Callable[..., Any], element: Any, rows: Any, args: Sequence[Any]) -> None:
    """Calls the function for so many rows."""
    end = builder.append_basic_block("multiplied")
    switch = builder.switch(rows, end)
    for count in range(1, ROWS + 1):
        block = builder.append_basic_block(f"rows{count}")
        switch.add_case(ir.Constant(INT, count), block)
        with builder.goto_block(block):
            builder.call(function(builder.module, element, count), args)
            builder.branch(end)
    builder.position_at_end(end)


@intrinsic
def multiply_tile(
    typingctx: Any, rows: Any, a: Any, a_row: Any, a_depth: Any, b: Any, b_depth: Any, depth: Any, c: Any, c_row: Any,
    add: Any, alpha: Any,
) -> Any:  # fmt: skip
    """c[i, j] = alpha * sum over k of a[i, k] * b[k, j] for `rows` rows (at most ROWS) and a panel's columns; with
    `add`, c[i, j] += ..."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        _call(builder, _tile, args[1].type.pointee, args[0], args[1:])

    n = types.int64
    return types.void(n, a, n, n, b, n, n, c, n, n, a.dtype), codegen


@intrinsic
def multiply_panels(
    typingctx: Any, rows: Any, panels: Any, a: Any, a_row: Any, a_depth: Any, b: Any, b_panel: Any, depth: Any, c: Any,
    c_row: Any, add: Any,
) -> Any:  # fmt: skip
    """c = a @ b, or c += a @ b, for `rows` rows (at most ROWS) and the columns of some packed panels, `b_panel` apart.

    What is besides the sums of a tile counts where these are short: 64 x 12 by 12 x 128 at 75 instead of 59 Gflop/s
    tile by tile.
    """

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        _call(builder, _panels, args[2].type.pointee, args[0], args[1:])

    n = types.int64
    return types.void(n, n, a, n, n, b, n, n, c, n, n), codegen


@intrinsic
def transpose_block(typingctx: Any, source: Any, pitch: Any, target: Any, width: Any) -> Any:
    """target[k * width + i] = source[i * pitch + k] for a square block with the sides of a vector.

    Interleaving vector i with vector i + half, for all i, moves the highest bit of a row's number to the lowest bit
    of a lane's. After as many rounds as the number has bits, rows are lanes.
    """

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        source, pitch, target, width = args
        code = _Code(builder, source)
        vectors = [code.load(code.row(source, i, pitch)) for i in range(code.lanes)]
        half = code.lanes // 2
        for _ in range(code.lanes.bit_length() - 1):
            pairs = zip(vectors[:half], vectors[half:], strict=True)
            vectors = [vector for a, b in pairs for vector in code.zipped(a, b)]
        for k, vector in enumerate(vectors):
            code.store(vector, code.row(target, k, width))

    return types.void(source, types.int64, target, types.int64), codegen


@intrinsic
def invoke(typingctx: Any, kernel: Any, arguments: Any) -> Any:
    """Call the kernel at an address with a tuple of arguments of exactly its types."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        values = [builder.extract_value(args[1], k) for k in range(len(arguments))]
        result, exception = (on_stack(builder, ADDRESS) for _ in range(2))
        kinds = [ADDRESS.as_pointer()] * 2 + [value.type for value in values]
        kind = ir.FunctionType(ir.IntType(32), kinds).as_pointer()
        builder.call(builder.inttoptr(args[0], kind), [result, exception, *values])

    return types.void(types.int64, arguments), codegen


@intrinsic
def ask(typingctx: Any, pointer: Any, index: Any) -> Any:
    """Asks for the cache line of an element that will be read soon; an index out of bounds does no harm."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> None:
        _Code(builder, args[0]).prefetch(builder.gep(args[0], [args[1]]))

    return types.void(pointer, types.int64), codegen


@intrinsic
def moved(typingctx: Any, pointer: Any, index: Any) -> Any:
    """The array from element `index` on."""
    return pointer(pointer, types.int64), lambda context, builder, sig, args: builder.gep(args[0], [args[1]])


NAMESPACE: dict[str, Any] = {
    "multiply_tile": multiply_tile, "multiply_panels": multiply_panels, "transpose_block": transpose_block, "ask": ask,
    "invoke": invoke, "moved": moved,
}  # fmt: skip
