"""Gradients of Fourier transforms: the transforms back, with the weights that half a spectrum has."""

from rushlight.autograd.rules.batched import shift
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.ops.fft import c2c_op, c2r_op, r2c_op
from rushlight.ops.join import cat
from rushlight.ops.padding import pad_constant


def _c2c(g, input_meta, dims, scaling, forward):
    back = c2c_op.apply((g,), (dims, scaling, not forward))
    return back if input_meta.dtype.is_complex else back.real


def _r2c(g, input_meta, dims, scaling):
    """The spectrum's other half has no gradient of its own: fill it with zeros and take the real part of the way
    back."""
    last = dims[-1]
    missing = input_meta.shape[last] - g.shape[last]
    full = pad_constant(g, (0,) * (2 * (g.ndim - last - 1)) + (0, missing)) if missing else g
    return c2c_op.apply((full,), (dims, scaling, False)).real


def _c2r(g, dims, scaling, size):
    """Inner frequencies stand for themselves and their mirror images, so they count twice."""
    last = dims[-1]
    half = r2c_op.apply((g,), (dims, scaling))
    doubled = (size - 1) // 2
    if doubled < 1:
        return half
    parts = [half.narrow(last, 0, 1), half.narrow(last, 1, doubled) * 2]
    if half.shape[last] > doubled + 1:
        parts.append(half.narrow(last, doubled + 1, half.shape[last] - doubled - 1))
    return cat(parts, last)


vjp(c2c_op, linear="input", input=_c2c)
vjp(r2c_op, linear="input", input=_r2c)
vjp(c2r_op, linear="input", input=_c2r)

for _op in (c2c_op, r2c_op, c2r_op):
    batch(_op, shift("dims"))
