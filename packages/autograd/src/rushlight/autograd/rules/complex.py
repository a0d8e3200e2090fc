"""Gradients of complex parts, angle, and conversions."""

from rushlight.autograd.rules.batched import lead, same
from rushlight.autograd.rules.registry import batch, conj, vjp
from rushlight.autograd.rules.rounding import zeros
from rushlight.ops import prims
from rushlight.ops.magnitude import sgn
from rushlight.ops.selection import where_op


def _angle(g, input):
    """`1j * z / abs(z)**2`, in steps that keep tiny numbers from underflowing; 0 at 0."""
    if not input._meta.dtype.is_complex:
        return zeros(g)
    size = input.abs()
    zero = size == 0
    return where_op(zero, 0, g * (sgn(input) * 1j / where_op(zero, 1, size)))


vjp(prims.real, input=lambda g, input_meta: g.to(input_meta.dtype))
vjp(prims.imag, input=lambda g, input_meta: g.to(input_meta.dtype) * 1j)
vjp(prims.conj, linear="input", input=lambda g: conj(g))
vjp(prims.angle, input=_angle)
vjp(prims.complex, linear="real imag", real=lambda g: g.real, imag=lambda g: g.imag)
vjp(prims.view_as_real, input=lambda g: prims.view_as_complex(g.contiguous()))
vjp(prims.view_as_complex, input=lambda g: prims.view_as_real(g))

batch(prims.complex, lead)
for _op in (prims.real, prims.imag, prims.view_as_real, prims.view_as_complex):
    batch(_op, same)
