"""Error and gamma functions: erf, erfc, erfinv, lgamma, digamma, polygamma, and their like."""

from __future__ import annotations

from rushlight.core import scalar as s
from rushlight.core.declare import elementwise


@elementwise(promote="float", supports="float", numpy=s.erf)
def erf(input):
    """Error function of each element: `2 / sqrt(pi)` times the integral of `exp(-t**2)` from 0 to `input`.

    Example:
        >>> import rushlight
        >>> rushlight.erf(rushlight.tensor([0.0, 1.0]))
        tensor([0.0000, 0.8427])
    """
    return s.erf(input)


@elementwise(promote="float", supports="float", numpy=s.erfc)
def erfc(input):
    """Complementary error function of each element: `1 - erf(input)`, without cancellation."""
    return s.erfc(input)


@elementwise(promote="float", supports="float", numpy=s.lgamma, domain=(0.0, 50.0))
def lgamma(input):
    """Logarithm of the absolute value of the gamma function of each element."""
    return s.lgamma(input)
