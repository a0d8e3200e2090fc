"""Gradients of entropy, logit and products with logarithms."""

from rushlight.autograd.rules.registry import conj, vjp
from rushlight.ops import prims
from rushlight.ops.create import full
from rushlight.ops.exponential import log, log1p
from rushlight.ops.selection import where_op


def _factor(g, input, other, logarithm, pole):
    """The logarithm; 0 where the product was taken as 0 although the logarithm is not finite."""
    if not hasattr(other, "_meta"):
        other = full((), other, dtype=input._meta.dtype, device=input._meta.device)
    settled = (input == 0) & (other <= pole if not other._meta.dtype.is_complex else other == pole)
    return where_op(settled, 0, g * conj(logarithm(other)))


vjp(
    prims.xlogy,
    input=lambda g, input, other: _factor(g, input, other, log, 0),
    other=lambda g, input, other: g * conj(input / other),
)
vjp(
    prims.xlog1py,
    input=lambda g, input, other: _factor(g, input, other, log1p, -1),
    other=lambda g, input, other: g * (input / (other + 1)),
)
vjp(prims.entr, input=lambda g, input: g * -(log(input) + 1))
vjp(prims.logit, input=lambda g, input: g / conj(input * (1 - input)))
