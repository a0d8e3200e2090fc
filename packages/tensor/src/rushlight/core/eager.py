"""Plans of eager calls: the function that runs an op for operands with given metadata.

Making a plan is the slow part (inference, promotion, choice of kernel); it happens once per combination of metadata.
Running it is one call of numpy or of a compiled kernel and one `wrap`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import declare, dispatch, dtypes, siblings
from rushlight.core.devices import plugin
from rushlight.core.meta import Meta, of_array, strides_in_order
from rushlight.core.op import Op
from rushlight.core.quiet import local, quiet
from rushlight.core.tensor import Tensor, wrap
from rushlight.kernels.cpu import allocator

_NUMBERS: tuple[Any, ...] = (bool, int, float, complex)
_new = object.__new__

# From this many elements on, threads and pooled memory pay; below, a plain numpy call is quickest and nothing is
# compiled.
LARGE = 32768
# The same for ops that numpy computes in several passes or slowly: gelu of 10,000 elements takes numpy 95 us, the loop
# 8.
LARGE_COMPOSED = 4096


def operand(op: Op, index: int, x: Any) -> Any:
    """An operand as plans take it: a tensor, a number of exact Python type, or None."""
    if isinstance(x, Tensor) or x is None or type(x) in _NUMBERS:
        return x
    if hasattr(x, "_meta"):
        raise TypeError(f"{op.name}: {op.operand_name(index)} is a tracer that left the function that is being traced")
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


def finish(array: Any, expected: Meta) -> Tensor:
    """Wrap a kernel's result, brought into the layout that was inferred: metadata is never wrong about memory."""
    if type(array) is not np.ndarray:
        array = np.asarray(array)
    if array.dtype is not expected.numpy and array.dtype != expected.numpy:
        array = quiet(array.astype, expected.numpy)
    if array.shape != expected.shape:
        raise AssertionError(f"a kernel returned shape {array.shape} where {expected.shape} was inferred")
    if expected.contiguous and array.flags.c_contiguous:
        return wrap(array, expected)
    size = expected.dtype.itemsize
    if array.strides == tuple([stride * size for stride in expected.strides]):
        return wrap(array, expected)
    laid_out = empty_array(expected)
    np.copyto(laid_out, array)
    return wrap(laid_out, expected)


def empty_array(m: Meta) -> np.ndarray:
    """Uninitialised memory laid out as the meta says (its dimensions must fill memory without gaps)."""
    empty = np.empty if m.numel * m.dtype.itemsize < allocator.LARGE else allocator.empty
    if m.contiguous:
        return empty(m.shape, m.numpy)
    order = tuple(sorted(range(m.ndim), key=lambda d: (-m.strides[d], m.shape[d] == 1)))
    if strides_in_order(m.shape, order) != m.strides:
        order = tuple(range(m.ndim))
    inverse = sorted(range(m.ndim), key=order.__getitem__)
    return empty(tuple([m.shape[d] for d in order]), m.numpy).transpose(inverse)


# Elementwise


def _caster(compute: np.dtype, m: Meta | None) -> Callable | None:
    """How an operand becomes an argument of the numpy function; None means its array as it is."""
    if m is None:
        return lambda x: None
    if m.weak:
        kind = compute.type
        if compute.kind in "iu":
            return lambda x: np.array(x).astype(compute)[()]  # wraps around, as in PyTorch
        return lambda x: kind(x)
    if m.numpy == compute:
        return None
    return lambda x: x._array.astype(compute)


def _resolves(ufunc: Any, compute: np.dtype, result: np.dtype) -> bool:
    """Does the ufunc on `compute` operands give `result` by itself?"""
    if not isinstance(ufunc, np.ufunc):
        return False
    try:
        return ufunc.resolve_dtypes((compute,) * ufunc.nin + (None,) * ufunc.nout)[-1] == result
    except TypeError:
        return False


def _plan_elementwise(op: Op, metas: tuple, params: tuple, out: Meta) -> Callable:
    compute, casters, function = elementwise_parts(op, metas)
    natural = _resolves(function, compute, out.numpy)
    if out.numel >= (LARGE if natural and out.dtype not in dtypes.HALF else LARGE_COMPOSED):
        return _plan_large(
            op, metas, compute, out, function if natural and casters.count(None) == len(casters) else None
        )
    if natural and out.contiguous and out.ndim and (
            out.ndim == 1 or all(m.weak or m.shape != out.shape or m.contiguous for m in metas)):
        fast = _fast_plan(function, metas, casters, compute, out)
        if fast is not None:
            return fast

    if not natural:
        return _composed_plan(function, casters, out)

    def run(*operands: Any) -> Tensor:
        result = empty_array(out)
        quiet(lambda: function(*_arguments(casters, operands), out=result))
        return wrap(result, out)

    return run


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


def _plan_large(op: Op, metas: tuple, compute: np.dtype, out: Meta, ufunc: Callable | None) -> Callable:
    """Plans for many elements: pooled memory and all threads; a plain ufunc where one does, else the compiled loop."""
    kernel: Any = guarded(op, compute, compiled_loop(op, metas, compute, out))
    if ufunc is not None and out.dtype not in dtypes.HALF:
        from rushlight.kernels.cpu.elementwise import large_kernel

        kernel = large_kernel(ufunc, kernel)

    def run_compiled(*operands: Any) -> Tensor:
        result = empty_array(out)
        kernel(result, *[x._array if isinstance(x, Tensor) else x for x in operands])
        return wrap(result, out)

    return run_compiled


def guarded(op: Op, compute: np.dtype, loop: Callable) -> Callable:
    """The loop of an op behind the check of its data that its numpy function carries as `guard`: compiled loops cannot
    raise.
    """
    guard = getattr(op.numpy, "guard", None)
    if guard is None or compute.kind not in "iu":
        return loop

    def checked(result: np.ndarray, *operands: Any) -> None:
        guard(*operands)
        loop(result, *operands)

    return checked


def compiled_loop(op: Op, metas: tuple, compute: np.dtype, out: Meta) -> Callable:
    """The native loop of an elementwise op: `loop(result array, *operand arrays and numbers)`; compiled when first run.
    """
    # Brings in the code generator: first large call only.
    from rushlight.kernels.cpu.elementwise import elementwise_kernel

    sees = [np.dtype(bool) if op.promote == "where" and i == 0 else compute for i in range(len(metas))]
    return elementwise_kernel(op.scalar, [c if m.weak else m.numpy for m, c in zip(metas, sees)], out.numpy, sees)


def elementwise_parts(op: Op, metas: tuple) -> tuple[np.dtype, list, Callable]:
    common = declare.common_dtype(op.functional or op, metas)
    function = op.numpy or op.scalar
    compute = common.numpy
    if common in dtypes.HALF and not _resolves(function, compute, declare.out_dtype(op, common).numpy):
        compute = np.dtype(np.float32)  # half types compute in float32 and round once
    casters = [_caster(compute, m) for m in metas]
    if op.promote == "where":
        casters[0] = None if metas[0].dtype is dtypes.bool else (lambda x: x._array.astype(bool))
    return compute, casters, function


def _arguments(casters: list, operands: tuple) -> list:
    return [x._array if cast is None else cast(x) for cast, x in zip(casters, operands)]


def _fast_plan(function: Any, metas: tuple, casters: list, compute: np.dtype, out: Meta) -> Callable | None:
    """Plans for the commonest small calls, without loops over operands."""
    new = _new

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
        cast = casters[1] if compute.kind in "iu" or compute.itemsize < 4 else compute.type
        return lambda x, number: wrapped(local.run(function, x._array, cast(number)))
    if len(metas) == 2 and casters[1] is None and metas[0].weak:
        cast = casters[0] if compute.kind in "iu" or compute.itemsize < 4 else compute.type
        return lambda number, x: wrapped(local.run(function, cast(number), x._array))
    return None


def _plan_inplace(op: Op, metas: tuple, params: tuple, out: Meta) -> Callable:
    compute, casters, function = elementwise_parts(op, metas)
    common = declare.common_dtype(op.functional, metas)
    direct = _resolves(function, compute, declare.out_dtype(op, common).numpy)
    large = out.numel >= LARGE and None not in metas
    loop = guarded(op, compute, compiled_loop(op, metas, compute, out)) if large else None

    def run(*operands: Any) -> Tensor:
        target = operands[0]
        array = target._array
        others = [x for x in operands[1:] if isinstance(x, Tensor)]
        if loop is not None and not any(np.may_share_memory(x._array, array) for x in others):
            loop(array, *[x._array if isinstance(x, Tensor) else x for x in operands])
        elif direct:
            quiet(lambda: function(*_arguments(casters, operands), out=array, casting="unsafe"))
        else:
            quiet(lambda: np.copyto(array, function(*_arguments(casters, operands)), "unsafe"))
        target.storage().version += 1
        return target

    return run


# The other kinds


def _plan_view(op: Op, metas: tuple, params: tuple, out: Any) -> Callable:
    """Views remember in `_auto` how they were made, `(input, op, numbers, params, index of the result)`, so that
    autograd can follow a
    write through one of them to the others. `detach` does not: what it gives must not keep the history of its input
    alive.
    """
    numpy = op.numpy
    remember = op.name != "detach"

    def made(x: Tensor, numbers: tuple, array: np.ndarray, m: Meta, index: int | None = None) -> Tensor:
        view = _new(Tensor)
        view._array = array
        view._meta = m
        view._storage = x._storage or x.storage()
        view._auto = (x, op, numbers, params, index) if remember else None
        return view

    if not isinstance(out, Meta):
        return lambda x: tuple(
            [made(x, (), array, m, i) for i, (array, m) in enumerate(zip(numpy(x._array, *params), out))]
        )
    if len(metas) > 1:
        return lambda x, *numbers: made(x, numbers, numpy(x._array, *numbers, *params), out)
    return lambda x: made(x, (), numpy(x._array, *params), out)


def _plan_reduction(op: Op, metas: tuple, params: tuple, out: Any) -> Callable:
    numpy = op.numpy
    # numpy's any and all stop early; complex sums it adds pairwise.
    looped = op.reduce is not None and not isinstance(op.reduce[0], bool) and not out.dtype.is_complex
    if looped and metas[0].numel >= LARGE:
        return _plan_large_fold(op, metas[0], params[0], out)
    if isinstance(out, Meta):
        whole = getattr(numpy, "whole", None)
        if (
            whole is not None
            and out.ndim == 0
            and metas[0].contiguous
            and metas[0].ndim
            and metas[0].dtype is out.dtype
            and out.dtype not in dtypes.HALF
        ):
            return lambda x: wrap(np.asarray(local.run(whole, x._array)), out)
        return lambda x: finish(quiet(numpy, x._array, *params), out)
    return lambda x: tuple([finish(a, m) for a, m in zip(quiet(numpy, x._array, *params), out)])


def _plan_large_fold(op: Op, m: Meta, dim: tuple[int, ...], out: Meta) -> Callable:
    """The plan of a reduction of many elements: the compiled loop, on all threads.

    Sum of 1e6 float32 numbers: 260 us with numpy, 90 with the loop on two threads.
    """
    from rushlight.kernels.cpu.reduce import reduce_kernel

    init, combine, end = op.reduce
    kernel = reduce_kernel(combine, init, [m.numpy], out.numpy, finish=end, arg_dtypes=[out.numpy])
    kept = tuple([size for d, size in enumerate(m.shape) if d not in dim])

    def run(x: Tensor) -> Tensor:
        return wrap(kernel(np.empty(kept, out.numpy), x._array, axes=dim).reshape(out.shape), out)

    return run


def _plan_structured(op: Op, metas: tuple, params: tuple, out: Any) -> Callable:
    function = op.kernels.get("cpu")
    if function is None:
        if op.decomposition is None:
            raise RuntimeError(f"{op.name}: no CPU kernel and no decomposition")
        return lambda *operands: op.decomposition(*operands, *params)

    compute = _on_arrays(function, metas, params)
    if op.mutates:
        def run(*operands: Any) -> Any:
            compute(*operands)
            for i in op.mutates:
                operands[i].storage().version += 1
            return operands[op.mutates[0]]
    elif out is None:
        def run(*operands: Any) -> Any:
            result = compute(*operands)
            return tuple(map(_wrap_any, result)) if isinstance(result, tuple) else _wrap_any(result)
    elif isinstance(out, Meta):
        def run(*operands: Any) -> Any:
            return finish(compute(*operands), out)
    else:
        def run(*operands: Any) -> Any:
            return tuple([finish(a, m) for a, m in zip(compute(*operands), out)])
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


def _wrap_any(array: Any) -> Tensor:
    array = np.asarray(array)
    return wrap(array, of_array(array))


_PLANNERS = {
    "elementwise": _plan_elementwise,
    "inplace": _plan_inplace,
    "view": _plan_view,
    "reduction": _plan_reduction,
    "structured": _plan_structured,
}
