"""Native plans of small calls that write by index: scatter, index_add, index_put and their kin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import native
from rushlight.core.dtypes import HALF
from rushlight.core.eager import plan_kernel
from rushlight.core.meta import Meta
from rushlight.core.native import At
from rushlight.core.op import INPLACE, Op, planner
from rushlight.kernels.cpu.native import WORTH
from rushlight.ops.embedding import embedding_backward
from rushlight.ops.gather import walk_along
from rushlight.ops.index import indexed_shape, walked
from rushlight.ops.index_along import index_add_op, index_copy_op, index_fill_op
from rushlight.ops.put import index_put_op
from rushlight.ops.scatter import scatter_add_op, scatter_op, scatter_reduce_op

_COMBINE = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def _planned(op: Op, describe: Callable[..., tuple | None]) -> None:
    """Give an op that writes into operand 0, and its twin, native plans: `describe(metas, params)` says what they do,
    in the arguments of `native_indices.give` from the walked shape on."""
    for own in (op, INPLACE[op]):
        def plan(metas: tuple, params: tuple, out: Meta, own: Op = own) -> Callable | None:
            if not native.installed() or not metas[0].ndim or metas[0].numel >= WORTH:
                return None
            found = describe(metas, params)
            if found is None or found[5:] and out.dtype in HALF:  # half types are summed in float32
                return None
            in_place = own is not op
            return native.form("give", plan_kernel(own, metas, params, out), metas, out, *found, in_place=in_place)

        planner(own)(plan)


def _spread(m: Meta, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of what broadcasts to a shape."""
    own = [0 if size == 1 else stride for size, stride in zip(m.shape, m.strides)]
    return (*(0,) * (len(shape) - m.ndim), *own)


def _scattered(combine: Callable[[tuple], np.ufunc | None]) -> Callable:
    def describe(metas: tuple, params: tuple) -> tuple | None:
        input, index, src = metas
        if index.ndim != input.ndim or not (src.weak or src.ndim == input.ndim):
            return None
        strides, at = walk_along(input, index, params[0])
        found = index.shape, strides, {1: at}, 2, (0,) * index.ndim if src.weak else src.strides
        ufunc = combine(params)
        return found if ufunc is None else (*found, ufunc)

    return describe


_planned(scatter_op, _scattered(lambda params: None))
_planned(scatter_add_op, _scattered(lambda params: np.add))


def _reduced(metas: tuple, params: tuple) -> tuple | None:
    _, reduce, include_self = params
    return _scattered(lambda params: _COMBINE[reduce])(metas, params) if include_self and reduce in _COMBINE else None


_planned(scatter_reduce_op, _reduced)


def _along(combine: np.ufunc | None, wraps: bool = False) -> Callable:
    """The parts of a source, or a number, at a vector of indices along a dimension."""

    def describe(metas: tuple, params: tuple) -> tuple | None:
        input, index, source = metas
        (dim,) = params
        shape = (*input.shape[:dim], index.numel, *input.shape[dim + 1 :])
        if index.ndim != 1 or not (source.weak or source.shape == shape):
            return None
        strides = tuple([0 if d == dim else stride for d, stride in enumerate(input.strides)])
        own = tuple([index.strides[0] if d == dim else 0 for d in range(input.ndim)])
        at = At(own, input.shape[dim], input.strides[dim], wraps)
        found = shape, strides, {1: at}, 2, (0,) * input.ndim if source.weak else source.strides
        return found if combine is None else (*found, combine)

    return describe


_planned(index_add_op, _along(np.add))
_planned(index_copy_op, _along(None))
_planned(index_fill_op, _along(None, wraps=True))


def _put(metas: tuple, params: tuple) -> tuple | None:
    input, values, *indices = metas
    if all(index is None for index in indices):
        return None
    shape = indexed_shape("index_put", input.shape, indices)
    strides, found = walked(input, indices, len(shape), True)
    operands = dict(zip([k + 2 for k, index in enumerate(indices) if index is not None], found, strict=True))
    described = shape, strides, operands, 1, (0,) * len(shape) if values.weak else _spread(values, shape)
    return (*described, np.add) if params[0] else described


_planned(index_put_op, _put)


@planner(embedding_backward)
def _plan_embedding_backward(metas: tuple, params: tuple, out: Meta) -> Callable | None:
    rows, padding, by_frequency = params
    grad, index = metas
    if not native.installed() or padding >= 0 or by_frequency or out.dtype in HALF or out.numel >= WORTH:
        return None
    at = At((*index.strides, 0), rows, out.shape[1], False)
    strides: Any = (*(0,) * index.ndim, 1)
    run = plan_kernel(embedding_backward, metas, params, out)
    return native.form("give", run, metas, out, grad.shape, strides, {1: at}, 0, grad.strides, np.add, target=-1)
