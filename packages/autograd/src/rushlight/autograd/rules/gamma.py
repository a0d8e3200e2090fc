"""Gradients of error and gamma functions."""

import math

from rushlight.autograd.rules.registry import vjp
from rushlight.ops import prims
from rushlight.ops.exponential import exp

_SLOPE = 2 / math.sqrt(math.pi)  # of erf at 0

vjp(prims.erf, input=lambda g, input: g * (exp(-(input * input)) * _SLOPE))
vjp(prims.erfc, input=lambda g, input: g * (exp(-(input * input)) * -_SLOPE))
