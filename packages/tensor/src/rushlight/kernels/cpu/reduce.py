"""Reductions on the CPU, made from scalar definitions.

    total = reduce_kernel(lambda a, b: a + b, 0.0, [np.float32], np.float32)
    total(out, x, axes=(0,))                # out[...] = x.sum(0)

    reduce_kernel(combine, init, in_dtypes, out_dtype, pre=None, finish=None, acc_dtype=None, arg_dtypes=None)

- `pre(*elements)` is what is folded (default: the element itself). With further operands that are broadcast along the
  folded axes, a second pass over rows is one kernel: `pre=lambda x, m: exp(x - m)`;
- `combine(a, b)` folds two of them: associative, any order. Sums and products run in lanes;
- `init` is the value that changes nothing: a number, a function of the dtype, or None for `maximum` and `minimum`;
- `finish(accumulator, n)` makes the result; `n` is the number of folded elements, an int64 (`cast` it).

Accuracy: blocks of 1024 (16 rows for sums down columns) are added in float32, in lanes, and their sums in float64.
Results do not depend on the number of threads: work is cut by shape alone, and the parts are combined in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.core.meta import below
from rushlight.kernels.build import build_program
from rushlight.kernels.cpu.jit import compile_source
from rushlight.kernels.cpu.team import run_kernel
from rushlight.kernels.expand import expand
from rushlight.kernels.half import compute_dtype
from rushlight.kernels.layout import as_words, element_strides, plan_layout
from rushlight.kernels.polynomials import POLYNOMIALS
from rushlight.kernels.reduce_source import (
    ROWS,
    WIDTH,
    Fold,
    FoldLoop,
    fold_source,
    partials_signature,
    partials_source,
)
from rushlight.kernels.trace import Apply, Const, Program, trace

# Elements to a chunk when one result is folded by several tasks, and to a piece for a thread.
CHUNK = 65536
GRAIN = 65536
# With so many results there are tasks enough without cutting any of them.
MANY = 64
# A kept dimension of fewer neighbours than this is walked with strides rather than in lanes.
NARROW = 8


class ReduceKernel:
    """A fold for fixed dtypes. Native loops are made on first need, one per way of walking through memory."""

    def __init__(self, fold: Fold, in_dtypes: Sequence[np.dtype], out_dtype: np.dtype):
        self.fold = fold
        self.in_dtypes = tuple(in_dtypes)
        self.out_dtype = out_dtype
        programs = (fold.pre, fold.combine, fold.finish)
        self._opaques = tuple(dict.fromkeys(opaque for program in programs for opaque in program.opaques()))
        self._plans: dict[tuple[Any, ...], Callable[..., None]] = {}
        self._loops: dict[tuple[Any, ...], tuple[str, tuple[str, ...]]] = {}

    def __call__(self, out: np.ndarray, *ins: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        """Fold the `axes` of the operands' common shape into `out`, whose shape is the rest, and return it."""
        ins = tuple(
            [x if type(x) is np.ndarray else np.asarray(x) for x in ins]
        )  # native code reads the array object itself
        key = (out.shape, out.strides, axes, *[(x.shape, x.strides) for x in ins])
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) > 4096:
                self._plans.clear()
            plan = self._plans[key] = self._plan(out, ins, axes)
        plan(out, *ins)
        return out

    def planned(
        self, axes: tuple[int, ...], shape: tuple[int, ...], out_strides: tuple[int, ...],
        strides: Sequence[tuple[int, ...]],
    ) -> Callable[..., None]:  # fmt: skip
        """The call that folds `axes` of operands of a shape: `run(out, *ins)`, unchecked.

        `out_strides` are those of the result's dimensions, the axes left out; `strides` are those of all operands, 0
        where they are broadcast. All count elements, and the caller vouches for them. A single call is a `partial`,
        whose `extents` say how far into the result and the operands it goes.
        """
        kept = [d for d in range(len(shape)) if d not in axes]
        keep = plan_layout([shape[d] for d in kept], [out_strides, *[[st[d] for d in kept] for st in strides]])
        fold = plan_layout([shape[d] for d in axes], [[st[d] for d in axes] for st in strides])
        columns = fold.walks[0] != "c" and keep.walks[1] == "c" and keep.sizes[-1] >= NARROW and fold.sizes[-1] > 1
        walks = keep.walks[1:] if columns else fold.walks
        results, count = math.prod([shape[d] for d in kept]), math.prod([shape[d] for d in axes])
        width = min(keep.sizes[-1], WIDTH) if columns else 1
        tasks = results // keep.sizes[-1] * -(-keep.sizes[-1] // WIDTH) if columns else results
        chunk = _chunk(count, tasks, width)
        chunks = max(1, -(-count // chunk))
        native = self._loop(columns, keep.rank, fold.rank, walks, chunks > 1)
        packed = [chunk, chunks, *keep.sizes, *fold.sizes, *keep.strides[0]]
        for k in range(len(strides)):
            packed += [*keep.strides[k + 1], *fold.strides[k]]
        layout, each = as_words(packed), max(1, chunk * width)
        if chunks == 1 and (tasks == 1 or below(tasks * each, 2 * GRAIN)):
            call = partial(native, 0, tasks, layout)
            first, *others = keep.extents()
            call.extents = [first, *[a + b - 1 for a, b in zip(others, fold.extents())]]  # type: ignore[attr-defined]
            return call
        if chunks == 1:
            return lambda out, *ins: run_kernel(native, tasks, max(1, GRAIN // each), layout, out, *ins)
        wide = self.fold.init_wide.dtype
        gather = compile_source(partials_source(self.fold, keep.rank), partials_signature(self.fold), self._opaques)
        gather_layout = as_words([*keep.sizes, *keep.strides[0], count, results, chunks])

        def run_in_chunks(out: np.ndarray, *ins: np.ndarray) -> None:
            sums = np.empty(chunks * results, wide)
            run_kernel(native, tasks * chunks, max(1, GRAIN // each), layout, sums, *ins)
            gather(0, results, gather_layout, out, sums)

        return run_in_chunks

    def _plan(self, out: np.ndarray, ins: Sequence[np.ndarray], axes: tuple[int, ...]) -> Callable[..., None]:
        shape = np.broadcast_shapes(*[x.shape for x in ins])
        folded = tuple(sorted(axis % len(shape) for axis in axes)) if shape else ()
        self._check(out, ins, tuple(shape[d] for d in range(len(shape)) if d not in folded))
        if out.size == 0:
            return lambda out, *ins: None
        strides = [element_strides(x, shape) for x in ins]
        out_strides = element_strides(out, out.shape)
        known = [own for own in strides if own is not None]
        if len(known) < len(strides) or out_strides is None:
            return self._plan_copied(axes)
        return self.planned(folded, shape, out_strides, known)

    def _loop(self, *walk: Any) -> Callable[..., None]:
        """The native loop for a way of walking through memory: see `FoldLoop`."""
        printed = self._loops.get(walk)
        if printed is None:
            if len(self._loops) > 256:
                self._loops.clear()
            loop = FoldLoop(self.fold, *walk)
            printed = self._loops[walk] = fold_source(loop), loop.signature
        return compile_source(*printed, self._opaques)

    def _check(self, out: np.ndarray, ins: Sequence[np.ndarray], shape: tuple[int, ...]) -> None:
        if tuple(x.dtype for x in ins) != self.in_dtypes:
            raise TypeError(f"reduction compiled for {self.in_dtypes} got arrays of {[x.dtype for x in ins]}")
        if type(out) is not np.ndarray or out.dtype != self.out_dtype or out.shape != shape:
            raise TypeError(
                f"reduction gives {self.out_dtype} of shape {shape}, but the result is {out.dtype} of shape {out.shape}"
            )

    def _plan_copied(self, axes: tuple[int, ...]) -> Callable[..., None]:
        def run(out: np.ndarray, *ins: np.ndarray) -> None:
            out[...] = self(np.empty(out.shape, out.dtype), *[np.ascontiguousarray(x) for x in ins], axes=axes)

        return run


def _chunk(count: int, tasks: int, width: int) -> int:
    """Folded elements per task; a function of the shape alone, so that results are the same for any number of
    threads."""
    if tasks >= MANY:
        return max(count, 1)
    chunk = max(4 * ROWS, CHUNK // width // ROWS * ROWS)
    return max(count, 1) if count < 2 * chunk else chunk


def reduce_kernel(
    combine: Callable[..., Any],
    init: Any,
    in_dtypes: Sequence[Any],
    out_dtype: Any,
    pre: Callable[..., Any] | None = None,
    finish: Callable[..., Any] | None = None,
    acc_dtype: Any = None,
    arg_dtypes: Sequence[Any] | None = None,
) -> ReduceKernel:
    """The CPU kernel of a reduction; see the module's text. `acc_dtype` defaults to the dtype of what `pre`
    computes."""
    ins = tuple(np.dtype(d) for d in in_dtypes)
    args = ins if arg_dtypes is None else tuple(np.dtype(d) for d in arg_dtypes)
    acc = None if acc_dtype is None else np.dtype(acc_dtype)
    return _build(combine, init, ins, np.dtype(out_dtype), pre or _element, finish or _unchanged, acc, args)


def _element(x: Any) -> Any:
    return x


def _unchanged(accumulator: Any, n: Any) -> Any:
    return accumulator


@lru_cache(maxsize=2048)
def _build(
    combine: Callable[..., Any], init: Any, ins: Any, out: Any, pre: Any, finish: Any, acc: Any, args: Any
) -> ReduceKernel:
    narrow = acc if acc is not None else trace(pre, [compute_dtype(d) for d in args]).outputs[0].dtype
    narrow_combine = trace(combine, [narrow, narrow])
    wide = np.dtype(np.float64) if narrow == np.float32 and _adds(narrow_combine) else narrow
    fold = Fold(
        pre=build_program(pre, ins, [narrow], args, tables=(POLYNOMIALS,)),
        combine=expand(narrow_combine, POLYNOMIALS),
        combine_wide=expand(trace(combine, [wide, wide])),
        widen=build_program(_element, [narrow], [wide]),
        finish=build_program(finish, [wide, np.int64], [out]),
        init=_initial(init, narrow, combine),
        init_wide=_initial(init, wide, combine),
    )
    return ReduceKernel(fold, ins, out)


def _range(dtype: np.dtype) -> tuple[Any, Any]:
    if dtype.kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return (False, True) if dtype.kind == "b" else (-np.inf, np.inf)


def _adds(program: Program) -> bool:
    return any(isinstance(node, Apply) and node.function in (s.add, s.multiply) for node in program.nodes())


def _initial(init: Any, dtype: np.dtype, combine: Callable[..., Any]) -> Const:
    if init is None:
        lowest, highest = _range(dtype)
        init = {s.maximum: lowest, s.minimum: highest}[combine]
    value = init(dtype) if callable(init) else init
    return Const(dtype, np.array(value).astype(dtype)[()])
