"""Gradients of copies and conversions."""

from rushlight.autograd.memory import zeros_for
from rushlight.autograd.rules.batched import Case, Run, fold, in_rank, same
from rushlight.autograd.rules.registry import batch, jvp, nondifferentiable, vjp
from rushlight.core.layout import channels_last, channels_last_3d, preserve_format
from rushlight.ops import prims
from rushlight.ops.view import expand


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


def _batched_convert(case: Case) -> Run:
    """Formats that name the dimensions of images take all samples as images of one batch."""
    return fold(case) if case.param("layout") in (channels_last, channels_last_3d) else same(case)


def _batched_fill(op, operands, batched, metas, samples):
    input, value = operands
    if not batched[1]:
        return op.apply((input, value))
    m = metas[0]
    wide = expand(in_rank(value, m.ndim), (samples, *m.shape))
    return prims.convert.apply((wide,), (m.dtype, m.device, preserve_format)).clone()


batch(prims.convert, _batched_convert)
batch(
    prims.copy_,
    lambda operands, batched, metas, non_blocking: prims.copy_.apply(
        (operands[0], in_rank(operands[1], metas[0].ndim) if batched[1] else operands[1]), (non_blocking,)
    ),
)
batch(prims.fill, _batched_fill)
batch(prims.detach, same)
