"""Joining tensors: cat, stack and their like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from rushlight.core import dtypes, native
from rushlight.core.declare import common_device, structured
from rushlight.core.errors import check_dim, shape_text
from rushlight.core.front import function
from rushlight.core.layout import CHANNELS_LAST, common_format, strides_for
from rushlight.core.memo import MEMOS
from rushlight.core.meta import Meta, meta, of_array, strides_in_order
from rushlight.core.op import HANDLERS, PLAN_LIMIT, ErrorSample, Op, Sample, kernel, plan_key, planner
from rushlight.core.out import Out
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu.copy import LARGE, joined
from rushlight.ops.create import filled
from rushlight.ops.shape import unsqueeze
from rushlight.ops.view import reshaped

_meta, _array = attrgetter("_meta"), attrgetter("_array")  # with map half the time of a comprehension
_MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def is_placeholder(shape: tuple[int, ...]) -> bool:
    """Is it the shape `(0,)`, which `cat` passes over whatever the other shapes are?"""
    return shape == (0,)


def _infer_cat(*tensors: Meta, dim: int) -> Meta:
    first = next((m for m in tensors if not is_placeholder(m.shape)), tensors[0])
    total = 0
    for i, m in enumerate(tensors):
        if is_placeholder(m.shape) and m is not first:
            continue
        if m.ndim != first.ndim:
            raise RuntimeError(
                f"cat: Tensors must have same number of dimensions: got {first.ndim} and {m.ndim} (tensors[{i}])"
            )
        if any(a != b for d, (a, b) in enumerate(zip(first.shape, m.shape)) if d != dim):
            raise RuntimeError(
                f"cat: Sizes of tensors must match except in dimension {dim}: expected {shape_text(first.shape)}, got "
                f"{shape_text(m.shape)} (tensors[{i}])"
            )
        total += m.shape[dim]
    dtype = first.dtype if all(m.dtype is first.dtype for m in tensors) else dtypes.result_dtype(tensors)
    shape, place = (*first.shape[:dim], total, *first.shape[dim + 1 :]), common_device("cat", tensors)
    order = common_format([m for m in tensors if not is_placeholder(m.shape)])
    return meta(dtype, shape, order and strides_for("cat", meta(dtype, shape), order), place)


cat_op = structured(
    "cat",
    _infer_cat,
    variadic=True,
    doc="Tensors one after the other along a dimension.",
    samples=lambda: [Sample((_MATRIX, _MATRIX[:1] + 10), (0,)), Sample((_MATRIX, _MATRIX + 10, _MATRIX[:, :0]), (1,))],
    reference=lambda *rest: np.concatenate(rest[:-1], axis=rest[-1]),
    errors=lambda: [ErrorSample((_MATRIX, _MATRIX[:, :2]), (0,), RuntimeError, "Sizes of tensors must match")],
)


@kernel(cat_op, "cpu")
def _cat(*rest: Any) -> np.ndarray:
    *arrays, dim = rest
    kept = [array for array in arrays if array.shape != (0,)] or arrays[:1]
    dtype = arrays[0].dtype
    if any(array.dtype != dtype for array in arrays):
        metas = [meta(dtypes.from_numpy_dtype(array.dtype), array.shape) for array in arrays]
        dtype = _infer_cat(*metas, dim=dim).numpy
    if not kept[0].flags.c_contiguous and (wanted := common_format(map(of_array, kept))) is not None:
        order = CHANNELS_LAST[wanted]  # joined as they lie in memory
        kept, dim = [array.transpose(order) for array in kept], order.index(dim)
        return _joined(kept, dim, dtype).transpose(sorted(range(len(order)), key=order.__getitem__))
    return _joined(kept, dim, dtype)


def _joined(kept: list[np.ndarray], dim: int, dtype: np.dtype) -> np.ndarray:
    first = kept[0].shape
    return joined(kept, (*first[:dim], sum([a.shape[dim] for a in kept]), *first[dim + 1 :]), dtype, dim)


@planner(cat_op)
def _plan_cat(metas: tuple[Meta, ...], params: tuple, out: Meta) -> Callable | None:
    if any(m.dtype is not out.dtype or not m.contiguous or is_placeholder(m.shape) for m in metas):
        return None
    return _plan_joined(metas, params[0], out, reshape=False)


def _plan_joined(metas: tuple[Meta, ...], dim: int, out: Meta, reshape: bool) -> Callable | None:
    """The plan that joins row-major tensors of one dtype along a dimension that they have, where they are small: numpy
    joins those as quickly as anything. `reshape` brings the result into shape.
    """
    if out.numel >= LARGE * len(metas):
        return None
    shape, concatenate, new = out.shape, np.concatenate, object.__new__

    def run(*tensors: Tensor) -> Tensor:
        array = concatenate(tuple(map(_array, tensors)), dim)
        if not array.flags.c_contiguous:  # an expanded tensor without elements leads numpy to another order
            array = array.copy()
        made = new(Tensor)  # `wrap` spelled out
        made._array = array.reshape(shape) if reshape else array
        made._meta = out
        made._storage = made._auto = None
        return made

    return native.form("join", run, metas, dim, out)


def _known(plans: dict, tensors: Any, dim: Any) -> Callable | None:
    """The plan of an earlier call on tensors with this metadata, when it cannot be mistaken for another's."""
    if dim.__class__ is int and not HANDLERS and tensors.__class__ in _SEQUENCES:
        try:
            return plans.get((*map(_meta, tensors), dim))
        except AttributeError:
            pass
    return None


def _join(op: Op, plans: dict, tensors: list[Tensor], given: Any, dim: int) -> Tensor:
    """Run an op and note its plan under the dimension as it was given."""
    result = op.apply(tuple(tensors), (dim,))
    plan = op.plans.get(plan_key(tuple(tensors), (dim,)))  # none where a handler has answered that is gone by now
    if plan is not None and not HANDLERS and given.__class__ is int:
        if len(plans) >= PLAN_LIMIT:
            plans.clear()
        plans[(*[x._meta for x in tensors], given)] = plan
    return result


_SEQUENCES = (list, tuple)
_cat_plans: dict[tuple, Callable] = {}
_stack_plans: dict[tuple, Callable] = {}
MEMOS += [_cat_plans, _stack_plans]


def _listed(name: str, tensors: Any) -> list[Tensor]:
    """The tensors given as one sequence; TypeError for anything else, RuntimeError for none."""
    if isinstance(tensors, Tensor) or not isinstance(tensors, (tuple, list)):
        raise TypeError(f"{name}: tensors must be a tuple or list of Tensors, got {type(tensors).__name__}")
    for i, x in enumerate(tensors):
        if not hasattr(x, "_meta"):
            raise TypeError(f"{name}: expected Tensor as element {i} of tensors, got {type(x).__name__}")
    if not tensors:
        raise (ValueError if name == "cat" else RuntimeError)(f"{name}: expected a non-empty list of Tensors")
    return list(tensors)


@function(method=False, aliases=("concat", "concatenate"), out=Out(sharing="none"))
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors joined along dimension `dim`; apart from it their shapes are equal. Dtypes are promoted.

    Raises RuntimeError for shapes that do not fit, ValueError for an empty list, TypeError for elements that are not
    tensors.

    Example:
        >>> import rushlight
        >>> rushlight.cat([rushlight.zeros(2), rushlight.ones(1)])
        tensor([0., 0., 1.])
    """
    if dim.__class__ is int and not HANDLERS and tensors.__class__ in _SEQUENCES:  # `_known` spelled out
        try:
            plan = _cat_plans.get((*map(_meta, tensors), dim))
        except AttributeError:
            plan = None
        if plan is not None:
            return plan(*tensors)
    tensors = _listed("cat", tensors)
    ndim = max([x._meta.ndim for x in tensors])
    if any(x._meta.ndim == 0 for x in tensors):
        raise RuntimeError("cat: zero-dimensional tensor cannot be concatenated; use stack()")
    return _join(cat_op, _cat_plans, tensors, dim, check_dim("cat", dim, ndim))


def _infer_stack(*tensors: Meta, dim: int) -> Meta:
    first = tensors[0]
    for i, m in enumerate(tensors):
        if m.shape != first.shape:
            raise RuntimeError(
                f"stack: expects each tensor to be equal size, but got {shape_text(first.shape)} at entry 0 and "
                f"{shape_text(m.shape)} at entry {i}"
            )
    dtype = first.dtype if all(m.dtype is first.dtype for m in tensors) else dtypes.result_dtype(tensors)
    shape = (*first.shape[:dim], len(tensors), *first.shape[dim:])
    return meta(dtype, shape, _stacked_strides(tensors, dim), common_device("stack", tensors))


def _stacked_strides(tensors: Sequence[Meta], dim: int) -> tuple[int, ...] | None:
    """Tensors that are channels last lie as `cat` joins them, with the joined dimension taken apart."""
    order = common_format(tensors)
    if order is None or dim == tensors[0].ndim:
        return None
    size = tensors[0].shape
    joined = strides_in_order((*size[:dim], len(tensors) * size[dim], *size[dim + 1 :]), CHANNELS_LAST[order])
    return (*joined[:dim], size[dim] * joined[dim], *joined[dim:])


stack_op = structured(
    "stack",
    _infer_stack,
    variadic=True,
    doc="Tensors of one shape one after the other along a new dimension.",
    samples=lambda: [Sample((_MATRIX, _MATRIX + 10), (0,)), Sample((_MATRIX, _MATRIX, -_MATRIX), (2,))],
    reference=lambda *rest: np.stack(rest[:-1], axis=rest[-1]),
    errors=lambda: [ErrorSample((_MATRIX, _MATRIX[:, :2]), (0,), RuntimeError, "equal size")],
)


@kernel(stack_op, "cpu")
def _stack(*rest: Any) -> np.ndarray:
    *arrays, dim = rest
    place = (*(slice(None),) * dim, None)
    return _cat(*[array[place] for array in arrays], dim)


@planner(stack_op)
def _plan_stack(metas: tuple[Meta, ...], params: tuple, out: Meta) -> Callable | None:
    # Rows of several blocks lie in memory as the rows of one: only a new last dimension needs more than a new shape.
    if params[0] == metas[0].ndim or any(m.dtype is not out.dtype or not m.contiguous for m in metas):
        return None
    return _plan_joined(metas, params[0], out, reshape=True)


@function(method=False)
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape joined along a new dimension `dim`.

    Raises RuntimeError for different shapes or an empty list, IndexError when dim is out of range.

    Example:
        >>> import rushlight
        >>> rushlight.stack([rushlight.zeros(2), rushlight.ones(2)])
        tensor([[0., 0.],
                [1., 1.]])
    """
    plan = _known(_stack_plans, tensors, dim)
    if plan is not None:
        return plan(*tensors)
    tensors = _listed("stack", tensors)
    return _join(stack_op, _stack_plans, tensors, dim, check_dim("stack", dim, tensors[0]._meta.ndim + 1))


# At least so many dimensions


def _each(convert: Any, tensors: tuple) -> Any:
    """One tensor for one, a tuple for several or for a sequence."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        return tuple([convert(x) for x in tensors[0]])
    return convert(tensors[0]) if len(tensors) == 1 else tuple([convert(x) for x in tensors])


@function(method=False, out=False)
def atleast_1d(*tensors: Any) -> Any:
    """Tensors with 0 dimensions as vectors of one element, the others unchanged."""
    return _each(lambda x: x if x.ndim else reshaped(x, (1,)), tensors)


def _two(x: Tensor) -> Tensor:
    return x if x.ndim >= 2 else reshaped(x, (1, x.numel()))


def _three(x: Tensor) -> Tensor:
    return x if x.ndim >= 3 else unsqueeze(x, -1) if x.ndim == 2 else reshaped(x, (1, x.numel(), 1))


@function(method=False, out=False)
def atleast_2d(*tensors: Any) -> Any:
    """Tensors with fewer than 2 dimensions as matrices of one row, the others unchanged."""
    return _each(_two, tensors)


@function(method=False, out=False)
def atleast_3d(*tensors: Any) -> Any:
    """Tensors with fewer than 3 dimensions with size-1 dimensions added, the others unchanged.

    Example:
        >>> import rushlight
        >>> rushlight.atleast_3d(rushlight.zeros(4)).shape
        rushlight.Size([1, 4, 1])
    """
    return _each(_three, tensors)


@function(method=False)
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors joined side by side: along dimension 1, or 0 for vectors. Raises RuntimeError when shapes do not fit."""
    tensors = atleast_1d(_listed("hstack", tensors))
    return cat(tensors, 0 if tensors[0].ndim == 1 else 1)


@function(method=False, aliases=("row_stack",))
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors joined on top of each other: along dimension 0, vectors as rows. Raises RuntimeError when shapes do not
    fit.

    Example:
        >>> import rushlight
        >>> rushlight.vstack([rushlight.zeros(2), rushlight.ones(2)])
        tensor([[0., 0.],
                [1., 1.]])
    """
    return cat(atleast_2d(_listed("vstack", tensors)), 0)


@function(method=False)
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors joined in depth: along dimension 2. Raises RuntimeError when shapes do not fit."""
    return cat(atleast_3d(_listed("dstack", tensors)), 2)


@function(method=False)
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors joined side by side, vectors as columns. Raises RuntimeError when shapes do not fit."""
    return hstack([reshaped(x, (x.numel(), 1)) if x.ndim <= 1 else x for x in _listed("column_stack", tensors)])


@function(method=False, out=False)
def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with the given ones along its diagonal and zeros elsewhere. Raises RuntimeError for more than 2
    dimensions.

    Example:
        >>> import rushlight
        >>> rushlight.block_diag(rushlight.tensor([[1, 2]]), rushlight.tensor(3))
        tensor([[1, 2, 0],
                [0, 0, 3]])
    """
    for x in tensors:
        if x.ndim > 2:
            raise RuntimeError(f"block_diag: input tensors must have 2 or fewer dimensions, got {x.ndim}")
    matrices = [_two(x) for x in tensors] or [filled((1, 0), 0, dtypes.get_default_dtype())]
    dtype = dtypes.result_dtype([x._meta for x in matrices])
    width, left, rows = sum([x.shape[1] for x in matrices]), 0, []
    for x in matrices:
        height, own = x.shape
        parts = [
            filled((height, left), 0, dtype, x.device),
            x.to(dtype),
            filled((height, width - left - own), 0, dtype, x.device),
        ]
        rows.append(cat_op.apply(tuple(parts), (1,)))
        left += own
    return cat_op.apply(tuple(rows), (0,))
