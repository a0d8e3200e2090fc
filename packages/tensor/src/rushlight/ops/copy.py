"""Copies: clone, contiguous, copy_, fill_, detach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import dtypes, native
from rushlight.core.declare import check_writable, structured, updating, view
from rushlight.core.devices import cpu
from rushlight.core.errors import shape_text
from rushlight.core.front import extend_tensor, function
from rushlight.core.layout import (
    contiguous_format,
    has_format,
    may_overlap,
    memory_format,
    preserve_format,
    strides_for,
    suggested_format,
)
from rushlight.core.meta import Meta, meta
from rushlight.core.op import INPLACE, ErrorSample, Sample, kernel, planner
from rushlight.core.overlap import check_apart
from rushlight.core.quiet import quiet
from rushlight.core.results import empty_array
from rushlight.core.tensor import Tensor, wrap
from rushlight.core.writable import refuse
from rushlight.kernels.cpu.copy import LARGE, assign, conversion
from rushlight.ops.allocation import number_array

_MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def _infer_convert(input: Meta, *, dtype: dtypes.dtype, device: Any, layout: memory_format) -> Meta:
    return meta(dtype, input.shape, strides_for("to", input, layout), device)


convert = structured(
    "convert",
    _infer_convert,
    doc="A copy in another dtype, on another device, or in another memory format.",
    samples=lambda: [
        Sample((_MATRIX,), (dtypes.float64, cpu, contiguous_format)),
        Sample((_MATRIX.T,), (dtypes.float32, cpu, preserve_format)),
    ],
    reference=lambda x, dtype, device, layout: x.astype(dtype.numpy),
)


@kernel(convert, "cpu")
def _convert(x: np.ndarray, dtype: dtypes.dtype, device: Any, layout: memory_format) -> np.ndarray:
    if x.size < LARGE:
        return _convert_small(x, dtype, layout)
    m = meta(dtype, x.shape, tuple([stride // x.itemsize for stride in x.strides]))
    result = empty_array(m.replace(strides=strides_for("to", m, layout)))
    assign(result, x)
    return result


@planner(convert)
def _plan_convert(metas: tuple[Meta], params: tuple, out: Meta) -> Callable | None:
    """Few elements that become half numbers, or were, in a loop: numpy takes 40 us for 1e4 of float16, it 2."""
    m, types = metas[0], {metas[0].dtype, out.dtype}
    if len(types) == 1 or not types & set(dtypes.HALF) or not 0 < m.numel < LARGE or not native.installed():
        return None
    kernel = conversion(m.numpy, out.numpy)
    if kernel is None or not m.ndim:
        return None
    loop = kernel.bind(out.shape, [out.strides, m.strides])

    def run(x: Tensor) -> Tensor:
        result = empty_array(out)
        loop(result, x._array)
        return wrap(result, out)

    return run


def _convert_small(x: np.ndarray, dtype: dtypes.dtype, layout: memory_format) -> np.ndarray:
    if x.dtype.kind == "c" and not dtype.is_complex:
        x = x != 0 if dtype is dtypes.bool else x.real
    if layout is contiguous_format or layout is preserve_format and x.flags.c_contiguous:
        return x.astype(dtype.numpy, order="C")
    if layout is preserve_format and 0 not in x.strides:
        return x.astype(dtype.numpy, order="K")
    m = meta(dtype, x.shape, tuple([stride // x.itemsize for stride in x.strides]))
    strides = strides_for("to", m, layout)
    order = sorted(range(x.ndim), key=lambda d: (-strides[d], x.shape[d] == 1))
    result = np.empty([x.shape[d] for d in order], dtype.numpy).transpose(np.argsort(order))
    np.copyto(result, x, casting="unsafe")
    return result


@function(memo=True)
def clone(input: Tensor, *, memory_format: memory_format = preserve_format) -> Tensor:
    """A copy of a tensor; gradients flow through it.

    Example:
        >>> import rushlight
        >>> x = rushlight.ones(2)
        >>> y = x.clone()
        >>> y[0] = 5
        >>> x
        tensor([1., 1.])
    """
    m = input._meta
    return convert.apply((input,), (m.dtype, m.device, memory_format))


@function(out=False, public=False)
def contiguous(input: Tensor, memory_format: memory_format = contiguous_format) -> Tensor:
    """The tensor itself if its memory is in the format (row-major by default), else a copy that is.

    Raises RuntimeError for a format that needs another number of dimensions.
    """
    m = input._meta
    if m.contiguous if memory_format is contiguous_format else has_format(m, memory_format):
        return input
    if memory_format is preserve_format:
        raise RuntimeError("contiguous: preserve_format is not a format to bring memory into; use contiguous_format")
    return convert.apply((input,), (m.dtype, m.device, memory_format))


def kept_format(input: Tensor, result: Tensor) -> Tensor:
    """A result of a layer in the memory format that the input has."""
    wanted = suggested_format(input._meta)
    return result if wanted is contiguous_format else contiguous(result, wanted)


def _is_contiguous(self: Tensor, memory_format: memory_format = contiguous_format) -> bool:
    """Is the memory in the format (row-major by default)?"""
    return has_format(self._meta, memory_format)


extend_tensor("is_contiguous", _is_contiguous)


def _infer_copy(input: Meta, src: Meta, *, non_blocking: bool) -> Meta:
    check_writable("copy_", input)
    lead = input.ndim - src.ndim
    if lead < 0 or any(a not in (1, b) for a, b in zip(src.shape, input.shape[lead:])):
        raise RuntimeError(
            f"copy_: src of shape {shape_text(src.shape)} does not broadcast to the tensor's shape "
            f"{shape_text(input.shape)}"
        )
    return input.with_grad(False)


copy_op = structured(
    "copy_",
    _infer_copy,
    mutates=(0,),
    doc="Overwrite a tensor with the broadcast values of another, converting the dtype.",
    samples=lambda: [Sample((_MATRIX.copy(), _MATRIX[:1] + 1), (False,))],
    reference=lambda x, src, non_blocking: np.broadcast_to(src, x.shape).astype(x.dtype),
)


@kernel(copy_op, "cpu")
def _copy(target: np.ndarray, src: np.ndarray, non_blocking: bool) -> None:
    check_apart("copy_", target, (src,), itself=True)
    assign(target, src)


@planner(copy_op)
def _plan_copy(metas: tuple[Meta, Meta], params: tuple, out: Meta) -> Callable | None:
    """Few elements of the same dtype are numpy's to copy; only operands of one storage may overlap."""
    target, src = metas
    if src.weak or src.dtype is not target.dtype or src.device.type != "cpu" or target.numel >= LARGE:
        return None

    def run(target: Tensor, src: Tensor) -> Tensor:
        array, storage = target._array, target.storage()
        if not array.flags.writeable:
            refuse(copy_op)
        if src._storage is storage:
            check_apart("copy_", array, (src._array,), itself=True)
        array[...] = src._array
        storage.version += 1
        return target

    return run


@function(out=False, public=False)
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Overwrite this tensor with the values of `src`, which broadcasts and converts to fit.

    Raises RuntimeError when the shape does not fit.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(2).copy_(rushlight.tensor([1, 2]))
        tensor([1., 2.])
    """
    if not hasattr(src, "_meta"):
        raise TypeError(f"copy_: src must be a Tensor, got {type(src).__name__}; use fill_() for a number")
    return copy_op.apply((self, src), (bool(non_blocking),))


# Filling


def check_number(name: str, value: Meta, dtype: dtypes.dtype) -> None:
    """Refuse to store a complex number in a real tensor."""
    if value.dtype.is_complex and not dtype.is_complex:
        raise RuntimeError(f"{name}: value cannot be converted to type {dtype.name} without overflow: it is complex")


def _check_fill(input: Meta, value: Meta) -> None:
    if value.ndim:
        raise RuntimeError(
            f"fill: value must be a number or a 0-dimensional tensor, got shape {shape_text(value.shape)}"
        )
    check_number("fill", value, input.dtype)


def _fill(array: np.ndarray, value: Any) -> None:
    if array.size >= LARGE:
        assign(array, np.asarray(number_array(value, array.dtype)))
        return
    # Every dtype holds these, so numpy may convert them by itself.
    small = value.__class__ in (float, int) and 0 <= value <= 127
    array[...] = value if small else number_array(value, array.dtype)


fill_op = updating(
    "fill",
    _check_fill,
    _fill,
    overlapping=True,
    doc="Every element replaced by one value.",
    samples=lambda: [Sample((_MATRIX, 2.5)), Sample((_MATRIX, np.array(3, np.float32)))],
    reference=lambda x, value: np.full_like(x, value),
    errors=lambda: [ErrorSample((_MATRIX, _MATRIX), (), RuntimeError, "0-dimensional")],
)


_FEW = 256  # elements that are written one by one


@planner(INPLACE[fill_op])
def _plan_fill(metas: tuple[Meta, Meta], params: tuple, out: Meta) -> Callable | None:
    """Few elements get a number without the questions that only a tensor as the value raises."""
    target, value = metas
    if not value.weak or target.numel >= LARGE:
        return None

    def run(target: Tensor, value: Any) -> Tensor:
        array = target._array
        if not array.flags.writeable:
            refuse(INPLACE[fill_op])
        if value.__class__ in (float, int) and 0 <= value <= 127:
            array.fill(value)
        else:
            quiet(_fill, array, value)
        target.storage().version += 1
        return target

    if not native.installed() or target.numel > _FEW or may_overlap(target):
        return run
    return native.form("give", run, metas, out, target.shape, target.strides, {}, 1, (0,) * target.ndim, in_place=True)


@function()
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like `input` in which every element is `value`, a number or a 0-dim tensor;
    RuntimeError for other shapes.
    """
    return fill_op.apply((input, value))


@function(out=False, memo=True)
def fill_(input: Tensor, value: Any) -> Tensor:
    """Overwrite every element with `value`, a number or a 0-dim tensor; RuntimeError for other shapes.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(2).fill_(7)
        tensor([7., 7.])
    """
    return INPLACE[fill_op].apply((input, value))


@function(out=False, memo=True)
def zero_(input: Tensor) -> Tensor:
    """Overwrite every element with zero."""
    return INPLACE[fill_op].apply((input, 0))


# Detaching


detach_op = view(
    "detach",
    lambda input: input.with_grad(False),
    lambda array: array,
    doc="The same memory without gradient history.",
    samples=lambda: [Sample((_MATRIX,))],
    reference=lambda x: x,
)


@function(out=False)
def detach(input: Tensor) -> Tensor:
    """A tensor over the same memory that does not require grad and has no history.

    Example:
        >>> import rushlight
        >>> rushlight.ones(2).requires_grad_().detach().requires_grad
        False
    """
    return detach_op.apply((input,))


@function(out=False, public=False)
def module_load(input: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What takes the place of this parameter or buffer when a module loads `other` for it: this tensor with the values
    of `other`, or `other` itself with `assign`; without history. Raises as `copy_` does.
    """
    return other.detach() if assign else copy_(input, other).detach()
