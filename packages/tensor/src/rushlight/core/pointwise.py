"""Plans of elementwise calls: one numpy call when small, a loop on all threads when large (see `large`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import declare, dtypes, native
from rushlight.core.large import plan_large, plan_large_inplace
from rushlight.core.layout import may_overlap
from rushlight.core.meta import Meta
from rushlight.core.op import Op
from rushlight.core.overlap import check_apart
from rushlight.core.quiet import local, quiet
from rushlight.core.results import empty_array
from rushlight.core.tensor import Tensor, wrap
from rushlight.core.writable import asking, refuse

# From this many elements on, threads and pooled memory pay; below, a plain numpy call is quickest and nothing is
# compiled.
LARGE = 32768
# The same for ops that numpy computes in several passes or slowly. Of 1000 elements numpy takes 11.5 us for gelu, 6 for
# sigmoid and 2.3 for a sum in bfloat16, the loop 1.8, 1.1 and 0.9. For fewer nobody should wait for a compiler.
LARGE_COMPOSED = 512


def _caster(compute: np.dtype, m: Meta | None) -> Callable | None:
    """How an operand becomes an argument of the numpy function; None means its array as it is."""
    if m is None:
        return lambda x: None
    if m.weak:
        kind = compute.type
        if compute.kind in "iu":
            # wraps around, as in PyTorch
            return lambda x: kind(x) if 0 <= x <= 127 else np.array(x).astype(compute)[()]
        if compute.kind == "f" and compute.itemsize < 8:
            most = float(np.finfo(compute).max)
            return lambda x: kind(x) if -most < x < most else local.run(kind, x)  # numpy would warn of infinity
        return kind if compute.itemsize == 8 and compute.kind == "f" else lambda x: local.run(kind, x)
    if m.numpy == compute:
        return None
    return lambda x: local.run(x._array.astype, compute)


def beside(ufunc: np.ufunc, number: Any) -> Callable:
    """The function `ufunc(x, number)` of arrays, of which native calls know that it is one loop."""

    def function(x: np.ndarray) -> np.ndarray:
        return ufunc(x, number)

    function.beside = (ufunc, number)  # type: ignore[attr-defined]
    return function


def resolves(ufunc: Any, compute: np.dtype, result: np.dtype) -> bool:
    """Does the ufunc on `compute` operands give `result` by itself?"""
    if not isinstance(ufunc, np.ufunc):
        return False
    try:
        return ufunc.resolve_dtypes((compute,) * ufunc.nin + (None,) * ufunc.nout)[-1] == result
    except TypeError:
        return False


def plan_elementwise(op: Op, metas: tuple, params: tuple, out: Meta) -> Callable:
    """The plan of an elementwise op."""
    compute, casters, function = elementwise_parts(op, metas)
    natural = resolves(function, compute, out.numpy)
    if out.numel >= (LARGE if natural and out.dtype not in dtypes.HALF else _least_composed(metas)):
        return plan_large(
            op, metas, compute, out, function if natural and casters.count(None) == len(casters) else None
        )
    if natural and out.contiguous and out.ndim and (out.ndim == 1 or all(m.weak or m.contiguous for m in metas)):
        fast = _fast_plan(function, metas, casters, compute, out)
        if fast is not None:
            return native.form("loop", fast, function, metas, compute, out)

    if not natural:
        plan = _composed_plan(function, casters, out)
        ufunc, number = getattr(function, "beside", (None, None))
        if ufunc is None or not out.contiguous:
            same = all(cast is None or m is None or m.weak for cast, m in zip(casters, metas))
            return native.form("sequence", plan, function, metas, (), out, compute) if same else plan
        return native.form("loop", plan, ufunc, metas, compute, out, number=number)

    def run(*operands: Any) -> Tensor:
        result = empty_array(out)
        quiet(lambda: function(*_arguments(casters, operands), out=result))
        return wrap(result, out)

    return native.form("loop", run, function, metas, compute, out) if out.contiguous else run


def _least_composed(metas: tuple) -> int:
    """From how many elements on a loop computes what numpy computes in several passes.

    Half types it converts as well, and no native call of its loops does that: 16 sigmoids in bfloat16 take 12 us, and
    1.3 in the loop.
    """
    return 1 if native.installed() and any(m is not None and m.dtype in dtypes.HALF for m in metas) else LARGE_COMPOSED


def _composed_plan(function: Callable, casters: list, out: Meta) -> Callable:
    """Plans of functions that numpy computes in several steps, which make their own result."""
    dtype, shape, contiguous = out.numpy, out.shape, out.contiguous

    def settled(result: Any, arguments: Any) -> Tensor:
        if (
            contiguous
            and type(result) is np.ndarray
            and result.dtype is dtype
            and result.shape == shape
            and result.flags.c_contiguous
        ):
            for x in arguments:
                if x is result:
                    break
            else:
                return wrap(result, out)
        array = empty_array(out)
        quiet(np.copyto, array, result, "unsafe")
        return wrap(array, out)

    if casters == [None]:
        def run_one(x: Tensor) -> Tensor:
            argument = x._array
            return settled(local.run(function, argument), (argument,))

        return run_one

    def run(*operands: Any) -> Tensor:
        arguments = [x._array if cast is None else cast(x) for cast, x in zip(casters, operands)]
        return settled(local.run(function, *arguments), arguments)

    return run


def rounds_operands(op: Op, common: dtypes.dtype) -> bool:
    """Do numbers, and tensors of other dtypes, become half ones before a call sees them beside half tensors?

    Comparisons say yes, so that `x == 0.1` is true where `x` was made from 0.1. Arithmetic sees them as float32.
    """
    return common in dtypes.HALF and declare.out_dtype(op, common) is dtypes.bool


def elementwise_parts(op: Op, metas: tuple) -> tuple[np.dtype, list, Callable]:
    """The dtype in which an elementwise call computes, how each operand becomes an argument, and the numpy function."""
    common = declare.common_dtype(op.functional or op, metas)
    function = op.numpy or op.scalar
    compute = common.numpy
    if common in dtypes.HALF:  # half types compute in float32 and round once, as numpy's own loops do
        others = any(m is not None and (m.weak or m.dtype is not common) for m in metas)
        result = declare.out_dtype(op, common).numpy
        if others and not rounds_operands(op, common) or not resolves(function, compute, result):
            compute = np.dtype(np.float32)
    casters = [_caster(compute, m) for m in metas]
    if op.promote == "where":
        casters[0] = None if metas[0].dtype is dtypes.bool else (lambda x: x._array.astype(bool))
    return compute, casters, function


def _arguments(casters: list, operands: tuple) -> list:
    return [x._array if cast is None else cast(x) for cast, x in zip(casters, operands)]


def _fast_plan(function: Any, metas: tuple, casters: list, compute: np.dtype, out: Meta) -> Callable | None:
    """Plans for the commonest small calls, without loops over operands."""
    new = object.__new__

    def wrapped(array: np.ndarray) -> Tensor:
        tensor = new(Tensor)
        tensor._array = array
        tensor._meta = out
        tensor._storage = tensor._auto = None
        return tensor

    if casters == [None]:
        return lambda x: wrapped(local.run(function, x._array))
    if casters == [None, None]:
        def both(x: Tensor, y: Tensor) -> Tensor:
            tensor = new(Tensor)
            tensor._array = local.run(function, x._array, y._array)
            tensor._meta = out
            tensor._storage = tensor._auto = None
            return tensor

        return both
    if len(metas) == 2 and casters[0] is None and metas[1].weak:
        cast = casters[1]
        return lambda x, number: wrapped(local.run(function, x._array, cast(number)))
    if len(metas) == 2 and casters[1] is None and metas[0].weak:
        cast = casters[0]
        return lambda number, x: wrapped(local.run(function, cast(number), x._array))
    return None


def plan_inplace(op: Op, metas: tuple, params: tuple, out: Meta) -> Callable:
    """The plan of the twin that writes into operand 0."""
    compute, casters, function = elementwise_parts(op, metas)
    result = declare.out_dtype(op, declare.common_dtype(op.functional, metas)).numpy
    direct = resolves(function, compute, result)
    if len(out.shape) > 1 and may_overlap(out):
        return asking(op, out.numel, _update_by_rows(metas, casters, function))
    least = _least_composed(metas) if out.dtype in dtypes.HALF else LARGE
    native_loop = plan_large_inplace(op, metas, compute, out) if out.numel >= least and None not in metas else None
    places = [i for i, m in enumerate(metas) if i and m is not None and not m.weak]
    plain = direct and result == out.numpy and casters == [None, None]
    fresh = None if direct or native_loop is not None else _native_result(function, metas, casters, compute, out)

    def run(*operands: Any) -> Tensor:
        target = operands[0]
        array, storage = target._array, target._storage
        if storage is None:
            storage = target.storage()
        else:
            for i in places:
                if operands[i]._storage is storage and operands[i] is not target:
                    check_apart(op.name, array, [operands[i]._array for i in places], itself=True)
        if native_loop is not None and native_loop(array, operands):
            pass
        elif plain:
            quiet(lambda: function(array, operands[1]._array, out=array))
        elif direct:
            quiet(lambda: function(*_arguments(casters, operands), out=array, casting="unsafe"))
        elif fresh is not None:
            np.copyto(array, fresh(*operands)._array)
        else:
            quiet(np.copyto, array, local.run(function, *_arguments(casters, operands)), "unsafe")
        storage.version += 1
        return target

    plan = asking(op, out.numel, run)
    if native_loop is not None and places == [1] and len(metas) == 2:
        return _large_update(op, native_loop, plan)
    return plan if native_loop is not None or not direct else native.form("update", plan, function, metas, compute, out)


def _native_result(function: Callable, metas: tuple, casters: list, compute: np.dtype, out: Meta) -> Callable | None:
    """The native form of a call in several loops, which makes a tensor for the result; None where there is none."""
    whole = out.with_grad(False)
    converts = any(cast is not None and m is not None and not m.weak for cast, m in zip(casters, metas))
    if converts or not whole.contiguous:
        return None
    plan = _composed_plan(function, casters, whole)
    found = native.form("sequence", plan, function, metas, (), whole, compute)
    return None if found is plan else found


def _update_by_rows(metas: tuple, casters: list, function: Callable) -> Callable:
    """The plan of a target whose elements share memory: each is written as often as it occurs, as in PyTorch.

    numpy would copy the target first, and compiled loops write many at a time; elements of a row lie apart.
    """
    shape = metas[0].shape

    def run(*operands: Any) -> Tensor:
        target = operands[0]
        arrays = [None if m is None or m.weak else np.broadcast_to(x._array, shape) for m, x in zip(metas, operands)]
        for at in np.ndindex(shape[:-1]):
            row = tuple([x if a is None else wrap(a[at], m) for m, x, a in zip(metas, operands, arrays)])
            values = local.run(function, *_arguments(casters, row))
            quiet(np.copyto, target._array[at], values, "unsafe")
        target.storage().version += 1
        return target

    return run


def _large_update(op: Op, native_loop: Callable[[Any, tuple], bool], run: Callable) -> Callable:
    """The plan of two tensors, the first of them large, where they do not share memory; `run` does all others."""

    def update(target: Tensor, other: Tensor) -> Tensor:
        array, storage = target._array, target._storage
        if storage is None or other._storage is storage:
            return run(target, other)
        if not array.flags.writeable:
            refuse(op)
        if not native_loop(array, (None, other)):
            return run(target, other)
        storage.version += 1
        return target

    return update
