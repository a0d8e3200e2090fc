"""Complex numbers: parts, conjugate, angle, and conversion from and to pairs of reals."""

from __future__ import annotations

import numpy as np

from rushlight.core import dtypes
from rushlight.core import scalar as s
from rushlight.core.declare import broadcast_shapes_of, elementwise, structured, view
from rushlight.core.errors import shape_text
from rushlight.core.front import check_tensors, export, extend_tensor, function
from rushlight.core.layout import is_dense
from rushlight.core.meta import Meta, meta
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.out import EXACT
from rushlight.core.storage import check_offset
from rushlight.core.tensor import Tensor
from rushlight.ops.trigonometric import cos, sin
from rushlight.ops.view import expand_op

_Z = np.array([[1 + 2j, -3j], [0.5 + 0j, -1 - 1j]], np.complex64)


# Parts


def _infer_part(input: Meta) -> Meta:
    if not input.dtype.is_complex:
        raise RuntimeError(f"imag: is not implemented for tensors with non-complex dtypes, got {input.dtype.name}")
    return meta(input.dtype.to_real(), input.shape, tuple([2 * stride for stride in input.strides]), input.device)


real_op = view(
    "real",
    _infer_part,
    lambda array: array.real,
    doc="The real parts, in the same memory.",
    samples=lambda: [Sample((_Z,))],
    reference=np.real,
)
imag_op = view(
    "imag",
    _infer_part,
    lambda array: array.imag,
    doc="The imaginary parts, in the same memory.",
    samples=lambda: [Sample((_Z,))],
    reference=np.imag,
    errors=lambda: [ErrorSample((_Z.real.copy(),), (), RuntimeError, "non-complex")],
)


@function(method=False, out=False)
def real(input: Tensor) -> Tensor:
    """The real parts, sharing memory; a real tensor itself.

    Example:
        >>> import rushlight
        >>> rushlight.real(rushlight.tensor([1 + 2j]))
        tensor([1.])
    """
    return real_op(input) if input.dtype.is_complex else input


@function(method=False, out=False)
def imag(input: Tensor) -> Tensor:
    """The imaginary parts, sharing memory. Raises RuntimeError for a real tensor, which has none."""
    return imag_op(input)


extend_tensor("real", property(real, lambda self, value: real(self).copy_(value), doc=real.__doc__))
extend_tensor("imag", property(imag, lambda self, value: imag(self).copy_(value), doc=imag.__doc__))


# Conjugate and angle


@elementwise(numpy=np.conjugate, name="conj", method=False, public=False)
def conj_op(input):
    """Complex conjugate of each element."""
    return s.conj(input)


@function(out=False)
def conj(input: Tensor) -> Tensor:
    """Complex conjugate of each element; a real tensor itself.

    Example:
        >>> import rushlight
        >>> rushlight.conj(rushlight.tensor([1 + 2j]))
        tensor([1.-2.j])
    """
    return conj_op(input) if input.dtype.is_complex else input


@function(inplace=True)
def conj_physical(input: Tensor) -> Tensor:
    """Complex conjugate of each element; a real tensor itself. Conjugates are always computed at once here."""
    return conj(input)


export("conj_physical_", Tensor.conj_physical_)


def _itself(name: str, doc: str) -> None:
    def same(input: Tensor) -> Tensor:
        return input

    same.__doc__ = doc
    function(name=name, out=False)(same)


_itself("resolve_conj", "The tensor itself: conjugates are always computed at once.")
_itself("resolve_neg", "The tensor itself: negatives are always computed at once.")


@function(out=False)
def is_conj(input: Tensor) -> bool:
    """Does the tensor wait for its conjugation? Never: conjugates are computed at once."""
    return False


@function(out=False)
def is_neg(input: Tensor) -> bool:
    """Does the tensor wait for its negation? Never: negatives are computed at once."""
    return False


@elementwise(name="angle", promote="real", method=False, public=False)
def angle_op(input):
    """The argument of each element."""
    return s.angle(input)


@function()
def angle(input: Tensor) -> Tensor:
    """The argument of each element in radians, in (-pi, pi]; of a real number 0 or pi, and NaN of NaN.

    Example:
        >>> import rushlight
        >>> rushlight.angle(rushlight.tensor([1j, -1]))
        tensor([1.5708, 3.1416])
    """
    return angle_op(input if input.dtype.is_inexact else input.to(dtypes.get_default_dtype()))


# Pairs of reals


def _infer_complex(real: Meta, imag: Meta) -> Meta:
    if real.dtype is not imag.dtype or not real.dtype.is_floating_point or real.dtype is dtypes.bfloat16:
        raise RuntimeError(
            f"complex: Expected both inputs to be Half, Float or Double tensors of one dtype, got {real.dtype.name} "
            f"and {imag.dtype.name}"
        )
    shape = broadcast_shapes_of("complex", (real, imag))
    strides = real.strides if real.strides == imag.strides and is_dense(real) else None
    return meta(real.dtype.to_complex(), shape, strides, real.device)


complex_op = structured(
    "complex",
    _infer_complex,
    doc="Complex numbers from real and imaginary parts.",
    samples=lambda: [Sample((_Z.real.copy(), _Z.imag.copy()))],
    reference=lambda re, im: re + 1j * im,
)


@kernel(complex_op, "cpu")
def _complex(re: np.ndarray, im: np.ndarray) -> np.ndarray:
    kind = np.complex128 if re.dtype == np.float64 else np.complex64
    if (re.shape, re.strides) == (im.shape, im.strides) and 0 not in re.strides:  # the layout of the parts
        result = np.empty_like(re, kind)
    else:
        result = np.empty(np.broadcast_shapes(re.shape, im.shape), kind)
    result.real, result.imag = re, im
    return result


@function(method=False, out=EXACT)
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """Complex numbers from their parts: `real + 1j * imag`.

    Shapes: the two broadcast. Raises RuntimeError unless both are floating-point tensors of one dtype.

    Example:
        >>> import rushlight
        >>> rushlight.complex(rushlight.tensor([1.0]), rushlight.tensor([2.0]))
        tensor([1.+2.j])
    """
    check_tensors(complex_op, (real, imag), ("real", "imag"))
    if real.shape != imag.shape:
        shape = (broadcast_shapes_of("complex", (real._meta, imag._meta)),)
        real, imag = expand_op.apply((real,), shape), expand_op.apply((imag,), shape)
    return complex_op(real, imag)


@function(method=False, out=EXACT, autocast="wide")
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """Complex numbers from magnitude and angle: `abs * cos(angle) + 1j * abs * sin(angle)`.

    Raises RuntimeError unless both are floating-point tensors of one dtype.
    """
    check_tensors(complex_op, (abs, angle), ("real", "imag"))
    if abs.dtype is not angle.dtype:
        raise RuntimeError(
            f"polar: expected object of scalar type {abs.dtype.name} but got scalar type {angle.dtype.name} "
            "for second argument"
        )
    return complex(abs * cos(angle), abs * sin(angle))


def _infer_as_real(input: Meta) -> Meta:
    if not input.dtype.is_complex:
        raise RuntimeError(f"view_as_real: is only supported for complex tensors, got {input.dtype.name}")
    return meta(input.dtype.to_real(), (*input.shape, 2), (*[2 * stride for stride in input.strides], 1), input.device)


def _as_real(array: np.ndarray) -> np.ndarray:
    part = array.real
    return np.lib.stride_tricks.as_strided(part, (*part.shape, 2), (*part.strides, part.itemsize))


as_real_op = view(
    "view_as_real",
    _infer_as_real,
    _as_real,
    doc="The parts along a new last dimension, in the same memory.",
    samples=lambda: [Sample((_Z,))],
    reference=lambda z: np.stack((z.real, z.imag), -1),
    errors=lambda: [ErrorSample((_Z.real.copy(),), (), RuntimeError, "complex")],
)


@function(out=False, method=False)
def view_as_real(input: Tensor) -> Tensor:
    """The parts of complex numbers along a new last dimension, sharing memory.

    Shapes: `(*a)` -> `(*a, 2)`. Raises RuntimeError for a real tensor.
    """
    return as_real_op(input)


def _infer_as_complex(input: Meta) -> Meta:
    if not input.dtype.is_floating_point or input.dtype is dtypes.bfloat16 or input.dtype is dtypes.float16:
        raise RuntimeError(f"view_as_complex: is only supported for float and double tensors, got {input.dtype.name}")
    if input.ndim == 0 or input.shape[-1] != 2:
        raise RuntimeError(
            f"view_as_complex: Tensor must have a last dimension of size 2, got shape {shape_text(input.shape)}"
        )
    if input.strides[-1] != 1 or any(stride % 2 for stride in input.strides[:-1]):
        raise RuntimeError(
            f"view_as_complex: Tensor must have a last dimension with stride 1 and even strides elsewhere, got "
            f"{input.strides}; use .contiguous() first"
        )
    return meta(
        input.dtype.to_complex(), input.shape[:-1], tuple([stride // 2 for stride in input.strides[:-1]]), input.device
    )


def _as_complex(array: np.ndarray) -> np.ndarray:
    check_offset("view_as_complex", array, 2 * array.itemsize)
    return array.view(np.complex64 if array.itemsize == 4 else np.complex128)[..., 0]


as_complex_op = view(
    "view_as_complex",
    _infer_as_complex,
    _as_complex,
    doc="Pairs along the last dimension as complex numbers, in the same memory.",
    samples=lambda: [Sample((np.arange(6, dtype=np.float32).reshape(3, 2),))],
    reference=lambda x: x[..., 0] + 1j * x[..., 1],
    errors=lambda: [ErrorSample((np.zeros((2, 3), np.float32),), (), RuntimeError, "size 2")],
    anywhere=True,
)


@function(out=False, method=False, autocast="wide")
def view_as_complex(input: Tensor) -> Tensor:
    """Pairs along the last dimension as complex numbers, sharing memory.

    Shapes: `(*a, 2)` -> `(*a)`. Raises RuntimeError for another last size, or strides that do not pair.
    """
    return as_complex_op(input)
