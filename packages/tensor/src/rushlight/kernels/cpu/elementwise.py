"""Elementwise kernels for the CPU, made from scalar definitions.

    kernel = elementwise_kernel(gelu, [np.float32], np.float32)
    kernel(out, x)                     # writes gelu(x) into out

    elementwise_kernel(fn, in_dtypes, out_dtype, arg_dtypes=None, params=None)

`in_dtypes` are the arrays' dtypes, `arg_dtypes` what the definition is to see (promotion: `add` of int32 and float32
computes with `arg_dtypes=[float32, float32]`); half types compute in float32. `params` are constants of the
definition. A number that changes from call to call should be an operand instead (a Python number or 0-d array): then
one kernel serves all values.

A call takes arrays of any strides that broadcast to the result's shape. The result may be an operand, exactly;
partial overlap is for the caller to exclude. `kernel.source(...)` shows the generated loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.core.native import installed
from rushlight.kernels.build import build_program
from rushlight.kernels.cpu.jit import compile_source
from rushlight.kernels.cpu.team import run_kernel
from rushlight.kernels.layout import broadcasts, element_strides, plan_layout
from rushlight.kernels.polynomials import POLYNOMIALS
from rushlight.kernels.source import TILE, Loop, is_call, loop_source
from rushlight.kernels.trace import Apply, Program

# Below this many elements, strided or broadcast operands are copied first and the flat kernel runs: the copy costs
# 1..3 us and saves compiling a loop (0.1 s) for every pattern of strides that small tensors happen to have. Once small
# calls are native these 3 us count.
SMALL = 8192
# A piece for a thread should take about this long, so that handing it over (about 2 us in all) does not show.
PIECE_NANOSECONDS = 6_000.0


class ElementwiseKernel:
    """A scalar definition for fixed dtypes. Native loops are made on first need, one per way of walking through
    memory."""

    def __init__(self, program: Program, in_dtypes: Sequence[np.dtype], out_dtypes: Sequence[np.dtype]):
        self.program = program
        self.in_dtypes = tuple(in_dtypes)
        self.out_dtypes = tuple(out_dtypes)
        self.grain = _grain(program)
        self._opaques = program.opaques()
        self._plans: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._loops: dict[tuple[Any, ...], tuple[str, tuple[str, ...]]] = {}

    def source(self, walks: Sequence[str] | None = None, rank: int = 1) -> str:
        """The generated Python source of a loop (by default the contiguous one)."""
        return loop_source(
            Loop(self.program, tuple(walks or "c" * (len(self.in_dtypes) + len(self.out_dtypes))), rank)
        )

    def loop(self, walks: tuple[str, ...], rank: int, tiled: bool = False) -> Callable[..., None]:
        """The native loop for a walk: `loop(lo, hi, [layout,] *outs, *ins)`, unchecked."""
        printed = self._loops.get((walks, rank, tiled))
        if printed is None:
            if len(self._loops) > 256:
                self._loops.clear()
            loop = Loop(self.program, walks, rank, tiled)
            printed = self._loops[walks, rank, tiled] = loop_source(loop), loop.signature
        return compile_source(*printed, self._opaques)

    def __call__(self, out: np.ndarray | tuple[np.ndarray, ...], *ins: Any) -> Any:
        """Compute into `out` (a tuple for definitions with several results) and return it."""
        outs = out if type(out) is tuple else (out,)
        arrays = [*outs]
        key: list[Any] = []
        for array in outs:
            key += (array.shape, array.strides)
        for dtype, x in zip(self.in_dtypes, ins, strict=True):
            if type(x) is not np.ndarray or x.dtype != dtype:
                x = self._as_operand(x, dtype)
            arrays.append(x)
            key += (x.shape, x.strides)
        plan = self._plans.get(tuple(key))
        if plan is None:
            plan = self._plan(tuple(key), arrays, len(outs))
        n, native, layout, grain = plan
        if native is None:
            if n:
                self._run_copied(arrays, len(outs))
            return out
        if layout is not None:
            arrays.insert(0, layout)
        if n < 2 * grain:
            native(0, n, *arrays)
        else:
            run_kernel(native, n, grain, *arrays)
        return out

    @staticmethod
    def _as_operand(x: Any, dtype: np.dtype) -> np.ndarray:
        if isinstance(x, np.ndarray):
            if x.dtype != dtype:
                raise TypeError(f"elementwise kernel compiled for {dtype} got an array of {x.dtype}")
            return np.asarray(x)
        return np.array(x).astype(dtype)

    def _plan(self, key: tuple[Any, ...], arrays: list[np.ndarray], outs: int) -> tuple[Any, ...]:
        shape = arrays[0].shape
        for dtype, array in zip(self.out_dtypes, arrays, strict=False):
            if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
                raise TypeError(
                    f"elementwise kernel writes {dtype} of shape {shape}, "
                    f"but the result is {array.dtype} of shape {array.shape}"
                )
        for array in arrays[outs:]:
            if not broadcasts(array.shape, shape):
                raise ValueError(f"operand of shape {array.shape} does not broadcast to the result's shape {shape}")
        strides = [element_strides(array, shape) for array in arrays]
        plan: tuple[Any, ...] = (arrays[0].size, None, None, self.grain)
        if arrays[0].size and None not in strides:
            plan = self._walk(shape, strides)
        if len(self._plans) > 4096:  # shapes that never come back must not pile up
            self._plans.clear()
        self._plans[key] = plan
        return plan

    def _walk(self, shape: tuple[int, ...], strides: Sequence[Any]) -> tuple[Any, ...]:
        """How often to call which native loop with which layout, and in pieces of how much; no loop: copy first."""
        n, layout = math.prod(shape), plan_layout(shape, strides)
        if layout.flat:
            return n, self.loop(layout.walks, 1), None, self.grain
        if n < SMALL and not installed():
            return n, None, None, self.grain
        tiled = layout.tiled(TILE // 2)
        if tiled is None:
            return n, self.loop(layout.walks, layout.rank), layout.packed(), self.grain
        tiles = math.prod(tiled.sizes[:-2]) * math.prod(-(-size // TILE) for size in tiled.sizes[-2:])
        return tiles, self.loop(tiled.walks, tiled.rank, True), tiled.packed(), max(1, self.grain // TILE**2)

    def bind(self, shape: tuple[int, ...], strides: Sequence[tuple[int, ...]]) -> Callable[..., Any]:
        """The kernel for operands of one layout: `run(*outs, *ins)`, which looks at nothing but addresses.

        `strides` of all operands are in elements, 0 where broadcast; the caller vouches for them and for the dtypes.
        """
        n, native, layout, grain = self._walk(shape, strides)
        if native is None:
            count = len(self.out_dtypes)
            return lambda *arrays: self._run_copied(list(arrays), count)
        first = () if layout is None else (layout,)
        return partial(native, 0, n, *first) if n < 2 * grain else partial(run_kernel, native, n, grain, *first)

    def _run_copied(self, arrays: list[np.ndarray], outs: int) -> None:
        shape = arrays[0].shape
        results = [a if a.flags.c_contiguous else np.empty(shape, a.dtype) for a in arrays[:outs]]
        operands = [a if a.size == 1 else np.ascontiguousarray(np.broadcast_to(a, shape)) for a in arrays[outs:]]
        self(tuple(results), *operands)
        for result, array in zip(results, arrays, strict=False):
            if result is not array:
                array[...] = result


def elementwise_kernel(
    fn: Callable[..., Any],
    in_dtypes: Sequence[Any],
    out_dtype: Any,
    arg_dtypes: Sequence[Any] | None = None,
    params: Mapping[str, Any] | None = None,
) -> ElementwiseKernel:
    """The CPU kernel of a scalar definition; `out_dtype` is a tuple of dtypes for several results. See the module's
    text."""
    ins = tuple(np.dtype(d) for d in in_dtypes)
    outs = tuple(np.dtype(d) for d in (out_dtype if isinstance(out_dtype, tuple | list) else (out_dtype,)))
    args = None if arg_dtypes is None else tuple(np.dtype(d) for d in arg_dtypes)
    constants = tuple(sorted((params or {}).items()))
    return _build(fn, ins, outs, args, constants, repr(constants))


@lru_cache(maxsize=2048)
def _build(fn: Callable[..., Any], ins: Any, outs: Any, args: Any, params: Any, text: str) -> ElementwiseKernel:
    # Kept, because a new shape asks for the same kernel again, and tracing takes a millisecond. The text of the
    # constants is part of the key: 0.0 and -0.0 are equal.
    return ElementwiseKernel(build_program(fn, ins, outs, args, dict(params), tables=(POLYNOMIALS,)), ins, outs)


def bits_dtype(itemsize: int) -> np.dtype:
    """The dtype under which kernels move elements of so many bytes that they do not look into."""
    return np.dtype(np.complex128 if itemsize == 16 else f"u{itemsize}")


@cache
def _copy_kernel(itemsize: int) -> ElementwiseKernel:
    bits = bits_dtype(itemsize)
    return elementwise_kernel(lambda x: x, [bits], bits)


def copy_array(target: np.ndarray, source: np.ndarray) -> None:
    """`target[...] = source` for arrays of one dtype, on all threads; transposed ones go in tiles.

    A transposed copy of 2048 x 2048 float32: numpy 32 ms, this 3 (2 threads).
    """
    if target.dtype != source.dtype:
        raise TypeError(f"copy_array copies between arrays of one dtype, got {source.dtype} and {target.dtype}")
    kernel = _copy_kernel(target.itemsize)
    kernel(target.view(kernel.in_dtypes[0]), source.view(kernel.in_dtypes[0]))


# Calls of a ufunc on large arrays before its native loop is made: compiling takes 70 ms, once per machine.
COMPILE_AFTER = 8

# Rounded correctly everywhere: numpy's result and ours are the same bits, so a program may change over at any call.
_EXACT = {
    s.add, s.subtract, s.multiply, s.divide, s.negative, s.abs, s.sqrt, s.equal, s.not_equal, s.less, s.less_equal,
    s.greater, s.greater_equal, s.bitwise_and, s.bitwise_or, s.bitwise_xor, s.bitwise_not, s.floor, s.ceil, s.trunc,
    s.rint, s._cast,
}  # fmt: skip


def ufunc_calls(kernel: ElementwiseKernel) -> float:
    """How many calls on large arrays a ufunc should answer before the native loop of the same definition does.

    Measured at 1e5..1e6 elements, 2 threads: pieces of a ufunc cost 50 us to hand over, a native loop 1. So the loop
    wins, except where it would call libm for each element, which numpy's loops do no worse. Where the two agree to the
    bit, the first calls go to the ufunc: a program that needs an addition once does not wait for a compiler.
    """
    operations = [node for node in kernel.program.nodes() if isinstance(node, Apply)]
    if any(map(is_call, operations)):
        return math.inf
    if len(operations) > 1 or any(node.function not in _EXACT for node in operations):
        return 0
    return COMPILE_AFTER


def _grain(program: Program) -> int:
    operations = [node for node in program.nodes() if isinstance(node, Apply)]
    slow = sum(map(is_call, operations))
    nanoseconds = 0.15 + 0.02 * len(operations) + 8.0 * slow
    return max(1024, int(PIECE_NANOSECONDS / nanoseconds))
