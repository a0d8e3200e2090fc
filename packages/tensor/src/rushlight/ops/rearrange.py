"""The same elements in another order, or repeated: flip, rot90, roll, repeat, tile, repeat_interleave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import structured
from rushlight.core.errors import check_dim, shape_text
from rushlight.core.front import function
from rushlight.core.layout import contiguous_format, preserve_format, strides_for
from rushlight.core.meta import Meta, meta
from rushlight.core.native import of_loops
from rushlight.core.op import Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu.copy import duplicate
from rushlight.kernels.cpu.native import WORTH
from rushlight.ops.copy import clone, kept_format
from rushlight.ops.create import sizes
from rushlight.ops.gather import index_select
from rushlight.ops.join import cat_op
from rushlight.ops.shape import unsqueeze
from rushlight.ops.slicing import sliced
from rushlight.ops.transpose import permute_op, swapped
from rushlight.ops.view import expand_op, reshape, reshaped

_MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


# flip


def _infer_flip(input: Meta, *, dims: tuple[int, ...]) -> Meta:
    return meta(input.dtype, input.shape, strides_for("flip", input, preserve_format), input.device)


flip_op = structured(
    "flip",
    _infer_flip,
    doc="The elements in reverse order along dimensions.",
    samples=lambda: [Sample((_MATRIX,), ((0,),)), Sample((_MATRIX,), ((0, 1),)), Sample((_MATRIX,), ((),))],
    reference=lambda x, dims: np.flip(x, dims),
)


@kernel(flip_op, "cpu")
@of_loops
def _flip(array: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    flipped = array[(*[slice(None, None, -1 if d in dims else None) for d in range(array.ndim)], ...)]
    if array.size < WORTH:
        return flipped.copy()
    if array.flags.c_contiguous or 0 in array.strides:
        return duplicate(flipped)
    order = sorted(range(array.ndim), key=lambda d: -array.strides[d])  # memory is written in the order of the input's
    return duplicate(flipped.transpose(order)).transpose(np.argsort(order))


@function(out=False, memo=True)
def flip(input: Tensor, *args: Any, dims: Sequence[int] | None = None) -> Tensor:
    """A copy with the elements in reverse order along the given dimensions.

    Raises IndexError for a dimension out of range, RuntimeError for one named twice.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([[1, 2], [3, 4]]).flip(0)
        tensor([[3, 4],
                [1, 2]])
    """
    order = tuple([check_dim("flip", d, input.ndim) for d in sizes("flip", args if dims is None else (dims,))])
    if len(set(order)) != len(order):
        raise RuntimeError(f"flip: dim {list(order)} appears multiple times in the list of dims")
    return flip_op.apply((input,), (order if input.ndim else (),))


@function(out=False, memo=True)
def fliplr(input: Tensor) -> Tensor:
    """A copy with the columns in reverse order. Raises RuntimeError for fewer than 2 dimensions."""
    if input.ndim < 2:
        raise RuntimeError(f"fliplr: Input must be >= 2-d, got shape {shape_text(input.shape)}")
    return flip(input, 1)


@function(out=False, memo=True)
def flipud(input: Tensor) -> Tensor:
    """A copy with the rows in reverse order. Raises RuntimeError for a 0-dim tensor."""
    if input.ndim < 1:
        raise RuntimeError("flipud: Input must be >= 1-d, got a 0-dim tensor")
    return flip(input, 0)


@function(out=False, memo=True)
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """A copy turned by k times 90 degrees in the plane of two dimensions, from the first towards the second.

    Raises RuntimeError unless `dims` are two different dimensions.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([[1, 2], [3, 4]]).rot90()
        tensor([[2, 4],
                [1, 3]])
    """
    if len(dims) != 2 or input.ndim < 2:
        raise RuntimeError(
            f"rot90: expected total rotation dims == 2 and a tensor with at least 2 dims, got dims {list(dims)} and "
            f"{input.ndim} dims"
        )
    for d in dims:
        if not -input.ndim <= d < input.ndim:
            raise RuntimeError(f"rot90: Rotation dim out of range, got {d} for {input.ndim} dims")
    first, second = [d % input.ndim for d in dims]
    if first == second:
        raise RuntimeError(f"rot90: expected rotation dims to be different, but got dim {dims[0]} and {dims[1]}")
    k %= 4
    if k == 0:
        return input.clone()
    if k == 2:
        return flip(input, (first, second))
    turned = flip(input, second if k == 1 else first)
    return permute_op.apply((turned,), (swapped(input.ndim, first, second),))


# roll


def _rolled(input: Tensor, shift: int, dim: int) -> Tensor:
    size = input.shape[dim]
    cut = -shift % size if size else 0
    if cut == 0:
        return input
    return cat_op.apply((sliced(input, dim, cut, size), sliced(input, dim, 0, cut)), (dim,))


@function(out=False, memo=True)
def roll(input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] = ()) -> Tensor:
    """A copy with the elements moved by `shifts` places along `dims`, round the end; without dims through all of them
    in a row.

    Raises RuntimeError when shifts and dims differ in number, IndexError for a dimension out of range.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([1, 2, 3]).roll(1)
        tensor([3, 1, 2])
    """
    shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    if not shifts:
        raise RuntimeError("roll: `shifts` required")
    if not dims and len(shifts) == 1:
        return (
            reshaped(_rolled(reshape(input, -1), shifts[0], 0), input._meta.shape).clone()
            if input.numel()
            else input.clone()
        )
    if len(shifts) != len(dims):
        raise RuntimeError(f"roll: shifts and dimensions must align. shifts: {len(shifts)}, dims: {len(dims)}")
    result = input
    for shift, dim in zip(shifts, dims):
        result = _rolled(result, shift, check_dim("roll", dim, input.ndim))
    return result.clone() if result is input else kept_format(input, result)


# Repeating


@function(out=False, public=False, memo=True)
def repeat(input: Tensor, *args: Any, repeats: Sequence[int] | None = None) -> Tensor:
    """A copy repeated so many times along each dimension; more numbers than dimensions add dimensions in front.

    Raises RuntimeError for fewer numbers than dimensions, or negative ones.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([1, 2]).repeat(2, 2)
        tensor([[1, 2, 1, 2],
                [1, 2, 1, 2]])
    """
    times = sizes("repeat", args if repeats is None else (repeats,))
    if len(times) < input.ndim:
        raise RuntimeError(
            "repeat: Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor, got "
            f"{list(times)} for shape {shape_text(input.shape)}"
        )
    if min(times, default=0) < 0:
        raise RuntimeError(
            f"repeat: repeats must not be negative (trying to create tensor with negative dimension), got {list(times)}"
        )
    shape = (1,) * (len(times) - input.ndim) + input._meta.shape
    spread, wide = [], []
    for n, size in zip(times, shape):
        spread += [1, size]
        wide += [n, size]
    repeated = clone(
        expand_op.apply((reshaped(input, tuple(spread)),), (tuple(wide),)), memory_format=contiguous_format
    )
    return reshaped(repeated, tuple([n * size for n, size in zip(times, shape)]))


@function(out=False)
def tile(input: Tensor, *args: Any, dims: Sequence[int] | None = None) -> Tensor:
    """A copy repeated so many times along each of the last dimensions. Raises RuntimeError for negative numbers.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([1, 2]).tile(2)
        tensor([1, 2, 1, 2])
    """
    times = sizes("tile", args if dims is None else (dims,))
    return repeat(input, (1,) * (input.ndim - len(times)) + times)


repeat_indices_op = structured(
    "repeat_indices",
    lambda repeats: None,
    doc="The index of each element, as often as it says.",
    samples=lambda: [Sample((np.array([2, 0, 3]),))],
    reference=lambda repeats: np.repeat(np.arange(repeats.size), repeats),
)


@kernel(repeat_indices_op, "cpu")
def _repeat_indices(repeats: np.ndarray) -> np.ndarray:
    if repeats.size and repeats.min() < 0:
        raise RuntimeError("repeat_interleave: repeats can not be negative")
    return np.repeat(np.arange(repeats.size), repeats)


@function(out=False)
def repeat_interleave(
    input: Tensor, repeats: int | Tensor | None = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element (or part along `dim`) repeated in place; `repeats` is one number, or a tensor with one for each.

    With one tensor alone the index of each of its elements, repeated as often as it says. Raises RuntimeError for
    negative numbers, for repeats that do not fit, or that are not integers.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([1, 2]).repeat_interleave(2)
        tensor([1, 1, 2, 2])
    """
    if repeats is None:
        if input.ndim != 1 or input.dtype not in (dtypes.int64, dtypes.int32):
            raise RuntimeError("repeat_interleave: repeats must be a 1D tensor of int32 or int64")
        return repeat_indices_op.apply((input,))
    if dim is None:
        input, dim = reshape(input, -1) if input.numel() else reshaped(input, (0,)), 0
    at = check_dim("repeat_interleave", dim, input.ndim)
    if not input.ndim:
        input = reshaped(input, (1,))
    size = input.shape[at]
    if isinstance(repeats, Tensor):
        if repeats.dtype not in (dtypes.int64, dtypes.int32):
            raise RuntimeError(f"repeat_interleave: repeats has to be Long or Int tensor, got {repeats.dtype.name}")
        if repeats.ndim > 1 or repeats.numel() not in (1, size):
            raise RuntimeError(
                f"repeat_interleave: repeats must have the same size as input along dim {at}, got "
                f"{shape_text(repeats.shape)} for {size}"
            )
        index = repeat_indices_op.apply((expand_op.apply((reshaped(repeats, (repeats.numel(),)),), ((size,),)),))
        if output_size is not None and index.numel() != output_size:
            raise RuntimeError(
                f"repeat_interleave: Allocated size does not match required size, got output_size {output_size} for "
                f"{index.numel()}"
            )
        return index_select(input, at, index)
    if repeats < 0:
        raise RuntimeError(f"repeat_interleave: Repeats must be non-negative, got {repeats}")
    shape = input._meta.shape
    wide = expand_op.apply((unsqueeze(input, at + 1),), ((*shape[: at + 1], int(repeats), *shape[at + 1 :]),))
    return reshaped(clone(wide, memory_format=contiguous_format), (*shape[:at], size * int(repeats), *shape[at + 1 :]))
