"""Gradients of error, gamma and zeta functions."""

import math

from rushlight.autograd.rules.registry import vjp
from rushlight.ops import prims
from rushlight.ops.exponential import exp, log
from rushlight.ops.gamma import digamma, lgamma, log_ndtr, polygamma, zeta

_SLOPE = 2 / math.sqrt(math.pi)  # of erf at 0
_DENSITY = 1 / math.sqrt(2 * math.pi)  # of the normal distribution at 0


def _gamma_density(g, input, other):
    """The gamma distribution's density, through its logarithm so that no factor overflows."""
    return g * exp((input - 1) * log(other) - other - lgamma(input))


vjp(prims.erf, input=lambda g, input: g * (exp(-(input * input)) * _SLOPE))
vjp(prims.erfc, input=lambda g, input: g * (exp(-(input * input)) * -_SLOPE))
vjp(prims.erfinv, input=lambda g, ans: g * (exp(ans * ans) / _SLOPE))
vjp(prims.erfcx, input=lambda g, input, ans: g * (input * ans * 2 - _SLOPE))
vjp(prims.ndtr, input=lambda g, input: g * (exp(input * input * -0.5) * _DENSITY))
vjp(prims.ndtri, input=lambda g, ans: g * (exp(ans * ans * 0.5) / _DENSITY))
vjp(prims.log_ndtr, input=lambda g, input: g * (exp(input * input * -0.5 - log_ndtr(input)) * _DENSITY))
vjp(prims.lgamma, input=lambda g, input: g * digamma(input))
vjp(prims.digamma, input=lambda g, input: g * polygamma(1, input))
vjp(prims.zeta, other=lambda g, input, other: g * -input * zeta(input + 1, other))
vjp(prims.igamma, other=_gamma_density)
vjp(prims.igammac, other=lambda g, input, other: -_gamma_density(g, input, other))
