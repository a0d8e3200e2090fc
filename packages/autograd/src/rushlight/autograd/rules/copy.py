"""Gradients of copies and conversions."""

from rushlight.autograd.memory import zeros_for
from rushlight.autograd.rules.registry import jvp, nondifferentiable, vjp
from rushlight.core.layout import preserve_format
from rushlight.ops import prims


def _convert(g, input_meta):
    """Back to the operand's dtype and device; only the real part comes back to a real operand."""
    if g.dtype.is_complex and not input_meta.dtype.is_complex:
        g = g.real
    if g.dtype is input_meta.dtype and g.device == input_meta.device:
        return g
    return prims.convert.apply((g,), (input_meta.dtype, input_meta.device, preserve_format))


vjp(prims.convert, linear="input", input=_convert)
vjp(prims.copy_, input=None, src=lambda g: g)
jvp(prims.copy_, lambda d_src: d_src)
vjp(prims.fill, linear="input value", input=lambda g: zeros_for(g._meta), value=lambda g: g.sum())
nondifferentiable(prims.detach)
