"""Functions that give a tensor another shape: view, flatten, squeeze, unsqueeze and their like."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.core import declare, dtypes
from rushlight.core.dispatch import settle
from rushlight.core.dtypes import dtype, named
from rushlight.core.errors import check_dim, check_dims, shape_text
from rushlight.core.front import export, extend_tensor, function
from rushlight.core.meta import Meta, is_int, meta
from rushlight.core.op import ErrorSample, Sample
from rushlight.core.storage import check_offset
from rushlight.core.tensor import Tensor, wrap
from rushlight.ops.create import as_dtype, sizes
from rushlight.ops.strided import as_strided
from rushlight.ops.transpose import transpose
from rushlight.ops.view import complete_shape, reshaped, view_op

_MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


# Memory read as another dtype


def _infer_view_dtype(input: Meta, *, dtype: dtype) -> Meta:
    have, want = input.dtype.itemsize, dtype.itemsize
    if have == want:
        return meta(dtype, input.shape, input.strides, input.device)
    if input.ndim == 0:
        raise RuntimeError("view: a 0-dimensional tensor cannot be read as a dtype of another size; unsqueeze it first")
    if input.strides[-1] != 1:
        raise RuntimeError(
            f"view: the last stride must be 1 to read {input.dtype.name} as {dtype.name} (sizes {have} and {want} "
            "bytes), "
            f"got strides {input.strides}; use .contiguous() first"
        )
    if have > want:
        factor = have // want
        return meta(
            dtype,
            (*input.shape[:-1], input.shape[-1] * factor),
            (*[s * factor for s in input.strides[:-1]], 1),
            input.device,
        )
    factor = want // have
    if input.shape[-1] % factor or any(s % factor for s in input.strides[:-1]):
        raise RuntimeError(
            f"view: the last size and the other strides must be divisible by {factor} to read {input.dtype.name} as "
            f"{dtype.name}, got shape {shape_text(input.shape)} and strides {input.strides}"
        )
    return meta(
        dtype,
        (*input.shape[:-1], input.shape[-1] // factor),
        (*[s // factor for s in input.strides[:-1]], 1),
        input.device,
    )


def _view_dtype(array: np.ndarray, dtype: dtype) -> np.ndarray:
    check_offset("view", array, dtype.itemsize)
    if dtype.itemsize != array.itemsize and array.strides[-1] != array.itemsize:  # in a dimension of size 1 it may be
        array = np.lib.stride_tricks.as_strided(array, array.shape, (*array.strides[:-1], array.itemsize))
    return array.view(dtype.numpy)


view_dtype_op = declare.view(
    "view_dtype",
    _infer_view_dtype,
    _view_dtype,
    doc="The same bytes read as another dtype.",
    samples=lambda: [
        Sample((_MATRIX,), (named("int32"),)),
        Sample((_MATRIX.T,), (named("int32"),)),
        Sample((_MATRIX,), (named("int16"),)),
    ],
    reference=lambda x, dtype: x.view(dtype.numpy),
    errors=lambda: [ErrorSample((_MATRIX.T,), (named("float64"),), RuntimeError, "last stride must be 1")],
    anywhere=True,
)


# Functions


@function(out=False, public=False, memo=True)
def view(input: Tensor, *args: Any, size: Sequence[int] | None = None, dtype: dtype | None = None) -> Tensor:
    """The same memory in another shape (one size may be -1), or its bytes read as another dtype.

    Raises RuntimeError when the number of elements does not fit, or when the strides would need a copy (then use
    `reshape`).

    Example:
        >>> import rushlight
        >>> rushlight.arange(4).view(2, 2)
        tensor([[0, 1],
                [2, 3]])
    """
    if dtype is None and len(args) == 1 and isinstance(args[0], (dtypes.dtype, type)):
        dtype = args[0]
    if dtype is not None:
        return view_dtype_op.apply((input,), (as_dtype("view", dtype),))
    wanted = sizes("view", args if size is None else (size,))
    return view_op.apply((input,), (complete_shape("view", wanted, input._meta.numel),))


@function(out=False, public=False)
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """The same memory in the shape of `other`; RuntimeError when the numbers of elements differ."""
    return view(input, other.shape)


@function(out=False, memo=True)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The dimensions `start_dim` to `end_dim` (inclusive) run together into one.

    Raises IndexError for a dimension out of range, RuntimeError when start_dim comes after end_dim.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(2, 3, 5).flatten(1).shape
        rushlight.Size([2, 15])
    """
    shape = input._meta.shape
    start, end = (
        check_dim("flatten", start_dim, len(shape), "start_dim"),
        check_dim("flatten", end_dim, len(shape), "end_dim"),
    )
    if start > end:
        raise RuntimeError(f"flatten: start_dim must not come after end_dim, got {start_dim} and {end_dim}")
    if not shape:
        return reshaped(input, (1,))
    if start == end:
        return input
    return reshaped(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@function(out=False)
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension, in row-major order: a view where possible."""
    return view_op.apply((input.contiguous(),), ((input._meta.numel,),))


@function(out=False, memo=True)
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """The dimension `dim` split into several of the given sizes, one of which may be -1.

    Raises RuntimeError when the sizes do not multiply to the size of `dim`.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(6, 2).unflatten(0, (2, -1)).shape
        rushlight.Size([2, 3, 2])
    """
    shape = input._meta.shape
    at = check_dim("unflatten", dim, len(shape))
    if not shape:
        raise IndexError("unflatten: Dimension specified as 0 but tensor has no dimensions")
    if len(sizes) == 0:
        raise RuntimeError("unflatten: sizes must not be empty")
    try:
        parts = complete_shape("unflatten", tuple([s if is_int(s) else int(s) for s in sizes]), shape[at])
    except RuntimeError as error:
        raise RuntimeError(
            f"unflatten: sizes {list(sizes)} don't multiply up to the size of dim {at} ({shape[at]}): {error}"
        ) from None
    return reshaped_view(input, (*shape[:at], *parts, *shape[at + 1 :]))


def reshaped_view(input: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The memory in a shape that is known to need no copy."""
    return view_op.apply((input,), (shape,))


@function(out=False, memo=True)
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """The tensor with a new dimension of size 1 at place `dim`. Raises IndexError when `dim` is out of range.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(3).unsqueeze(0).shape
        rushlight.Size([1, 3])
    """
    shape = input._meta.shape
    at = check_dim("unsqueeze", dim, len(shape) + 1)
    return view_op.apply((input,), ((*shape[:at], 1, *shape[at:]),))


@function(out=False, memo=True)
def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """The tensor without its dimensions of size 1, or without those among `dim`. Raises IndexError when one is out of
    range.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(1, 3, 1).squeeze(-1).shape
        rushlight.Size([1, 3])
    """
    shape = input._meta.shape
    dims = (
        range(len(shape)) if dim is None else () if dim == () or dim == [] else check_dims("squeeze", dim, len(shape))
    )
    return view_op.apply((input,), (tuple([size for d, size in enumerate(shape) if size != 1 or d not in dims]),))


# In-place forms: the tensor itself takes the other shape


def become(name: str, self: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """Make a tensor be what `change` gives for it: other shape and strides, the same memory, its history extended."""
    if self.requires_grad and self.is_leaf:
        raise RuntimeError(
            f"{name}: a leaf Variable that requires grad is being used in an in-place operation; use {name[:-1]}()"
        )
    settle()
    before = wrap(self._array, self._meta, self.storage())
    before._auto = self._auto
    after = change(before)
    self._array, self._meta, self._auto = after._array, after._meta, after._auto
    return self


def _in_place(name: str, fn: Callable) -> None:
    def call(self, *args, **kwargs):
        return become(name, self, lambda before: fn(before, *args, **kwargs))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"In-place form of `{name[:-1]}`: the tensor itself takes the other shape."
    extend_tensor(name, call)


_in_place("unsqueeze_", unsqueeze)
_in_place("squeeze_", squeeze)
for _name in ("transpose_", "swapaxes_", "swapdims_"):
    _in_place(_name, transpose)
_in_place("t_", Tensor.t)
_in_place("as_strided_", as_strided)
export("as_strided_", Tensor.as_strided_)
