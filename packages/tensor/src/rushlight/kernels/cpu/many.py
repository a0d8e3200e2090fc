"""Loops over many tensors in one native call: optimizer steps, and the norm and scaling of gradients.

A `Table` cuts tensors of given sizes into blocks, the tasks that threads share out, and tells the kernels where the
tensors
of each list lie in memory. Sizes rarely change, addresses are noted anew for each call: eight arrays at a time, 0.5 us.

All arrays must be float32 and C-contiguous, all of a row of the same size; the caller vouches for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from rushlight.core.dtypes import float32
from rushlight.core.meta import Meta
from rushlight.kernels.cpu.jit import compile_source
from rushlight.kernels.cpu.team import run_kernel

# Below so many elements in all the operations are as quick, and nobody should wait for a compiler (0.5 s, once a
# machine).
WORTH = 4096
BLOCK = 8192  # elements to a task: what a thread works off in a few microseconds
BATCH = 8  # arrays whose addresses are noted in one call


def fits(meta: Meta) -> bool:
    """Can the loops take tensors with this metadata?"""
    return meta.dtype is float32 and meta.contiguous and meta.device.type == "cpu"


@cache
def _note_addresses() -> Callable[..., None]:
    names = [f"a{k}" for k in range(BATCH)]
    lines = [f"    scratch_store(addresses, at + u64({k}), address({name}))\n" for k, name in enumerate(names)]
    source = f"def kernel(addresses, at, {', '.join(names)}):\n" + "".join(lines)
    return compile_source(source, ("*i64", "u64", *("*u8" for _ in names)))


@cache
def _loop(body: str, columns: int) -> Callable[..., None]:
    """The native loop over blocks. `body` is run for each block, with `row`, `start`, `stop` and the arrays `c0`,
    `c1`, ..."""
    lines = ["def kernel(lo, hi, blocks, addresses, shared, results, numbers):", "    wide_vectors()"]
    lines += ["    rows = u64(load(blocks, u64(0)))"]
    lines += ["    for block in range(lo, hi):", "        at = u64(3) * block + u64(1)"]
    for k, name in enumerate(("row", "start", "stop")):
        lines.append(f"        {name} = u64(load(blocks, at + u64({k})))")
    lines += [f"        c{k} = pointer(load(addresses, u64({k}) * rows + row), f32)" for k in range(columns)]
    lines += [f"        {line}" for line in body.splitlines()]
    signature = ("u64", "u64", "*i64", "*i64", "*f64", "*f64", "*f64")
    return compile_source("\n".join(lines) + "\n", signature)


class Table:
    """The blocks of tensors with the given sizes, and the addresses of `columns` lists of them."""

    def __init__(self, sizes: Sequence[int], columns: int):
        self.rows = -(-len(sizes) // BATCH) * BATCH
        parts = [
            (row, start, min(start + BLOCK, size)) for row, size in enumerate(sizes) for start in range(0, size, BLOCK)
        ]
        self.count = len(parts)
        self.blocks = np.array([self.rows, *[x for part in parts for x in part]], np.int64)
        self.grain = max(1, self.count * BLOCK // max(1, sum(sizes)))
        self.addresses = np.zeros(columns * self.rows, np.int64)
        self.shared = np.zeros(2 * self.rows)
        self.results = np.zeros(max(1, self.count))

    def note(self, column: int, arrays: list[np.ndarray]) -> None:
        """Note where the arrays of one list begin."""
        note = _note_addresses()
        filled = arrays + arrays[:1] * (-len(arrays) % BATCH)
        base = column * self.rows
        for at in range(0, len(filled), BATCH):
            note(self.addresses, base + at, *filled[at : at + BATCH])

    def run(self, body: str, lists: Sequence[list[np.ndarray]], numbers: np.ndarray) -> None:
        """Run a loop body for all blocks of the lists."""
        for column, arrays in enumerate(lists):
            self.note(column, arrays)
        self.run_noted(body, len(lists), numbers)

    def run_noted(self, body: str, columns: int, numbers: np.ndarray) -> None:
        """Run a loop body for lists whose addresses stand in the table already."""
        kernel = _loop(body, columns)
        run_kernel(kernel, self.count, self.grain, self.blocks, self.addresses, self.shared, self.results, numbers)


_ADVANCE = """def kernel(lo, hi, addresses, shared, numbers):
    lr = load(numbers, u64(0))
    beta1 = load(numbers, u64(1))
    beta2 = load(numbers, u64(2))
    for row in range(lo, hi):
        counter = pointer(load(addresses, row), f32)
        step = scratch_load(counter, u64(0)) + f32(1.0)
        scratch_store(counter, u64(0), step)
        scratch_store(shared, u64(2) * row, lr / (f64(1.0) - pow(beta1, f64(step))))
        scratch_store(shared, u64(2) * row + u64(1), sqrt(f64(1.0) - pow(beta2, f64(step))))
"""


@cache
def _advance() -> Callable[..., None]:
    return compile_source(_ADVANCE, ("u64", "u64", "*i64", "*f64", "*f64"))


# c0 parameter, c1 gradient, c2 mean, c3 mean square, c4 largest mean square
_ADAM = """size = f32(load(shared, u64(2) * row))
root = f32(load(shared, u64(2) * row + u64(1)))
rate1 = f32(f64(1.0) - load(numbers, u64(1)))
beta2 = f32(load(numbers, u64(2)))
rate2 = f32(f64(1.0) - load(numbers, u64(2)))
eps = f32(load(numbers, u64(3)))
keep = f32(load(numbers, u64(4)))
decay = f32(load(numbers, u64(5)))
sign = f32(load(numbers, u64(6)))
for j in range(start, stop):
    p = load(c0, j) * keep
    g = load(c1, j) * sign + decay * p
    m = load(c2, j)
    m = m + (g - m) * rate1
    v = load(c3, j) * beta2 + g * g * rate2
    store(c2, j, m)
    store(c3, j, v)
{largest}    store(c0, j, p - size * (m / (sqrt(v) / root + eps)))
"""
_LARGEST = """    v = maximum(load(c4, j), v)
    store(c4, j, v)
"""

_ADAM_BODIES = [_ADAM.format(largest=largest) for largest in ("", _LARGEST)]

# c0 parameter, c1 gradient, c2 momentum
_SGD = """lr = f32(load(numbers, u64(0)))
momentum = f32(load(numbers, u64(1)))
rate = f32(f64(1.0) - load(numbers, u64(2)))
decay = f32(load(numbers, u64(3)))
sign = f32(load(numbers, u64(4)))
for j in range(start, stop):
    p = load(c0, j)
    g = load(c1, j) * sign + decay * p
{momentum}    store(c0, j, p - lr * g)
"""
_MOMENTUM = """    b = load(c2, j) * momentum + g * rate
    store(c2, j, b)
    g = b
"""
_NESTEROV = _MOMENTUM.replace("    g = b\n", "    g = g + momentum * b\n")
_SGD_BODIES = [_SGD.format(momentum=momentum) for momentum in ("", _MOMENTUM, _NESTEROV)]

_SQUARES = """total = f32(0.0)
for j in range(start, stop):
    x = load(c0, j)
    total = reassociable_add(total, x * x)
scratch_store(results, block, f64(total))
"""

_SCALE = """factor = f32(load(numbers, u64(0)))
for j in range(start, stop):
    store(c0, j, load(c0, j) * factor)
"""


def adam(
    table: Table,
    lists: Sequence[list[np.ndarray]],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    keep: float,
    decay: float,
    sign: float,
) -> None:
    """One step of Adam in place: `lists` are parameters, gradients, means, mean squares, for AMSGrad their maxima, and
    the step counters, 0-d float32.

    `keep` multiplies the parameters, `decay` times them is added to the
    gradients, which `sign` multiplies.
    """
    for column, arrays in enumerate(lists):
        table.note(column, arrays)
    adam_noted(table, len(lists), len(lists[-1]), np.array((lr, beta1, beta2, eps, keep, decay, sign)))


def adam_noted(table: Table, columns: int, count: int, numbers: np.ndarray) -> None:
    """The step of `adam` for `count` rows of tensors whose addresses stand in the table already."""
    steps = columns - 1
    _advance()(0, count, table.addresses[steps * table.rows :], table.shared, numbers)
    table.run_noted(_ADAM_BODIES[steps == 5], steps, numbers)


def sgd(
    table: Table,
    lists: Sequence[list[np.ndarray]],
    *,
    lr: float,
    momentum: float,
    dampening: float,
    nesterov: bool,
    decay: float,
    sign: float,
) -> None:
    """One step of SGD in place: `lists` are parameters, gradients, and with momentum its buffers."""
    for column, arrays in enumerate(lists):
        table.note(column, arrays)
    sgd_noted(table, len(lists), nesterov, np.array((lr, momentum, dampening, decay, sign)))


def sgd_noted(table: Table, columns: int, nesterov: bool, numbers: np.ndarray) -> None:
    """The step of `sgd` for tensors whose addresses stand in the table already."""
    table.run_noted(_SGD_BODIES[0 if columns == 2 else 1 + nesterov], columns, numbers)


def adam_small(
    lists: Sequence[list[np.ndarray]],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    keep: float,
    decay: float,
    sign: float,
) -> None:
    """`adam` with numpy, for arrays of any layout that are too small to be worth a native loop."""
    for p, g, mean, square, *largest, step in zip(*lists):
        step += 1
        t = float(step)
        if keep != 1:
            p *= keep
        if sign < 0:
            g = -g
        if decay:
            g = g + decay * p
        mean += (g - mean) * (1 - beta1)
        square *= beta2
        square += g * g * (1 - beta2)
        size = np.sqrt(np.maximum(largest[0], square, out=largest[0]) if largest else square)
        size = size / math.sqrt(1 - beta2**t) + eps
        p -= mean / size * (lr / (1 - beta1**t))


def sgd_small(
    lists: Sequence[list[np.ndarray]],
    *,
    lr: float,
    momentum: float,
    dampening: float,
    nesterov: bool,
    decay: float,
    sign: float,
) -> None:
    """`sgd` with numpy, for arrays of any layout that are too small to be worth a native loop."""
    for p, g, *buffer in zip(*lists):
        if sign < 0:
            g = -g
        if decay:
            g = g + decay * p
        if buffer:
            (b,) = buffer
            b *= momentum
            b += g * (1 - dampening)
            g = g + momentum * b if nesterov else b
        p -= lr * g


def sum_of_squares(table: Table, arrays: list[np.ndarray]) -> float:
    """The sum of the squares of all elements; float32 within a block, float64 over the blocks."""
    table.run(_SQUARES, [arrays], table.shared)
    return float(table.results[: table.count].sum())


def scale(table: Table, arrays: list[np.ndarray], factor: float) -> None:
    """Multiply all elements by a number, in place."""
    table.run(_SCALE, [arrays], np.array((factor,)))
