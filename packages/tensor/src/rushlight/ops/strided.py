"""Views by arbitrary strides, diagonal, unfold, as_strided, and the functions that write into such views of a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rushlight.core.declare import structured, updating, view
from rushlight.core.errors import check_dim, shape_text
from rushlight.core.front import function
from rushlight.core.layout import contiguous_format
from rushlight.core.meta import Meta, meta
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.storage import Storage, window
from rushlight.core.tensor import Tensor
from rushlight.ops.copy import copy_op
from rushlight.ops.create import sizes
from rushlight.ops.slicing import _slice, select, sliced
from rushlight.ops.view import strided

_MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)
_as_strided = np.lib.stride_tricks.as_strided


def _without(values: tuple[int, ...], *dims: int) -> tuple[int, ...]:
    return tuple([value for d, value in enumerate(values) if d not in dims])


# diagonal


def _infer_diagonal(input: Meta, *, offset: int, dim1: int, dim2: int) -> Meta:
    rows, columns = input.shape[dim1], input.shape[dim2]
    length = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    return strided(
        input,
        (*_without(input.shape, dim1, dim2), length),
        (*_without(input.strides, dim1, dim2), input.strides[dim1] + input.strides[dim2]),
    )


def _diagonal(array: np.ndarray, offset: int, dim1: int, dim2: int) -> np.ndarray:
    result = array.diagonal(offset, dim1, dim2)
    result.flags.writeable = True
    return result


diagonal_op = view(
    "diagonal",
    _infer_diagonal,
    _diagonal,
    doc="The elements with equal index, but for an offset, in two dimensions.",
    samples=lambda: [
        Sample((_MATRIX,), (0, 0, 1)),
        Sample((_MATRIX,), (1, 0, 1)),
        Sample((_MATRIX,), (-1, 1, 0)),
        Sample((_MATRIX,), (7, 0, 1)),
    ],
    reference=lambda x, offset, dim1, dim2: np.diagonal(x, offset, dim1, dim2),
)


def diagonal_params(name: str, input: Tensor, offset: int, dim1: int, dim2: int) -> tuple[int, int, int]:
    """The checked params of `diagonal`."""
    first, second = check_dim(name, dim1, input.ndim, "dim1"), check_dim(name, dim2, input.ndim, "dim2")
    if first == second or input.ndim < 2:
        raise RuntimeError(f"{name}: diagonal dimensions cannot be identical {dim1}, {dim2}")
    return int(offset), first, second


@function(out=False, memo=True)
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonals over `dim1` and `dim2`, as last dimension of a view; `offset` shifts them to the right.

    Raises RuntimeError when the dimensions are the same, IndexError when one is out of range.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([[1, 2], [3, 4]]).diagonal()
        tensor([1, 4])
    """
    return diagonal_op.apply((input,), diagonal_params("diagonal", input, offset, dim1, dim2))


# unfold


def _infer_unfold(input: Meta, *, dim: int, size: int, step: int) -> Meta:
    have, stride = (input.shape[dim], input.strides[dim]) if input.ndim else (1, 1)
    if size < 0 or step < 1:
        raise RuntimeError(
            f"unfold: size must not be negative and step must be positive, got size {size} and step {step}"
        )
    if size > have:
        raise RuntimeError(f"unfold: maximum size for tensor at dimension {dim} is {have} but size is {size}")
    if not input.ndim:
        return strided(input, (size,), (1,))
    count = (have - size) // step + 1
    return strided(
        input,
        (*input.shape[:dim], count, *input.shape[dim + 1 :], size),
        (*input.strides[:dim], stride * step, *input.strides[dim + 1 :], stride),
    )


def _unfold(array: np.ndarray, dim: int, size: int, step: int) -> np.ndarray:
    if not array.ndim:
        return array.reshape(1)[:size]
    count, stride = (array.shape[dim] - size) // step + 1, array.strides[dim]
    return _as_strided(
        array,
        (*array.shape[:dim], count, *array.shape[dim + 1 :], size),
        (*array.strides[:dim], stride * step, *array.strides[dim + 1 :], stride),
    )


unfold_op = view(
    "unfold",
    _infer_unfold,
    _unfold,
    doc="Windows of a dimension, as a new last dimension.",
    samples=lambda: [Sample((_MATRIX,), (1, 2, 1)), Sample((_MATRIX,), (0, 2, 2))],
    reference=lambda x, dim, size, step: np.lib.stride_tricks.sliding_window_view(x, size, dim)[
        (slice(None),) * dim + (slice(None, None, step),)
    ],
)


@function(out=False, public=False)
def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """All windows of `size` elements, `step` apart, of a dimension, as a new last dimension of a view.

    Raises RuntimeError when the window is larger than the dimension or step not positive.

    Example:
        >>> import rushlight
        >>> rushlight.arange(4).unfold(0, 2, 1)
        tensor([[0, 1],
                [1, 2],
                [2, 3]])
    """
    return unfold_op.apply((input,), (check_dim("unfold", dimension, input.ndim, "dimension"), int(size), int(step)))


# Their gradients


def _infer_diagonal_backward(grad: Meta, *, shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Meta:
    return meta(grad.dtype, shape, None, grad.device)


diagonal_backward = structured(
    "diagonal_backward",
    _infer_diagonal_backward,
    doc="Zeros of a shape with the operand in the places that `diagonal` takes.",
    samples=lambda: [Sample((_MATRIX[0, :3],), ((3, 4), 0, 0, 1)), Sample((_MATRIX,), ((3, 4, 5), 1, 1, 2))],
)


@kernel(diagonal_backward, "cpu")
def _diagonal_backward(grad: np.ndarray, shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> np.ndarray:
    result = np.zeros(shape, grad.dtype)
    _diagonal(result, offset, dim1, dim2)[...] = grad
    return result


def _infer_unfold_backward(grad: Meta, *, shape: tuple[int, ...], dim: int, size: int, step: int) -> Meta:
    return meta(grad.dtype, shape, None, grad.device)


unfold_backward = structured(
    "unfold_backward",
    _infer_unfold_backward,
    doc="The windows of `unfold` added up in the places that they were taken from.",
    samples=lambda: [Sample((_MATRIX,), ((6,), 0, 4, 1)), Sample((_MATRIX[:, None],), ((3, 4), 1, 4, 1))],
)


@kernel(unfold_backward, "cpu")
def _unfold_backward(grad: np.ndarray, shape: tuple[int, ...], dim: int, size: int, step: int) -> np.ndarray:
    result = np.zeros(shape, grad.dtype)
    if not shape:
        return result + grad.sum(dtype=grad.dtype)
    for i in range(size):  # the i-th elements of all windows do not overlap
        count = grad.shape[dim]
        _slice(result, i, dim, count, step)[...] += grad[..., i]
    return result


# as_strided


def _infer_as_strided(
    input: Meta, *, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int, own_offset: int
) -> Meta:
    if len(size) != len(stride):
        raise RuntimeError(f"as_strided: mismatch in length of strides and shape: {len(stride)} and {len(size)}")
    if any(n < 0 for n in (*size, *stride)) or storage_offset < 0:
        raise RuntimeError(
            f"as_strided: sizes, strides and storage_offset must not be negative, got {list(size)}, {list(stride)} and "
            f"{storage_offset}"
        )
    return strided(input, size, stride)


def _as_strided_view(
    array: np.ndarray, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int, own_offset: int = 0
) -> np.ndarray:
    memory = Storage(array)
    width = array.itemsize
    first = storage_offset * width
    extent = (1 + sum([(n - 1) * step for n, step in zip(size, stride)])) * width if 0 not in size else 0
    if first < 0 or first + extent > memory.nbytes():
        raise RuntimeError(
            f"as_strided: sizes {list(size)}, strides {list(stride)} and storage offset {first // width} need a "
            "storage of "
            f"{first + extent} bytes, which is out of bounds for storage of size {memory.nbytes()}"
        )
    if not extent:
        return np.empty(size, array.dtype)
    return window(array, memory.address + first, size, tuple([step * width for step in stride]), part=True)


as_strided_op = view(
    "as_strided",
    _infer_as_strided,
    _as_strided_view,
    anywhere=True,
    doc="The memory read with any sizes, strides and offset that stay inside it; `own_offset` is the operand's, for "
    "the gradient.",
    samples=lambda: [Sample((_MATRIX,), ((2, 2), (5, 1), 1, 0)), Sample((_MATRIX,), ((3,), (0,), 0, 0))],
    reference=lambda x, size, stride, offset, own: _as_strided(
        x.reshape(-1)[offset:], size, [s * x.itemsize for s in stride]
    ),
    errors=lambda: [ErrorSample((_MATRIX,), ((2, 4), (1, 4), 3, 0), RuntimeError, "out of bounds")],
)


@function(out=False)
def as_strided(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """A view of the tensor's memory with the given sizes, strides and offset (by default its own), all counted in
    elements.

    Raises RuntimeError when an element would lie outside the memory.

    Example:
        >>> import rushlight
        >>> rushlight.arange(6).as_strided((2, 2), (3, 1), 1)
        tensor([[1, 2],
                [4, 5]])
    """
    own = input.storage_offset()
    offset = own if storage_offset is None else int(storage_offset)
    return as_strided_op.apply((input,), (sizes("as_strided", (size,)), sizes("as_strided", (stride,)), offset, own))


def _infer_as_strided_backward(
    grad: Meta,
    *,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    storage_offset: int,
    transposed: bool,
) -> Meta:
    return meta(grad.dtype, shape, None, grad.device)


as_strided_backward = structured(
    "as_strided_backward",
    _infer_as_strided_backward,
    doc="The operand, laid out by size, stride and storage_offset, added up by memory place and read by shape, "
    "strides and offset. "
    "Elements that share a place of the tensor (the operand's, when transposed) share the sum.",
    samples=lambda: [Sample((_MATRIX[:2, :2],), ((3, 4), (4, 1), 0, (2, 2), (1, 1), 2, False))],
)


def _memory_places(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> np.ndarray:
    places = np.full(shape, offset, np.int64)
    for d, (size, stride) in enumerate(zip(shape, strides)):
        places += (np.arange(size) * stride).reshape((-1,) + (1,) * (len(shape) - d - 1))
    return places


@kernel(as_strided_backward, "cpu")
def _as_strided_backward(
    grad: np.ndarray,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    storage_offset: int,
    transposed: bool,
) -> np.ndarray:
    have, want = _memory_places(size, stride, storage_offset), _memory_places(shape, strides, offset)
    length = 1 + int(max(have.max(initial=0), want.max(initial=0)))
    memory = np.zeros(length, grad.dtype)
    np.add.at(memory, have.reshape(-1), grad.reshape(-1))
    sharing = np.bincount((have if transposed else want).reshape(-1), minlength=length)
    if sharing.max(initial=0) > 1:
        memory = (memory / np.maximum(sharing, 1)).astype(grad.dtype)
    return memory[want]


# A copy with one of its views overwritten


def _overwritten(name: str, input: Tensor, part_of: Callable[[Tensor], Tensor], src: Tensor) -> Tensor:
    changed = input.clone(memory_format=contiguous_format)
    part = part_of(changed)
    if part.shape != src.shape:
        raise RuntimeError(
            f"{name}: expected src to have a size equal to the part of input that it replaces, "
            f"{shape_text(part.shape)}, "
            f"got {shape_text(src.shape)}"
        )
    copy_op.apply((part, src), (False,))
    return changed


@function()
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of `input` with its diagonal replaced by `src`.

    Raises RuntimeError when src has not the diagonal's shape.
    """
    return _overwritten("diagonal_scatter", input, lambda x: diagonal(x, offset, dim1, dim2), src)


@function()
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with the part at `index` of `dim` replaced by `src`.

    Raises RuntimeError when the shapes differ.
    """
    return _overwritten("select_scatter", input, lambda x: select(x, dim, index), src)


@function()
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of `input` with `start:end:step` of `dim` replaced by `src`.

    Raises RuntimeError when the shapes differ.
    """
    at = check_dim("slice_scatter", dim, input.ndim)
    bounds = slice(start, end, step).indices(input.shape[at])
    return _overwritten("slice_scatter", input, lambda x: sliced(x, at, *bounds), src)


def _check_as_strided_scatter(
    input: Meta, src: Meta, *, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int
) -> None:
    part = _infer_as_strided(input, size=size, stride=stride, storage_offset=storage_offset, own_offset=0)
    if part.shape != src.shape:
        raise RuntimeError(
            f"as_strided_scatter: expected src to have a size equal to the slice of self, {shape_text(size)}, got "
            f"{shape_text(src.shape)}"
        )


def _as_strided_scatter(
    array: np.ndarray, src: np.ndarray, size: tuple[int, ...], stride: tuple[int, ...], storage_offset: int
) -> None:
    np.copyto(_as_strided_view(array, size, stride, storage_offset), src, casting="unsafe")


as_strided_scatter_op = updating(
    "as_strided_scatter",
    _check_as_strided_scatter,
    _as_strided_scatter,
    doc="The elements replaced that `as_strided` gives of the tensor in row-major order.",
    samples=lambda: [Sample((_MATRIX, -_MATRIX[:2, :2]), ((2, 2), (5, 1), 1))],
)


@function()
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A copy of `input` with the elements that `as_strided` gives of it replaced by `src`.

    Raises RuntimeError when the shapes differ or an element would lie outside the memory.
    """
    params = (sizes("as_strided_scatter", (size,)), sizes("as_strided_scatter", (stride,)), int(storage_offset or 0))
    return as_strided_scatter_op.apply((input, src), params)
