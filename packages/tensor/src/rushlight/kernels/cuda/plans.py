"""Plans of eager ops on CUDA tensors: see `rushlight.core.eager` for what a plan is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import declare
from rushlight.core.meta import Meta
from rushlight.core.op import Op
from rushlight.core.tensor import Tensor, wrap
from rushlight.kernels.cuda.array import CudaArray, apply_view, empty, to_device, to_host


def make_plan(op: Op, metas: tuple[Any, ...], params: tuple[Any, ...], out: Any) -> Callable[..., Tensor]:
    """The function that runs `op`: elementwise, views and conversions natively, the rest through its decomposition."""
    if op.kind in ("elementwise", "inplace"):
        return _plan_elementwise(op, metas, out)
    if op.kind == "view":
        return _plan_view(op, params, out)
    if op.name == "convert":
        return _plan_convert(metas[0], out)
    if op.decomposition is not None:
        return lambda *operands: op.decomposition(*operands, *params)
    raise RuntimeError(f"{op.name}: no CUDA kernel; move the operands with .to('cpu')")


def _plan_view(op: Op, params: tuple[Any, ...], out: Any) -> Callable[..., Any]:
    if isinstance(out, Meta):
        return lambda x, *numbers: wrap(apply_view(op.numpy, x._array, *numbers, *params), out, x.storage())

    def run(x: Tensor) -> tuple[Tensor, ...]:
        # One part at a time: a part's place is known from a function that gives one view.
        parts = [apply_view(lambda a, k=k: op.numpy(a, *params)[k], x._array) for k in range(len(out))]
        return tuple([wrap(part, m, x.storage()) for part, m in zip(parts, out, strict=True)])

    return run


def _plan_elementwise(op: Op, metas: tuple[Any, ...], out: Any) -> Callable[..., Tensor]:
    from rushlight.kernels.cuda.elementwise import elementwise_kernel

    common = declare.common_dtype(op.functional or op, metas).numpy
    args = [common] * len(metas)
    if op.promote == "where":
        args[0] = np.dtype(bool)
    ins = [arg if m.weak else m.numpy for m, arg in zip(metas, args, strict=True)]
    kernel = elementwise_kernel(op.scalar, ins, out.numpy, args)

    def run(*operands: Any) -> Tensor:
        arrays = [_operand(x) for x in operands]
        if op.kind == "inplace":
            target = operands[0]
            kernel(target._array, *arrays)
            target.storage().version += 1
            return target
        result = empty(out.shape, out.numpy, out.strides)
        kernel(result, *arrays)
        return wrap(result, out)

    return run


def _operand(x: Any) -> Any:
    """A tensor's memory, on the device; numbers stay."""
    if not isinstance(x, Tensor):
        return x
    return x._array if isinstance(x._array, CudaArray) else to_device(x._array)


def _plan_convert(source: Any, out: Any) -> Callable[..., Tensor]:
    from rushlight.kernels.cuda.elementwise import elementwise_kernel

    kernel = elementwise_kernel(lambda x: x, [source.numpy], out.numpy)

    def run(x: Tensor) -> Tensor:
        if out.device.type != "cuda":
            host = np.empty(out.shape, out.numpy)
            host[...] = to_host(x._array).astype(out.numpy)
            return wrap(host, out)
        result = empty(out.shape, out.numpy, out.strides)
        kernel(result, _operand(x))
        return wrap(result, out)

    return run
