"""Plans of eager calls: the function that runs an op for operands with given metadata.

Making a plan is the slow part (inference, promotion, choice of kernel); it happens once per combination of metadata.
Running it is one call of numpy or of a compiled kernel and one `wrap`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import dispatch, dtypes, native, siblings
from rushlight.core.devices import plugin
from rushlight.core.meta import Meta, Symbolic, contiguous_strides
from rushlight.core.op import EXACT, PLANNERS, Fold, Op
from rushlight.core.pointwise import LARGE, plan_elementwise, plan_inplace
from rushlight.core.quiet import local, out_of_memory, quiet
from rushlight.core.results import finish, wrap_any
from rushlight.core.tensor import Tensor, wrap
from rushlight.core.writable import refuse

_NUMBERS: tuple[Any, ...] = (bool, int, float, complex)
_new = object.__new__

def operand(op: Op, index: int, x: Any) -> Any:
    """An operand as plans take it: a tensor, a number of exact Python type, or None."""
    if isinstance(x, Tensor) or x is None or type(x) in _NUMBERS:
        return x
    if hasattr(x, "_meta"):
        raise TypeError(f"{op.name}: {op.operand_name(index)} is a tracer that left the function that is being traced")
    if isinstance(x, Symbolic):
        return x
    for kind in _NUMBERS:
        if isinstance(x, kind):
            return kind(x)
    if isinstance(x, np.generic):
        return x.item()
    raise TypeError(f"{op.name}: {op.operand_name(index)} must be a Tensor or a number, got {type(x).__name__}; "
                    "use rushlight.tensor(...) to make a tensor")


def make_plan(op: Op, metas: tuple[Meta | None, ...], params: tuple) -> Callable:
    """The function that runs `op` on operands with these metas, recording for autograd if one requires grad."""
    out = op.infer(*metas, *params)
    device = _device(metas, out)
    if device == "cpu":
        run = _PLANNERS[op.kind](op, metas, params, out)
    elif device == "meta":
        run = _plan_meta(op, out)
    else:
        run = plugin(device).plan(op, metas, params, out)
    if any(m is not None and m.requires_grad for m in metas):
        if dispatch.autograd is None:
            siblings.load_autograd()
        run = dispatch.autograd(op, metas, params, out, run)
    return run


def _device(metas: tuple[Meta | None, ...], out: Any) -> str:
    results = () if out is None else (out,) if isinstance(out, Meta) else out
    types = [m.device.type for m in (*results, *metas) if m is not None and not m.weak]
    # A copy from a plug-in's device to main memory is the plug-in's work: only it can read its buffers.
    return next((t for t in types if t not in ("cpu", "meta")), types[0])


def _plan_meta(op: Op, out: Any) -> Callable:
    if op.mutates:
        return lambda *operands: operands[op.mutates[0]]
    if out is None:
        raise RuntimeError(f"{op.name}: the shape of the result depends on data, which a meta tensor has not")
    if isinstance(out, Meta):
        return lambda *operands: wrap(None, out)
    return lambda *operands: tuple([wrap(None, m) for m in out])


def _plan_view(op: Op, metas: tuple, params: tuple, out: Any) -> Callable:
    """Views remember in `_auto` how they were made, `(input, op, numbers, params, index of the result)`.

    So autograd can follow a write through one of them to the others. `detach` does not: what it gives must not keep the
    history of its input alive.
    """
    numpy = op.numpy
    remember = op.name != "detach"

    def made(x: Tensor, array: np.ndarray, m: Meta, index: int) -> Tensor:
        view = wrap(array, m, x.storage())
        view._auto = (x, op, (), params, index)
        return view

    if not isinstance(out, Meta):
        return lambda x: tuple(
            [made(x, array, m, i) for i, (array, m) in enumerate(zip(numpy(x._array, *params), out))]
        )

    def run(x: Tensor) -> Tensor:  # spelled out, like the next one: views are the commonest calls of all
        view = _new(Tensor)
        view._array = numpy(x._array, *params)
        view._meta = out
        storage = x._storage
        view._storage = x.storage() if storage is None else storage
        view._auto = (x, op, (), params, None) if remember else None
        return view

    def run_at(x: Tensor, number: Any) -> Tensor:
        view = _new(Tensor)
        view._array = numpy(x._array, number, *params)
        view._meta = out
        storage = x._storage
        view._storage = x.storage() if storage is None else storage
        view._auto = (x, op, (number,), params, None)
        return view

    return native.form("view", run if len(metas) == 1 else run_at, op, metas, params, out, remember)


def _plan_reduction(op: Op, metas: tuple, params: tuple, out: Any) -> Callable:
    if op in PLANNERS and (run := PLANNERS[op](metas, params, out)) is not None:
        return run
    numpy = op.numpy
    # numpy's any and all stop early; complex sums it adds pairwise.
    fold = op.fold(params)
    looped = fold is not None and not isinstance(fold.init, bool)
    if looped and _enough_for_loop(metas[0], params[0], out):
        return _plan_fold(fold, metas[0], params[0], out)
    if numpy in native.LOOPS:
        plan = (
            (lambda x: finish(quiet(numpy, x._array, *params), out))
            if isinstance(out, Meta)
            else lambda x: tuple([finish(a, m) for a, m in zip(quiet(numpy, x._array, *params), out)])
        )
        return native.form("sequence", plan, numpy, metas, params, out, metas[0].numpy)
    if isinstance(out, Meta):
        whole, m = getattr(numpy, "whole", None), metas[0]
        if whole is None or not m.contiguous or not m.ndim or m.dtype is not out.dtype or out.dtype in dtypes.HALF:
            return lambda x: finish(quiet(numpy, x._array, *params), out)
        if out.ndim == 0:
            run = lambda x: wrap(np.asarray(local.run(whole, x._array)), out)  # noqa: E731 - one of many plans
        else:
            run = lambda x: finish(quiet(numpy, x._array, *params), out)  # noqa: E731
        return native.form("fold", run, *numpy.ufuncs, m, params[0], out)
    return lambda x: tuple([finish(a, m) for a, m in zip(quiet(numpy, x._array, *params), out)])


def _enough_for_loop(m: Meta, dim: tuple[int, ...], out: Meta) -> bool:
    """Are there so many elements that the compiled loop is quicker than numpy's, and worth the wait for a compiler?

    Sum of 1e6 float32 numbers: 260 us with numpy, 90 with the loop on two threads. Of the columns of 10 x 100: 5.4 us
    with numpy, 0.9 with the loop. Its rows, and all of them, stay numpy's, whose loop a native call takes over (0.4 us)
    bit for bit.
    """
    few = 512
    if m.dtype in dtypes.HALF and m.ndim:
        few = 1  # numpy converts them
    elif m.contiguous and m.dtype is out.dtype and dim == tuple(range(m.ndim - len(dim), m.ndim)):
        few = LARGE
    enough = m.numel >= LARGE or m.numel >= few and native.installed()
    return enough and not (out.dtype.is_complex or m.dtype.is_complex)


def _plan_fold(fold: Fold, m: Meta, dim: tuple[int, ...], out: Meta) -> Callable:
    """The plan of a reduction of many elements: the compiled loop, on all threads where there is work for them."""
    from rushlight.kernels.cpu.reduce import reduce_kernel

    init, combine, end, pre = fold
    kernel = reduce_kernel(combine, init, [m.numpy], out.numpy, pre, end, arg_dtypes=[out.numpy])
    kept = tuple([size for d, size in enumerate(m.shape) if d not in dim])
    loop = kernel.planned(dim, m.shape, contiguous_strides(kept), [m.strides])
    shape, dtype = out.shape, out.numpy

    def run(x: Tensor) -> Tensor:
        array, result = x._array, np.empty(shape, dtype)
        loop(result, array if type(array) is np.ndarray else np.asarray(array))  # which reads the object itself
        return wrap(result, out)

    return run


def _plan_structured(op: Op, metas: tuple, params: tuple, out: Any) -> Callable:
    function = op.kernels.get("cpu")
    if function is None:
        if op.decomposition is None:
            raise RuntimeError(f"{op.name}: no CPU kernel and no decomposition")
        return lambda *operands: op.decomposition(*operands, *params)

    if op in PLANNERS and (run := PLANNERS[op](metas, params, out)) is not None:
        return run
    return plan_kernel(op, metas, params, out)


def plan_kernel(op: Op, metas: tuple, params: tuple, out: Any) -> Callable:
    """The usual plan of a structured op, around its kernel."""
    function = op.kernels["cpu"]
    if function in EXACT:
        return _plan_exact(function, metas, params, out)
    compute = _on_arrays(function, metas, params)
    if len(op.mutates) == 1:
        (place,) = op.mutates

        def run(*operands: Any) -> Any:
            target = operands[place]
            if not target._array.flags.writeable:
                refuse(op, place)
            compute(*operands)
            storage = target._storage
            if storage is None:
                storage = target.storage()
            storage.version += 1
            return target
    elif op.mutates:
        def run(*operands: Any) -> Any:
            for i in op.mutates:
                if not operands[i]._array.flags.writeable:
                    refuse(op, i)
            compute(*operands)
            for i in op.mutates:
                operands[i].storage().version += 1
            return operands[op.mutates[0]]
    elif out is None:
        def run(*operands: Any) -> Any:
            result = compute(*operands)
            return tuple(map(wrap_any, result)) if isinstance(result, tuple) else wrap_any(result)
    elif isinstance(out, Meta):
        def run(*operands: Any) -> Any:
            return finish(compute(*operands), out)
    else:
        def run(*operands: Any) -> Any:
            return tuple([finish(a, m) for a, m in zip(compute(*operands), out)])
    if function in native.LOOPS and out is not None:
        kind = next(m.numpy for m in metas if m is not None and not m.weak)
        return native.form("sequence", run, function, metas, params, out, kind)
    return run


def _plan_exact(function: Callable, metas: tuple, params: tuple, out: Meta) -> Callable:
    """The plan of a kernel whose result needs no look."""
    tensors = [m is not None and not m.weak for m in metas]
    has_tensors = any(tensors)

    def run(*operands: Any) -> Tensor:
        if has_tensors:
            operands = tuple([x._array if is_tensor else x for x, is_tensor in zip(operands, tensors)])
        tensor = _new(Tensor)
        try:
            tensor._array = function(*operands, *params)
        except MemoryError as error:
            raise out_of_memory(error) from None
        tensor._meta = out
        tensor._storage = tensor._auto = None
        return tensor

    return run


def _on_arrays(function: Callable, metas: tuple, params: tuple) -> Callable:
    """A kernel as a function of operands: passes the arrays of tensors, numbers and None as they are."""
    tensors = [m is not None and not m.weak for m in metas]
    if not any(tensors):
        return lambda *operands: quiet(function, *operands, *params)
    if tensors == [True]:
        return lambda x: quiet(function, x._array, *params)
    if tensors == [True, True]:
        return lambda x, y: quiet(function, x._array, y._array, *params)
    if tensors == [True, True, True]:
        return lambda x, y, z: quiet(function, x._array, y._array, z._array, *params)
    return lambda *operands: quiet(
        function, *[x._array if is_tensor else x for x, is_tensor in zip(operands, tensors)], *params
    )


_PLANNERS = {
    "elementwise": plan_elementwise,
    "inplace": plan_inplace,
    "view": _plan_view,
    "reduction": _plan_reduction,
    "structured": _plan_structured,
}
