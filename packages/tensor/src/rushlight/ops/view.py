"""Views that only change shape and strides: expand, view, reshape and their like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core.declare import broadcast_shapes_of, view
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta, Size, contiguous_strides, meta
from rushlight.core.op import ErrorSample, Sample
from rushlight.core.tensor import Tensor
from rushlight.ops.create import sizes

_MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def strided(m: Meta, shape: tuple[int, ...], strides: tuple[int, ...]) -> Meta:
    """Metadata of a view with another shape and other strides."""
    return meta(m.dtype, shape, strides, m.device)


def _infer_expand(input: Meta, *, shape: tuple[int, ...]) -> Meta:
    lead = len(shape) - input.ndim
    strides = tuple(
        [0 if d < lead or input.shape[d - lead] != size else input.strides[d - lead] for d, size in enumerate(shape)]
    )
    return strided(input, shape, strides)


def _expand(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    lead = len(shape) - array.ndim
    strides = (0,) * lead + tuple(
        [stride if size == wanted else 0 for stride, size, wanted in zip(array.strides, array.shape, shape[lead:])]
    )
    if array.flags.c_contiguous:
        return np.ndarray(shape, array.dtype, array, 0, strides)  # 0.5 us; as_strided takes 5
    return np.lib.stride_tricks.as_strided(array, shape, strides)


expand_op = view(
    "expand",
    _infer_expand,
    _expand,
    doc="Dimensions of size 1 repeated without copying.",
    samples=lambda: [Sample((_MATRIX[:, :1],), ((4, 2, 5),))],
    reference=np.broadcast_to,
)


@function(out=False, public=False, memo=True)
def expand(input: Tensor, *args: Any, size: Sequence[int] | None = None, implicit: bool = False) -> Tensor:
    """The tensor with size-1 dimensions (and new leading ones) repeated, without copying memory; -1 keeps a size.

    Raises RuntimeError when a size other than 1 would have to change.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([[1], [2]]).expand(2, 3)
        tensor([[1, 1, 1],
                [2, 2, 2]])
    """
    wanted = sizes("expand", args if size is None else (size,))
    lead = len(wanted) - input.ndim
    if lead < 0:
        raise RuntimeError(
            f"expand: {len(wanted)} sizes given for a tensor with {input.ndim} dimensions; give at least as many"
        )
    shape = []
    for d, size_wanted in enumerate(wanted):
        have = input.shape[d - lead] if d >= lead else 1
        if size_wanted == -1 and d >= lead:
            size_wanted = have
        if size_wanted < 0 or have not in (1, size_wanted):
            raise RuntimeError(
                f"expand: the expanded size {size_wanted} must match the existing size {have} at dimension {d}; "
                f"shape {shape_text(input.shape)} cannot become {shape_text(wanted)}"
            )
        shape.append(size_wanted)
    return expand_op.apply((input,), (tuple(shape),))


@function(out=False, public=False)
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """The tensor expanded to the shape of `other`; RuntimeError when it does not fit."""
    return expand(input, other.shape)


@function(out=False)
def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """The tensor expanded to the shape `size`, without copying memory; RuntimeError when it does not fit."""
    return expand(input, size)


@function(out=False, method=False)
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape, without copying. Raises RuntimeError when they do not broadcast.

    Example:
        >>> import rushlight
        >>> [x.shape for x in rushlight.broadcast_tensors(rushlight.zeros(3), rushlight.zeros(2, 1))]
        [rushlight.Size([2, 3]), rushlight.Size([2, 3])]
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    shape = broadcast_shapes_of("broadcast_tensors", [x._meta for x in tensors])
    return tuple([expand(x, shape) for x in tensors])


@function(out=False, method=False)
def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes broadcast to. Raises RuntimeError when they do not broadcast.

    Example:
        >>> import rushlight
        >>> rushlight.broadcast_shapes((3, 1), (5,))
        rushlight.Size([3, 5])
    """
    wanted = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    if any(size < 0 for shape in wanted for size in shape):
        raise RuntimeError(f"broadcast_shapes: sizes must not be negative, got {wanted}")
    result: list[int] = []
    for shape in wanted:
        result = [1] * (len(shape) - len(result)) + result
        for d, size in enumerate(shape, len(result) - len(shape)):
            if size != 1 and result[d] not in (1, size):
                raise RuntimeError(f"broadcast_shapes: shapes {wanted} do not broadcast: size {result[d]} meets {size}")
            result[d] = size if size != 1 else result[d]
    return Size(result)


def view_strides(shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...] | None:
    """The strides with which memory laid out by (shape, strides) is read in the shape `wanted`;
    None when that needs a copy.
    """
    if 0 in shape:
        return strides if shape == wanted else contiguous_strides(wanted)
    runs: list[list[int]] = [
        [1, 1]
    ]  # maximal gapless stretches as [elements, stride], innermost last in `shape` comes first
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size == 1:
            continue
        if runs[-1][0] == 1:
            runs[-1] = [size, stride]
        elif stride == runs[-1][0] * runs[-1][1]:
            runs[-1][0] *= size
        else:
            runs.append([size, stride])
    result, at = [], 0
    left, step = runs[0]
    for size in reversed(wanted):
        if size != 1 and left == 1 and at + 1 < len(runs):
            at += 1
            left, step = runs[at]
        if left % size:
            return None
        result.append(step)
        left //= size
        step *= size
    return tuple(reversed(result))


def _infer_view(input: Meta, *, shape: tuple[int, ...]) -> Meta:
    if math.prod(shape) != input.numel:
        raise RuntimeError(
            f"view: shape {shape_text(shape)} is invalid for input of size {input.numel}; its shape is "
            f"{shape_text(input.shape)}"
        )
    strides = None if input.contiguous else view_strides(input.shape, input.strides, shape)
    if strides is None and not input.contiguous:
        raise RuntimeError(
            f"view: shape {shape_text(shape)} is not compatible with the tensor's shape {shape_text(input.shape)} and "
            "stride "
            f"{input.strides}: a dimension would span two that are not adjacent in memory; use .reshape(...)"
        )
    return meta(input.dtype, shape, strides, input.device)


view_op = view(
    "view",
    _infer_view,
    lambda array, shape: array.reshape(shape),
    doc="The same memory read in another shape.",
    samples=lambda: [
        Sample((_MATRIX,), ((3, 2),)),
        Sample((_MATRIX,), ((6, 1),)),
        Sample((_MATRIX[:, :0],), ((0, 4),)),
    ],
    reference=np.reshape,
    errors=lambda: [ErrorSample((_MATRIX,), ((4, 2),), RuntimeError, "invalid for input of size 6")],
)


def complete_shape(name: str, shape: tuple[int, ...], numel: int) -> tuple[int, ...]:
    """The shape with its -1, if there is one, replaced by the size that gives `numel` elements."""
    known, at = 1, -1
    for d, size in enumerate(shape):
        if size >= 0:
            known *= size
        elif size == -1 and at < 0:
            at = d
        else:
            what = "only one dimension can be inferred" if size == -1 else f"invalid shape dimension {size}"
            raise RuntimeError(f"{name}: {what} in {shape_text(shape)}")
    if at < 0:
        if known != numel:
            raise RuntimeError(f"{name}: shape {shape_text(shape)} is invalid for input of size {numel}")
        return shape
    if known == 0 and numel == 0:
        raise RuntimeError(
            f"{name}: cannot reshape a tensor of 0 elements into shape {shape_text(shape)}: "
            "the unspecified size -1 can be any value"
        )
    if known == 0 or numel % known:
        raise RuntimeError(f"{name}: shape {shape_text(shape)} is invalid for input of size {numel}")
    return (*shape[:at], numel // known, *shape[at + 1 :])


def reshaped(input: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The elements in a complete shape: a view where the strides allow, else a copy."""
    m = input._meta
    if m.shape == shape and not m.contiguous:
        return view_op.apply((input,), (shape,))
    if not m.contiguous and view_strides(m.shape, m.strides, shape) is None:
        input = input.contiguous()
    return view_op.apply((input,), (shape,))


@function(out=False, memo=True)
def reshape(input: Tensor, *args: Any, shape: Sequence[int] | None = None) -> Tensor:
    """The elements in another shape, one size of which may be -1: a view where possible, else a copy.

    Raises RuntimeError when the number of elements does not fit.

    Example:
        >>> import rushlight
        >>> rushlight.arange(6).reshape(2, -1)
        tensor([[0, 1, 2],
                [3, 4, 5]])
    """
    wanted = sizes("reshape", args if shape is None else (shape,))
    return reshaped(input, complete_shape("reshape", wanted, input._meta.numel))


@function(out=False)
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """The elements in the shape of `other`; RuntimeError when the numbers of elements differ."""
    return reshape(input, other.shape)
