"""Gradients of the modified Bessel functions; of the others none is offered, as in PyTorch."""

from rushlight.autograd.rules.registry import nondifferentiable, vjp
from rushlight.ops import prims
from rushlight.ops.bessel import i0, i0e, i1, i1e
from rushlight.ops.magnitude import sgn
from rushlight.ops.selection import where_op


def _i1(g, input, ans):
    """`i0(x) - i1(x) / x`, 1/2 at 0."""
    zero = input == 0
    return g * where_op(zero, 0.5, i0(input) - ans / where_op(zero, 1, input))


def _i1e(g, input, ans):
    """`i0e(x) - i1e(x) (sign(x) + 1 / x)`, 1/2 at 0."""
    zero = input == 0
    return g * where_op(zero, 0.5, i0e(input) - ans * (sgn(input) + 1 / where_op(zero, 1, input)))


vjp(prims.i0, input=lambda g, input: g * i1(input))
vjp(prims.i0e, input=lambda g, input, ans: g * (i1e(input) - sgn(input) * ans))
vjp(prims.i1, input=_i1)
vjp(prims.i1e, input=_i1e)
nondifferentiable(
    prims.bessel_j0, prims.bessel_j1, prims.bessel_y0, prims.bessel_y1, prims.airy_ai, prims.spherical_bessel_j0
)
nondifferentiable(prims.modified_bessel_k0, prims.modified_bessel_k1)
nondifferentiable(prims.scaled_modified_bessel_k0, prims.scaled_modified_bessel_k1)
nondifferentiable(
    *[getattr(prims, f"{form}chebyshev_polynomial_{kind}") for form in ("", "shifted_") for kind in "tuvw"]
)
nondifferentiable(prims.hermite_polynomial_h, prims.hermite_polynomial_he, prims.laguerre_polynomial_l)
nondifferentiable(prims.legendre_polynomial_p)
