"""Gradients of exponentials and logarithms."""

import math

from rushlight.autograd.rules.registry import conj, vjp
from rushlight.ops import prims
from rushlight.ops.activation import sigmoid

_LN2, _LN10 = math.log(2), math.log(10)

vjp(prims.exp, input=lambda g, ans: g * conj(ans))
vjp(prims.exp2, input=lambda g, ans: g * conj(ans * _LN2))
vjp(prims.expm1, input=lambda g, ans: g * conj(ans + 1))
vjp(prims.log, input=lambda g, input: g / conj(input))
vjp(prims.log2, input=lambda g, input: g / conj(input * _LN2))
vjp(prims.log10, input=lambda g, input: g / conj(input * _LN10))
vjp(prims.log1p, input=lambda g, input: g / conj(input + 1))
vjp(
    prims.logaddexp,
    input=lambda g, input, other: g * conj(sigmoid(input - other)),
    other=lambda g, input, other: g * conj(sigmoid(other - input)),
)
vjp(
    prims.logaddexp2,
    input=lambda g, input, other: g * sigmoid((input - other) * _LN2),
    other=lambda g, input, other: g * sigmoid((other - input) * _LN2),
)
