"""Copies and conversions: clone, copy_, contiguous, to, detach."""

from __future__ import annotations

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import check_writable, structured, view
from rushlight.core.errors import shape_text
from rushlight.core.front import extend_tensor, function
from rushlight.core.meta import Meta, dense_order, meta, strides_in_order
from rushlight.core.op import Sample, kernel
from rushlight.core.tensor import Tensor

_MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def _infer_convert(input: Meta, *, dtype: dtypes.dtype, device, layout: str) -> Meta:
    if layout == "preserve" and not input.contiguous:
        order = dense_order((input,), input.shape)
        strides = order and strides_in_order(input.shape, order)
    else:
        strides = None
    return meta(dtype, input.shape, strides, device)


convert = structured(
    "convert", _infer_convert, doc="A copy in another dtype, device or layout (`contiguous` or `preserve`).",
    samples=lambda: [Sample((_MATRIX,), (dtypes.float64, dtypes_cpu(), "contiguous"))],
    reference=lambda x, dtype, device, layout: x.astype(dtype.numpy))


def dtypes_cpu():
    """The CPU device (samples are made before anybody has a tensor)."""
    from rushlight.core.devices import cpu

    return cpu


@kernel(convert, "cpu")
def _convert(x: np.ndarray, dtype, device, layout: str) -> np.ndarray:
    return x.astype(dtype.numpy, order="C" if layout == "contiguous" else "K", copy=True)


def _infer_copy(input: Meta, src: Meta, *, non_blocking: bool) -> Meta:
    check_writable("copy_", input)
    if src.ndim > input.ndim or any(a not in (1, b) for a, b in zip(reversed(src.shape), reversed(input.shape))):
        raise RuntimeError(f"copy_: src of shape {shape_text(src.shape)} does not broadcast to the tensor's shape "
                           f"{shape_text(input.shape)}")
    return input.with_grad(False)


copy_op = structured("copy_", _infer_copy, mutates=(0,), doc="Overwrite a tensor with the broadcast values of another, converting the dtype.",
                     samples=lambda: [Sample((_MATRIX.copy(), _MATRIX[:1] + 1), (False,))],
                     reference=lambda x, src, non_blocking: np.broadcast_to(src, x.shape).astype(x.dtype))


@kernel(copy_op, "cpu")
def _copy(target: np.ndarray, src: np.ndarray, non_blocking: bool) -> None:
    np.copyto(target, src, casting="unsafe")


@function(out=False, public=False)
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Overwrite this tensor with the values of `src`, which broadcasts and converts to fit.

    Raises RuntimeError when the shape does not fit.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(2).copy_(rushlight.tensor([1, 2]))
        tensor([1., 2.])
    """
    return copy_op.apply((self, src), (bool(non_blocking),))


detach_op = view("detach", lambda input: input.with_grad(False), lambda array: array,
                 doc="The same memory without gradient history.", samples=lambda: [Sample((_MATRIX,))],
                 reference=lambda x: x)


@function(out=False)
def detach(input: Tensor) -> Tensor:
    """A tensor over the same memory that does not require grad and has no history.

    Example:
        >>> import rushlight
        >>> rushlight.ones(2).requires_grad_().detach().requires_grad
        False
    """
    return detach_op.apply((input,))
