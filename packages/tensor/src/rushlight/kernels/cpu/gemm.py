"""Products of matrices: C = alpha * A @ B + beta * D, for float32 and float64, any strides, batches of any shape.

How a product becomes fast
--------------------------
A product of n x n matrices does 2 n**3 operations on 3 n**2 numbers. Three nested loops run at a hundredth of what a
processor can do, because they fetch a number for every operation. Everything here serves one aim: to use a number
often while it is near. There are three places where it can be near, and the product is cut once for each.

1. **Registers: the tile** (`gemm_tile`). A tile of C, 14 rows by two vectors with AVX-512, stays in registers while
   its sums are made. Each step fetches 14 numbers of A and 32 of B and does 448 multiply-adds.

                       B: 512 x 32 panel
                      +----+
                      |    |
             A        |    |        Each tile of C is the product of
          +------+    +----+        some rows of A and a panel of B.
       14 |======| -> |tile|
          +------+    +----+

2. **First caches: the panel.** All tiles of a column of tiles use the same columns of B. They are copied ("packed") to
   a panel, at most 512 rows of 32 columns that lie side by side: 64 KiB, which stay close while the tiles go down over
   the rows of A. In B itself these rows lie far apart, in as many memory pages.
3. **Second cache: the block.** The rows of A that a task works off with one panel after another, at most 512, stay in
   the second cache from panel to panel.

Sums longer than 512 go in several rounds, the later ones add to C. The order of additions is the same for every
element and depends on neither threads nor cutting nor strides: results are reproducible bit for bit.

The matrices of a batch come from afar, and the processor foresees neither the next panel nor the next rows of A where
these are short. So they are asked for while the tiles before them are multiplied: 12 to 17 % off batches of 128 x 128
and products of 64 x 64 by 64 x 3136. A single matrix is packed as quickly without.

Strides cost nothing: a tile reads A with any, and packing evens out those of B. Where B is stored by columns, packing
transposes blocks of vectors in registers. Large matrices are packed whole before, A too, by all threads (`_large`); the
reason is that rows whose distance is a multiple of 4096 bytes would push each other out of the cache.

What the product is added to (a bias, say) is written to a tile of C right before the tile's first round, so that it
costs no pass over the memory.

A task is a panel with a block of rows; threads take tasks by `team.run_kernel`. To see the loops, read `_MULTIPLY` in
`gemm_kernels`; for more, Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from rushlight.core.meta import below
from rushlight.kernels.cpu import allocator, gemm_kernels, pool
from rushlight.kernels.cpu import gemm_words as w
from rushlight.kernels.cpu.gemm_kernels import DEPTH, tile_shape
from rushlight.kernels.cpu.team import run_kernel
from rushlight.kernels.layout import as_words

# Multiply-adds from which on this is faster than numpy's BLAS: 80 x 80 matrices. At 64 x 64 both take 4 us, and nobody
# should wait for a compiler (2 s, once a machine) for a few thousand elements.
WORTH = 1 << 19
# Multiply-adds that are worth a piece of work: 3 us, where handing it over takes 1.
PIECE = 500_000
# Most rows that a task works off with a panel, which it packs itself; and tiles of rows, where all is packed before.
# 20 tiles are 240 KiB of float32 with AVX, 560 with AVX-512, a part of the second cache.
BLOCK, BLOCK_PACKED = 512, 20
# Elements of A and B together from which on they are packed before (when A's rows are contiguous, and when not).
# Matrices of 512 x 512 are as quick as they lie; those of 1024 x 1024 take 1.4 to 1.6 times PyTorch's time then, and
# 1.2 packed. By columns, up to a million packing takes 5 to 20 % of the time of one thread, and half of two threads'
# (768 x 512 by 768 x 128, the gradient of a weight: 525 us as they lie, 1150 packed).
# Where B is stored by columns, its panels are transposed anyway, and are as quick to pack in their tasks: 512 x 768 by
# 768 x 3072 at 88 instead of 82 Gflop/s.
LARGE, LARGE_BY_COLUMNS, LARGE_TURNED = 700_000, 1_000_000, 4_000_000
# Distances in bytes whose multiples make columns of A, rows of B push each other out of the first cache. Such columns
# are packed from half as many elements on (512 x 512: 71 to 86 Gflop/s on one thread).
CROWDED_COLUMNS, CROWDED_ROWS = 2048, 512
# Panels are read where they lie, not packed, for at most so many elements of B, which stay in the first cache; and for
# so few rows of A (of crowded B), or tiles of them (else), that packing does not pay. With AVX, 64 rows are faster
# packed by 0 to 25 % whatever B is; with AVX-512 they are four tiles (16 times 64 x 256 by 256 x 784: 5.8 ms as it
# lies, 7.5 packed).
SMALL, FEW_CROWDED, FEW_TILES = 12_000, 32, 8
# Rows and columns of large matrices that are packed at a time, so that the copies stay at 2 MiB each.
HIGH, WIDE = 1024, 1024
# Rows of A's copy lie so much farther apart than they are long. A multiple of 4096 bytes would put them in the same
# places of the cache; an odd number lets them reach their next cache lines one after the other, not all at once.
PADDING = 17


class _Plan(NamedTuple):
    words: np.ndarray
    tasks: int
    each: int  # multiply-adds of a task

    @property
    def grain(self) -> int:
        """Tasks that are worth a piece of work."""
        return max(1, PIECE // self.each)


def takes(a: np.ndarray, b: np.ndarray) -> bool:
    """Can `multiply` take these operands?"""
    return a.dtype == b.dtype and a.dtype.char in "fd" and a.flags.aligned and b.flags.aligned


def multiply(
    a: np.ndarray,
    b: np.ndarray,
    out: np.ndarray | None = None,
    added: np.ndarray | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
) -> np.ndarray:
    """`alpha * a @ b + beta * added`: (*, m, k), (*, k, n) -> (*, m, n), what is added broadcasts. `takes` must hold.

    `out` must not overlap `a` and `b`; it may be `added` itself.
    """
    shape = (*a.shape[:-2], a.shape[-2], b.shape[-1])
    if a.ndim > 2 or b.ndim > 2:
        shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *shape[-2:])
    if out is None:
        out = allocator.empty(shape, a.dtype)
    elif out.strides[-1] != out.itemsize and shape[-1] > 1:
        if out.strides[-2] == out.itemsize or shape[-2] == 1:
            turned = None if added is None else np.broadcast_to(added, shape).swapaxes(-1, -2)
            multiply(b.swapaxes(-1, -2), a.swapaxes(-1, -2), out.swapaxes(-1, -2), turned, alpha, beta)
        else:
            out[...] = multiply(a, b, None, added, alpha, beta)
        return out
    if out.size:
        if added is None or beta == 0:
            _run(a, b, out, None, _numbers(a.dtype.char, alpha, 0.0))
        elif added is out and beta == 1:
            _run(a, b, out, None, _numbers(a.dtype.char, alpha, 1.0), add=True)
        else:
            _run(a, b, out, np.broadcast_to(added, shape), _numbers(a.dtype.char, alpha, beta))
    return out


def prepared(
    char: str, shape: tuple[int, ...], a: tuple[tuple[int, ...], tuple[int, ...]],
    b: tuple[tuple[int, ...], tuple[int, ...]], added: tuple[int, ...] | None = None,
    out: tuple[int, ...] | None = None,
) -> Callable[..., np.ndarray] | None:  # fmt: skip
    """`multiply` for known shapes and strides, with all decided before; None where it takes several calls.

    `added` are the strides of what is added, broadcast to `shape`; `out` is the shape that the result gets in the end.
    """
    strides = contiguous_strides(shape, np.dtype(char).itemsize)
    threads = pool.get_num_threads()
    plan = _plan(char, shape, *a, *b, strides, added, threads)
    if plan is None:
        return None
    dtype, empty = np.dtype(char), allocator.empty
    kernel, numbers, full = gemm_kernels.multiply(dtype), _numbers(char, 1.0, 1.0), shape if out is None else out

    def run(x: np.ndarray, y: np.ndarray, z: np.ndarray | None = None) -> np.ndarray:
        nonlocal plan, threads
        if threads != pool.get_num_threads():
            threads = pool.get_num_threads()
            plan = _plan(char, shape, *a, *b, strides, added, threads)
        result = empty(full, dtype)
        words, tasks, each = plan
        run_kernel(kernel, tasks, max(1, PIECE // each), words, x, y, result, result if z is None else z, numbers)
        return result

    return run


def single(
    char: str, shape: tuple[int, ...], a: tuple[tuple[int, ...], tuple[int, ...]],
    b: tuple[tuple[int, ...], tuple[int, ...]], added: tuple[int, ...] | None = None,
) -> tuple[Callable[..., None], int, np.ndarray, np.ndarray] | None:  # fmt: skip
    """A product of known shapes and strides as one call on this thread: `kernel(0, tasks, words, a, b, out, added,
    numbers)`, where `out` is row-major, and given for `added` too where nothing is. None where threads, several calls
    or products with vectors do better.
    """
    if shape[-1] < 2 or shape[-2] < 2:
        return None
    plan = _plan(char, shape, *a, *b, contiguous_strides(shape, np.dtype(char).itemsize), added, 1)
    if plan is None or not (plan.tasks == 1 or below(plan.tasks * plan.each, 2 * PIECE)):
        return None
    return gemm_kernels.multiply(np.dtype(char)), plan.tasks, plan.words, _numbers(char, 1.0, 1.0)


def extents(words: Any, tasks: int) -> list[int]:
    """How many elements lie between the first and the last of A, B, C and D that a product comes to, these included."""
    words = words.tolist() if isinstance(words, np.ndarray) else words
    m, n, k = words[: w.A_ROW]
    inner = words[w.INNER]
    entries = tasks // (words[w.PANELS] * -(-m // words[w.BLOCK]))
    sides = [(m, w.A_ROW, k, w.A_DEPTH, w.A_OUTER), (k, w.B_DEPTH, n, w.B_COLUMN, w.B_OUTER)]
    found = [1 + (rows - 1) * words[row] + (columns - 1) * words[column] + _of_batch(words, at, entries, inner)
             for rows, row, columns, column, at in sides]
    found.append(1 + (m - 1) * words[w.C_ROW] + n - 1 + _of_batch(words, w.C_OUTER, entries, inner))
    of_d = (m - 1) * words[w.D_ROW] + (n - 1) * words[w.D_COLUMN] + _of_batch(words, w.D_OUTER, entries, inner)
    return [*found, 1 + of_d]


def _of_batch(words: Sequence[int], outer: int, entries: int, inner: int) -> int:
    return (entries // inner - 1) * words[outer] + (inner - 1) * words[outer + 1]


def within(
    char: str, pitch: int, places: Sequence[tuple[int, int]], size: tuple[int, int, int], threads: int
) -> tuple[int, int, np.ndarray] | None:
    """C += alpha * A @ B for parts of one matrix whose rows are `pitch` elements apart: tasks, grain and words for
    `gemm_kernels.multiply`. `places` are the first row and column of A, B and C, `size` is (m, n, k)."""
    m, n, k = size
    strides = (pitch * np.dtype(char).itemsize, np.dtype(char).itemsize)
    plan = _plan(char, (m, n), (m, k), strides, (k, n), strides, strides, None, threads, True)
    if plan is None:
        return None
    words = plan.words.copy()
    words[w.A_FIRST : w.FREE] = [row * pitch + column for row, column in places]
    return plan.tasks, plan.grain, words


def contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes of a row-major array."""
    return tuple([itemsize * prod(shape[d + 1 :]) for d in range(len(shape))])


@lru_cache(256)
def _numbers(char: str, alpha: float, beta: float) -> np.ndarray:
    return np.array([alpha, beta], char)


def _run(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray | None, numbers: np.ndarray, add: bool = False
) -> None:
    """A product into `c`; with `add`, onto it."""
    plan = _plan(
        c.dtype.char, c.shape, a.shape, a.strides, b.shape, b.strides, c.strides, None if d is None else d.strides,
        pool.get_num_threads(), add,
    )  # fmt: skip
    if plan is not None:
        kernel = gemm_kernels.multiply(c.dtype)
        run_kernel(kernel, plan.tasks, plan.grain, plan.words, a, b, c, c if d is None else d, numbers)
    elif c.ndim == 2:
        _large(a, b, c, d, numbers, add)
    else:
        for i in range(c.shape[0]):
            _run(_entry(a, i, c.ndim), _entry(b, i, c.ndim), c[i], None if d is None else d[i], numbers, add)


def _entry(x: np.ndarray, index: int, ndim: int) -> np.ndarray:
    """Entry of the first batch dimension of an operand that may not have it."""
    return x if x.ndim < ndim else x[index if x.shape[0] > 1 else 0]


@lru_cache(4096)
def _plan(
    char: str, shape: tuple[int, ...], a_shape: tuple[int, ...], a_strides: tuple[int, ...], b_shape: tuple[int, ...],
    b_strides: tuple[int, ...], c_strides: tuple[int, ...], d_strides: tuple[int, ...] | None, threads: int,
    add: bool = False,
) -> _Plan | None:  # fmt: skip
    """How to run a product in one call; None if it takes several: for large matrices, and for an odd batch."""
    dtype = np.dtype(char)
    m, n, k = *shape[-2:], a_shape[-1]
    by_rows = a_strides[-1] == dtype.itemsize
    batch = _batch(shape, [(a_shape, a_strides), (b_shape, b_strides), (shape, c_strides), (shape, d_strides)])
    large = LARGE if b_strides[-1] == dtype.itemsize else LARGE_TURNED
    if not by_rows:
        large = LARGE_BY_COLUMNS // (1 if a_strides[-1] % CROWDED_COLUMNS else 2)
    if batch is None or not below(m * k + k * n, large + 1):
        return None
    words = _words(dtype, m, n, k, a_strides, b_strides, c_strides, d_strides)
    (outer, *steps), (inner, *inner_steps) = batch
    words[w.A_OUTER : w.INNER : 2] = [step // dtype.itemsize for step in steps]
    words[w.A_INNER : w.INNER : 2] = [step // dtype.itemsize for step in inner_steps]
    words[w.INNER], words[w.ADD] = inner, int(add)
    few = FEW_TILES * tile_shape(dtype)[0] if b_strides[-2] % CROWDED_ROWS else FEW_CROWDED
    near = b_strides[-1] == dtype.itemsize and (below(k * n, SMALL + 1) or below(m, few + 1))
    words[w.PLACE] = w.IN_PLACE if near else w.PACK
    if outer * inner > 1:
        moves = words[w.A_OUTER] != 0 or words[w.A_INNER] != 0
        words[w.A_AHEAD] = int(by_rows and moves and below(k, DEPTH + 1))
        words[w.ASKER] = 0 if near else gemm_kernels.asker(dtype)
    return _cut(words, outer * inner, dtype, threads)


def _words(
    dtype: np.dtype, m: int, n: int, k: int, a_strides: Sequence[int], b_strides: Sequence[int],
    c_strides: Sequence[int], d_strides: Sequence[int] | None,
) -> list[int]:  # fmt: skip
    words = [0] * w.WORDS
    words[: w.A_ROW] = m, n, k
    steps = (*a_strides[-2:], *b_strides[-2:], c_strides[-2], *(d_strides or (0, 0))[-2:])
    words[w.A_ROW : w.A_OUTER] = [step // dtype.itemsize for step in steps]
    words[w.INNER] = 1
    words[w.TILE], words[w.PACKER] = gemm_kernels.tile(dtype), gemm_kernels.packer(dtype)
    if d_strides is not None:
        words[w.STARTER] = gemm_kernels.starter(dtype)
    return words


def _cut(words: list[int], batch: int, dtype: np.dtype, threads: int) -> _Plan:
    """Cut a product into tasks: enough of them for all threads, but with rows enough to make packing worth it."""
    rows, columns = tile_shape(dtype)
    m, n, k = words[: w.A_ROW]
    panels = -(-n // columns)
    most = BLOCK_PACKED * rows if words[w.PLACE] == w.PACKED else BLOCK
    blocks = 1 if m <= most else -(-m // most)
    if threads > 1:
        wanted = min(4 * threads, batch * m * n * k // PIECE)
        blocks = max(blocks, min(-(-wanted // (panels * batch)), m // (4 * rows)))
    block = -(-m // blocks)
    words[w.BLOCK], words[w.PANELS] = block, panels
    return _Plan(as_words(words), -(-m // block) * panels * batch, max(1, block * columns * k))


def _batch(
    shape: tuple[int, ...], operands: Sequence[tuple[tuple[int, ...], tuple[int, ...] | None]]
) -> list[list[int]] | None:
    """Two batch dimensions, each a size and a stride per operand, for all there are; None if that is impossible."""
    dims: list[list[int]] = [[1, *[0] * len(operands)]] * 2
    for d in range(-len(shape), -2):
        if shape[d] == 1:
            continue
        steps = []
        for sizes, strides in operands:
            absent = strides is None or -d > len(sizes) or sizes[d] == 1
            steps.append(0 if absent or strides is None else strides[d])
        previous = dims[-1]
        if all(before == step * shape[d] for before, step in zip(previous[1:], steps, strict=True)):
            dims[-1] = [previous[0] * shape[d], *steps]
        else:
            dims.append([shape[d], *steps])
    dims = [dim for dim in dims if dim[0] != 1]
    return None if len(dims) > 2 else [[1, *[0] * len(operands)]] * (2 - len(dims)) + dims


def _large(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray | None, numbers: np.ndarray, add: bool
) -> None:
    """A product of large matrices: chunks of A and of B are packed, then multiplied."""
    dtype, threads = c.dtype, pool.get_num_threads()
    (m, n), k = c.shape, a.shape[1]
    _, columns = tile_shape(dtype)
    pitch = DEPTH + PADDING
    high, wide = min(m, HIGH), -(-min(n, WIDE) // columns) * columns
    rows = allocator.empty((high, pitch), dtype)
    panels = allocator.empty((DEPTH * wide if m > BLOCK else 0,), dtype)
    for i in range(0, m, HIGH):
        for p in range(0, k, DEPTH):
            left = a[i : i + HIGH, p : p + DEPTH]
            _pack_rows(left, rows)
            for j in range(0, n, WIDE):
                right, part = b[p : p + DEPTH, j : j + WIDE], c[i : i + HIGH, j : j + WIDE]
                start = None if d is None or p else d[i : i + HIGH, j : j + WIDE]
                words = _words(
                    dtype, len(part), part.shape[1], left.shape[1], rows.strides, right.strides, part.strides,
                    None if start is None else start.strides,
                )  # fmt: skip
                words[w.ADD] = int(add or p > 0)
                if m > BLOCK:  # else each panel is used once
                    pack_panels(right, panels)
                    right, words[w.PLACE] = panels, w.PACKED
                plan = _cut(words, 1, dtype, threads)
                run_kernel(
                    gemm_kernels.multiply(dtype), plan.tasks, plan.grain, plan.words, rows, right, part,
                    part if start is None else start, numbers,
                )  # fmt: skip


def _packing(matrix: np.ndarray) -> np.ndarray:
    words = np.zeros(w.WORDS, np.int64)
    words[w.B_DEPTH], words[w.B_COLUMN] = matrix.strides[0] // matrix.itemsize, matrix.strides[1] // matrix.itemsize
    words[w.PACKER] = gemm_kernels.packer(matrix.dtype)
    return words


def _pack_rows(matrix: np.ndarray, copy: np.ndarray) -> None:
    words = _packing(matrix)
    words[w.M], words[w.K] = matrix.shape
    words[w.C_ROW] = copy.shape[1]
    group = tile_shape(matrix.dtype)[1] // 2
    groups = -(-matrix.shape[0] // group)
    grain = max(1, PIECE // 32 // (group * matrix.shape[1]))
    run_kernel(gemm_kernels.pack_rows(matrix.dtype), groups, grain, words, matrix, copy)


def pack_panels(matrix: np.ndarray, copy: np.ndarray) -> None:
    """Copy a matrix panel by panel: `copy[column * depth + k * COLUMNS + j] = matrix[k, column + j]`."""
    words = _packing(matrix)
    words[w.K], words[w.N] = depth, n = matrix.shape
    words[w.PANELS] = -(-n // tile_shape(matrix.dtype)[1])
    # Rows at a time; where columns lie along the memory, longer parts of them (that takes 10 % off the whole product).
    words[w.BLOCK] = block = 16 if matrix.strides[1] == matrix.itemsize else 128
    grain = max(1, PIECE // 32 // (block * n))
    run_kernel(gemm_kernels.pack_panels(matrix.dtype), -(-depth // block), grain, words, matrix, copy)
