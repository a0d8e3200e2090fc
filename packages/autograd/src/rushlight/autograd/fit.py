"""Bringing a gradient to the shape and dtype of the operand that it is for."""

from __future__ import annotations

from rushlight.autograd.memory import zeros_for
from rushlight.core.errors import shape_text
from rushlight.core.layout import preserve_format
from rushlight.core.meta import Meta
from rushlight.core.tensor import Tensor
from rushlight.ops import prims


def fit(name: str, index: int, grad: Tensor | None, want: Meta) -> Tensor:
    """A gradient in the form of its operand: summed over what broadcasting repeated, in the operand's dtype and device.

    None stands for zeros. Raises RuntimeError when the shapes do not allow it, TypeError when `grad` is not a tensor.
    """
    if grad is None:
        return zeros_for(want)
    if not isinstance(grad, Tensor) and not hasattr(grad, "_meta"):
        raise RuntimeError(f"{name}: expected a Tensor or None as gradient {index}, got {type(grad).__name__}")
    m = grad._meta
    if m.dtype is not want.dtype or m.device is not want.device:
        if not m.dtype.is_inexact:
            raise RuntimeError(
                f"Function {name} returned an invalid gradient at index {index} - expected a floating-point or "
                f"complex dtype, got {m.dtype.name}"
            )
        if m.dtype.is_complex and not want.dtype.is_complex:
            grad = grad.real
        if grad._meta.dtype is not want.dtype or m.device is not want.device:
            grad = prims.convert.apply((grad,), (want.dtype, want.device, preserve_format))
    return grad if m.shape == want.shape else sum_to(name, index, grad, want.shape)


def sum_to(name: str, index: int, grad: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sum over the dimensions that broadcasting from `shape` added or repeated."""
    have = grad._meta.shape
    lead = len(have) - len(shape)
    if lead < 0 or any(a not in (1, b) for a, b in zip(shape, have[lead:])):
        raise RuntimeError(
            f"Function {name} returned an invalid gradient at index {index} - got {shape_text(have)} but expected "
            f"shape compatible with {shape_text(shape)}"
        )
    dims = tuple([d for d, size in enumerate(have) if d < lead or (shape[d - lead] == 1 and size != 1)])
    if dims:
        grad = prims.sum.apply((grad,), (dims, lead == 0, grad._meta.dtype))
    return grad if lead == 0 else grad.reshape(shape)
