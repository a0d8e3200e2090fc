"""Plans of elementwise calls on many elements: pooled memory, and native loops on all threads.

All that metadata decides is done when the plan is made or first run. A call allocates, launches the loop and wraps:
about 2 us beside the work itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core import scalar as s
from rushlight.core.meta import Meta
from rushlight.core.op import Op
from rushlight.core.quiet import quiet
from rushlight.core.results import allocation
from rushlight.core.tensor import Tensor, wrap
from rushlight.kernels.cpu.allocator import Loan
from rushlight.kernels.cpu.pool import run_ufunc_chunked
from rushlight.kernels.layout import broadcast_strides, plan_layout

_new = object.__new__


def plan_large(op: Op, metas: tuple, compute: np.dtype, out: Meta, ufunc: Callable | None) -> Callable:
    """The plan of a call; `ufunc` computes the same on the operands' arrays, if there is one."""
    loop = native_loop(op, metas, compute, out, ufunc)
    empty = allocation(out)
    if not any(m.weak for m in metas):
        if len(metas) == 1:
            def run_one(x: Tensor) -> Tensor:
                tensor = _new(Tensor)
                tensor._array = array = empty()
                loop.run(array, x._array)
                tensor._meta = out
                tensor._storage = tensor._auto = None
                return tensor

            return _storable(run_one, loop, arguments(metas, compute), out)
        if len(metas) == 2:
            def run_two(x: Tensor, y: Tensor) -> Tensor:
                tensor = _new(Tensor)
                tensor._array = array = empty()
                loop.run(array, x._array, y._array)
                tensor._meta = out
                tensor._storage = tensor._auto = None
                return tensor

            return _storable(run_two, loop, arguments(metas, compute), out)
    arrays = arguments(metas, compute)

    def run(*operands: Any) -> Tensor:
        array = empty()
        loop.run(array, *arrays(operands))
        return wrap(array, out)

    return _storable(run, loop, arrays, out)


def _storable(plan: Any, loop: NativeLoop, arrays: Callable, out: Meta) -> Callable:
    """The plan, which can also write into memory laid out as its result: `plan.into(array, operands)`."""
    plan.into, plan.out = lambda array, operands: loop.run(array, *arrays(operands)), out
    return plan


def arguments(metas: tuple, compute: np.dtype) -> Callable[[tuple], list[np.ndarray]]:
    """The function from operands to arrays: numbers become 0-dim ones."""
    numbers = [m.weak for m in metas]

    def arrays(operands: tuple) -> list[np.ndarray]:
        return [_number(x, compute) if number else x._array for x, number in zip(operands, numbers)]

    return arrays


def _number(x: Any, dtype: np.dtype) -> np.ndarray:
    if type(x) is float and dtype.kind == "f" and -6e4 < x < 6e4:  # numpy has no cause to warn
        return np.array(x, dtype)
    return quiet(np.array(x).astype, dtype)  # integers wrap around, as in PyTorch


class NativeLoop:
    """The loop of an elementwise op for operands of one layout: `run(result array, *operand arrays)`.

    The first calls may be answered by a ufunc while the native loop is not worth its compilation.
    """

    __slots__ = ("run", "_bind", "_left", "_ufunc")

    def __init__(self, bind: Callable[[], Callable], ufunc: Callable | None, calls: float) -> None:
        self._bind, self._ufunc, self._left = bind, ufunc, calls
        self.run: Callable[..., Any] = self._first

    def _first(self, *arrays: Any) -> None:
        if self._left > 0:
            self._left -= 1
            run_ufunc_chunked(self._ufunc, *arrays)
            return
        self.run = self._bind()
        self.run(*arrays)


def native_loop(op: Op, metas: tuple, compute: np.dtype, out: Meta, ufunc: Callable | None) -> NativeLoop:
    """The loop for operands and a result with these metas; compiled when first run."""
    # Brings in the code generator: first large call only.
    from rushlight.kernels.cpu.elementwise import elementwise_kernel, ufunc_calls

    sees = [np.dtype(bool) if op.promote == "where" and i == 0 else compute for i in range(len(metas))]
    stored = [c if m.weak else m.numpy for m, c in zip(metas, sees)]
    kernel = elementwise_kernel(op.scalar, stored, out.numpy, sees)
    strides = [out.strides, *[broadcast_strides(m.shape, m.strides, out.shape) for m in metas]]
    guard = getattr(op.numpy, "guard", None) if compute.kind in "iu" else None

    def bind() -> Callable[..., Any]:
        loop = kernel.bind(out.shape, strides)
        if guard is None:
            return loop

        def checked(result: np.ndarray, *operands: np.ndarray) -> None:
            guard(*operands)  # compiled loops cannot raise
            loop(result, *operands)

        return checked

    if op.bounded is not None and compute.kind == "f":
        return _bounded_loop(op.bounded, bind, stored, compute, out, strides)
    calls: float = 0
    # numpy walks operands whose neighbours lie along different dimensions one line at a time: 37 ms for x + y.T of
    # 2048 x 2048 floats, in tiles it takes 3.
    if ufunc is not None and out.dtype not in dtypes.HALF and (out.ndim < 2 or not _across(out.shape, strides)):
        calls = ufunc_calls(kernel)
    return NativeLoop(bind, ufunc, calls)


def _bounded_loop(
    bounded: tuple[float, Callable, Callable],
    bind: Callable[[], Callable],
    stored: list[np.dtype],
    compute: np.dtype,
    out: Meta,
    strides: list,
) -> NativeLoop:
    """The loop that looks at all numbers first, and takes the quicker definition if they are small enough.

    Sine of 1e5 float64 numbers, 2 threads: 900 us with the C library, 60 with this.
    """
    from rushlight.kernels.cpu.elementwise import elementwise_kernel
    from rushlight.kernels.cpu.reduce import reduce_kernel

    limit, definition, measure = bounded
    axes, sees = tuple(range(out.ndim)), [compute] * len(stored)

    def bind_both() -> Callable[..., Any]:
        largest = reduce_kernel(s.maximum, 0.0, stored, compute, pre=measure, arg_dtypes=sees)
        quick = elementwise_kernel(definition, stored, out.numpy, sees).bind(out.shape, strides)
        exact: Callable[..., Any] | None = None

        def run(result: np.ndarray, *operands: np.ndarray) -> None:
            nonlocal exact
            if float(largest(np.empty((), compute), *operands, axes=axes)) <= limit:
                quick(result, *operands)
            else:
                exact = exact or bind()
                exact(result, *operands)

        return run

    return NativeLoop(bind_both, None, 0)


def _across(shape: tuple[int, ...], strides: list) -> bool:
    return math.prod(shape) > 0 and plan_layout(shape, strides).tiled(2) is not None


def plan_large_inplace(op: Op, metas: tuple, compute: np.dtype, out: Meta) -> Callable[[Tensor, tuple], bool]:
    """The native way to write into operand 0: `run(target, operands)`. It declines, and says so, when another operand
    may share memory with the target.
    """
    loop = native_loop(op, metas, compute, out, None)
    arrays = arguments(metas, compute)
    places = [i for i, m in enumerate(metas) if i and not m.weak]

    def run_two(target: np.ndarray, operands: tuple) -> bool:
        array = operands[1]._array
        if array is not target and not apart(target, array):
            return False
        loop.run(target, target, array)
        return True

    if len(metas) == 2 and places:
        return run_two

    def run(target: np.ndarray, operands: tuple) -> bool:
        for i in places:
            array = operands[i]._array
            if array is not target and not apart(target, array):
                return False
        loop.run(target, *arrays(operands))
        return True

    return run


def apart(a: np.ndarray, b: np.ndarray) -> bool:
    """Do two different arrays certainly share no memory?"""
    if (type(a.base) is Loan or a.flags.owndata) and (type(b.base) is Loan or b.flags.owndata):
        return True
    return not np.may_share_memory(a, b)
