"""Views of a part of a tensor along one dimension: select, slice, narrow, unbind, split, chunk and their like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core.declare import structured, view
from rushlight.core.errors import check_dim, shape_text
from rushlight.core.front import function
from rushlight.core.layout import contiguous_format
from rushlight.core.meta import Meta, Symbolic, is_int, meta
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.ops.view import strided

_MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)


# One place along a dimension


def _infer_select(input: Meta, index: Meta, *, dim: int) -> Meta:
    shape, strides = input.shape, input.strides
    return strided(input, shape[:dim] + shape[dim + 1 :], strides[:dim] + strides[dim + 1 :])


_LEAD = tuple([(slice(None),) * d for d in range(65)])  # the index that passes over the first d dimensions


def _select(array: np.ndarray, index: int, dim: int) -> np.ndarray:
    try:
        return array[(*_LEAD[dim], index, ...)] if dim or array.ndim == 1 else array[index]
    except (IndexError, OverflowError):
        kind = IndexError if -(1 << 63) <= index < 1 << 63 else ValueError  # as in PyTorch
        raise kind(f"index {index} is out of bounds for dimension {dim} with size {array.shape[dim]}") from None


select_op = view(
    "select",
    _infer_select,
    _select,
    places=lambda input, dim: (-input.shape[dim], input.shape[dim]),
    doc="The part at one index of a dimension, without that dimension.",
    samples=lambda: [Sample((_MATRIX, 1), (0,)), Sample((_MATRIX, -1), (1,)), Sample((_MATRIX[0], 2), (0,))],
    reference=lambda x, index, dim: np.take(x, index, dim),
    errors=lambda: [
        ErrorSample((_MATRIX, 3), (0,), IndexError, "out of bounds"),
        ErrorSample((_MATRIX, -4), (0,), IndexError, "out of bounds"),
    ],
)


@function(out=False, memo=True)
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The part of a tensor at `index` of dimension `dim`, which goes away; a view. Raises IndexError when either is out
    of range.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([[1, 2], [3, 4]]).select(1, 0)
        tensor([1, 3])
    """
    shape = input.shape
    if not shape:
        raise IndexError("select: a 0-dim tensor has no dimension to select from")
    at, index = check_dim("select", dim, len(shape)), int(index)
    if not -shape[at] <= index < shape[at]:
        raise IndexError(
            f"select: index {index} out of range for dimension {at} of the tensor of shape {shape_text(shape)}"
        )
    return select_op.apply((input, index), (at,))


# A stretch of a dimension


def _infer_slice(input: Meta, start: Meta, *, dim: int, length: int, step: int) -> Meta:
    if length < 0 or length * step - step >= input.shape[dim] > 0 or step < 1:
        raise RuntimeError(
            f"slice: {length} elements in steps of {step} do not fit in dimension {dim} of size {input.shape[dim]}"
        )
    shape, strides = input.shape, input.strides
    return strided(
        input, (*shape[:dim], length, *shape[dim + 1 :]), (*strides[:dim], strides[dim] * step, *strides[dim + 1 :])
    )


def _slice(array: np.ndarray, start: int, dim: int, length: int, step: int) -> np.ndarray:
    part = slice(start, start + length * step, step)
    result = array[(*_LEAD[dim], part)] if dim else array[part]
    if result.shape[dim] != length:
        raise IndexError(
            f"slice: start {start} with length {length} exceeds dimension {dim} of size {array.shape[dim]}"
        )
    return result


slice_op = view(
    "slice",
    _infer_slice,
    _slice,
    places=lambda input, dim, length, step: (0, input.shape[dim] - (length - 1) * step),
    doc="`length` places of a dimension, `step` apart, from `start` on.",
    samples=lambda: [Sample((_MATRIX, 1), (0, 2, 1)), Sample((_MATRIX, 0), (1, 2, 3)), Sample((_MATRIX, 2), (1, 0, 1))],
    reference=lambda x, start, dim, length, step: np.take(x, range(start, start + length * step, step), dim),
    errors=lambda: [ErrorSample((_MATRIX, 2), (0, 2, 1), IndexError, "exceeds dimension")],
)


def bounds(part: slice, size: int) -> tuple[int, int, int]:
    """`part.indices(size)` for a positive step, of a size or bounds that may stand for ints, too."""
    if type(size) is int and not any(isinstance(x, Symbolic) for x in (part.start, part.stop)):
        return part.indices(size)
    start, stop = [x if x is None or isinstance(x, int) else x.__index__() for x in (part.start, part.stop)]
    low = 0 if start is None else max(start + size, 0) if start < 0 else size if start > size else start
    high = size if stop is None else max(stop + size, 0) if stop < 0 else size if stop > size else stop
    return low, high, 1 if part.step is None else part.step


def sliced(input: Tensor, dim: int, start: int, stop: int, step: int = 1) -> Tensor:
    """The view of `start:stop:step` along a dimension, for bounds that `slice.indices` has set right."""
    length = max(0, -(-(stop - start) // step))
    return slice_op.apply((input, start), (dim, length, step))


def _infer_slice_backward(grad: Meta, start: Meta, *, dim: int, size: int, step: int) -> Meta:
    return meta(grad.dtype, (*grad.shape[:dim], size, *grad.shape[dim + 1 :]), None, grad.device)


slice_backward = structured(
    "slice_backward",
    _infer_slice_backward,
    doc="Zeros with the operand in the places that `slice` takes.",
    samples=lambda: [Sample((_MATRIX[:2], 1), (0, 5, 2)), Sample((_MATRIX, 0), (1, 4, 1))],
    reference=lambda g, start, dim, size, step: np.add.reduce(
        [
            np.where(
                np.arange(size).reshape(-1, *[1] * (g.ndim - dim - 1)) == start + i * step, np.take(g, [i], dim), 0
            )
            for i in range(g.shape[dim])
        ]
    ),
)


@kernel(slice_backward, "cpu")
def _slice_backward(grad: np.ndarray, start: int, dim: int, size: int, step: int) -> np.ndarray:
    result = np.zeros((*grad.shape[:dim], size, *grad.shape[dim + 1 :]), grad.dtype)
    _slice(result, start, dim, grad.shape[dim], step)[...] = grad
    return result


@function(out=False, memo=True)
def narrow(input: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    """The part `start : start + length` of dimension `dim`; a view.

    Raises IndexError or RuntimeError when the part exceeds the dimension.

    Example:
        >>> import rushlight
        >>> rushlight.arange(5).narrow(0, 1, 3)
        tensor([1, 2, 3])
    """
    shape = input.shape
    if not shape:
        raise RuntimeError("narrow: cannot be applied to a 0-dim tensor")
    if isinstance(start, Tensor) and (start.ndim or start.dtype.category != 1):
        raise RuntimeError("narrow: start must be a 0-dim integer tensor or an int")
    if length < 0:
        raise RuntimeError(f"narrow: length must not be negative, got {length}")
    at, start = check_dim("narrow", dim, len(shape)), int(start)
    if not -shape[at] <= start <= shape[at]:
        raise IndexError(f"narrow: start {start} is out of range for dimension {at} of size {shape[at]}")
    start += shape[at] if start < 0 else 0
    if start + length > shape[at]:
        raise RuntimeError(f"narrow: start {start} + length {length} exceeds dimension size {shape[at]}")
    return slice_op.apply((input, start), (at, length, 1))


@function()
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of the part `start : start + length` of dimension `dim`; errors as in `narrow`.

    But a `dim` beyond the last one raises RuntimeError.
    """
    if dim >= input.ndim:
        raise RuntimeError(f"narrow_copy: there is no dimension {dim} in a tensor with {input.ndim} dimensions")
    return narrow(input, dim, start, length).clone(memory_format=contiguous_format)


# All parts of a dimension


def _infer_unbind(input: Meta, *, dim: int) -> tuple[Meta, ...]:
    return (_infer_select(input, None, dim=dim),) * input.shape[dim]


unbind_op = view(
    "unbind",
    _infer_unbind,
    lambda array, dim: [_select(array, i, dim) for i in range(array.shape[dim])],
    doc="The parts at every index of a dimension.",
    samples=lambda: [Sample((_MATRIX,), (0,)), Sample((_MATRIX,), (1,))],
    reference=lambda x, dim: tuple(np.moveaxis(x, dim, 0)),
)


@function(out=False, memo=True)
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The parts of a tensor at every index of dimension `dim`, as views. Raises IndexError when `dim` is out of range.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([[1, 2], [3, 4]]).unbind()
        (tensor([1, 2]), tensor([3, 4]))
    """
    if not input.shape:
        raise IndexError("unbind: Dimension specified as 0 but tensor has no dimensions")
    return unbind_op.apply((input,), (check_dim("unbind", dim, input.ndim),))


def _infer_split(input: Meta, *, sizes: tuple[int, ...], dim: int) -> tuple[Meta, ...]:
    if any(s < 0 for s in sizes) or sum(sizes) != input.shape[dim]:
        raise RuntimeError(
            f"split: split sizes {list(sizes)} must not be negative and add up to the size {input.shape[dim]} of dim "
            f"{dim}"
        )
    lead, tail = input.shape[:dim], input.shape[dim + 1 :]
    return tuple([strided(input, (*lead, size, *tail), input.strides) for size in sizes])


def _split(array: np.ndarray, sizes: tuple[int, ...], dim: int) -> list[np.ndarray]:
    parts, start = [], 0
    for size in sizes:
        parts.append(array[(*_LEAD[dim], slice(start, start + size))])
        start += size
    return parts


split_op = view(
    "split",
    _infer_split,
    _split,
    doc="A dimension cut into stretches of the given sizes.",
    samples=lambda: [Sample((_MATRIX,), ((1, 3), 1)), Sample((_MATRIX,), ((3, 0), 0))],
    reference=lambda x, sizes, dim: tuple(np.split(x, np.cumsum(sizes)[:-1], dim)),
)


@function(out=False, aliases=("split_with_sizes", "unsafe_split"), memo=True)
def split(
    input: Tensor,
    split_size_or_sizes: int | Sequence[int] | None = None,
    dim: int = 0,
    *,
    split_size: Any = None,
    split_sizes: Any = None,
) -> tuple[Tensor, ...]:
    """Dimension `dim` cut into views of a size each (the last may be smaller), or of the sizes in a list.

    Raises RuntimeError when the sizes do not add up to the size of `dim`, IndexError when `dim` is out of range.

    Example:
        >>> import rushlight
        >>> rushlight.arange(5).split(2)
        (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    split_size_or_sizes = next((s for s in (split_size_or_sizes, split_size, split_sizes) if s is not None), None)
    if not input.shape:
        raise RuntimeError("split: expects at least a 1-dimensional tensor")
    at = check_dim("split", dim, input.ndim)
    total = input.shape[at]
    if isinstance(split_size_or_sizes, (tuple, list)):
        return split_op.apply((input,), (tuple([s if is_int(s) else int(s) for s in split_size_or_sizes]), at))
    size = split_size_or_sizes if is_int(split_size_or_sizes) else int(split_size_or_sizes)
    if size < 0 or size == 0 and total:
        raise RuntimeError(f"split: split_size must be positive, got {size}")
    whole, rest = divmod(total, size) if size else (0, 0)
    sizes = (size,) * whole + ((rest,) if rest else ())
    return split_op.apply((input,), (sizes or (0,), at))


@function(out=False, aliases=("unsafe_chunk",), memo=True)
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Dimension `dim` cut into at most `chunks` views of equal size, the last smaller. Raises RuntimeError unless
    chunks is positive.

    Example:
        >>> import rushlight
        >>> rushlight.arange(5).chunk(2)
        (tensor([0, 1, 2]), tensor([3, 4]))
    """
    if not input.shape:
        raise RuntimeError("chunk: expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk: chunks must be greater than 0, got {chunks}")
    at = check_dim("chunk", dim, input.ndim)
    total = input.shape[at]
    if total == 0:
        return split_op.apply((input,), ((0,) * chunks, at))
    return split(input, -(-total // chunks), at)


@function(out=False, memo=True)
def tensor_split(
    input: Tensor,
    indices_or_sections: int | Sequence[int] | Tensor | None = None,
    dim: int = 0,
    *,
    indices: Any = None,
    sections: int | None = None,
) -> tuple[Tensor, ...]:
    """Dimension `dim` cut into a number of nearly equal views, or before each of the given indices.

    Raises RuntimeError when the number is not positive or the tensor has no dimensions, IndexError when `dim` is out of
    range.

    Example:
        >>> import rushlight
        >>> rushlight.arange(5).tensor_split(2)
        (tensor([0, 1, 2]), tensor([3, 4]))
    """
    indices_or_sections = next((x for x in (indices_or_sections, indices, sections) if x is not None), None)
    if not input.shape:
        raise RuntimeError("tensor_split: expected at least a 1-dimensional tensor, got a tensor with 0 dims")
    at = check_dim("tensor_split", dim, input.ndim)
    total = input.shape[at]
    if isinstance(indices_or_sections, Tensor):
        if indices_or_sections.ndim > 1 or indices_or_sections.dtype.name != "int64":
            raise RuntimeError("tensor_split: a tensor of indices or sections must be int64 with at most 1 dimension")
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            raise RuntimeError(f"tensor_split: number of sections must be larger than 0, got {indices_or_sections}")
        small, extra = divmod(total, indices_or_sections)
        return split_op.apply((input,), ((small + 1,) * extra + (small,) * (indices_or_sections - extra), at))
    parts, start = [], 0
    for stop in (*indices_or_sections, total):
        low, high, _ = slice(start, stop).indices(total)
        parts.append(sliced(input, at, low, max(low, high)))
        start = stop
    return tuple(parts)


def _along(name: str, dim: int, least: int, input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    if input.ndim < least:
        raise RuntimeError(
            f"{name}: requires a tensor with at least {least} dimension(s), got shape {shape_text(input.shape)}"
        )
    if isinstance(indices_or_sections, int):
        total = input.shape[dim]
        if indices_or_sections <= 0 or total % indices_or_sections:
            raise RuntimeError(
                f"{name}: the size {total} of dimension {dim} must be divisible by the number of sections "
                f"{indices_or_sections}"
            )
    return tensor_split(input, indices_or_sections, dim)


@function(out=False)
def hsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Cut along dimension 1 (0 for vectors). Raises RuntimeError when the size is not divisible by the sections."""
    return _along("hsplit", 0 if input.ndim == 1 else 1, 1, input, indices_or_sections)


@function(out=False)
def vsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Cut along dimension 0.

    Raises RuntimeError for fewer than 2 dimensions or a size not divisible by the sections.
    """
    return _along("vsplit", 0, 2, input, indices_or_sections)


@function(out=False)
def dsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Cut along dimension 2.

    Raises RuntimeError for fewer than 3 dimensions or a size not divisible by the sections.
    """
    return _along("dsplit", 2, 3, input, indices_or_sections)
