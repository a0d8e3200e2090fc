"""Error, gamma and zeta functions: erf, lgamma, digamma, polygamma, igamma, zeta, and their like."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import dtypes, scalar_erfinv, scalar_gamma
from rushlight.core import scalar as s
from rushlight.core.declare import elementwise
from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops.create import arange
from rushlight.ops.reduction import sum


def from_scipy(name: str) -> Callable:
    """A function of scipy.special, imported on first use: `import rushlight` stays light."""

    def evaluate(*arrays: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*arrays)

    return evaluate


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


@elementwise(promote="float", supports="float", numpy=from_scipy("erfinv"), domain=(-1.0, 1.0))
def erfinv(input):
    """Inverse error function of each element: the `y` with `erf(y) = input`; NaN outside [-1, 1]."""
    return scalar_erfinv.erfinv(input)


@elementwise(promote="float", supports="float", numpy=from_scipy("erfcx"), namespace="special", method=False)
def erfcx(input):
    """Scaled complementary error function of each element: `exp(input**2) * erfc(input)`, without overflow."""
    return scalar_gamma.erfcx(input)


@elementwise(promote="float", supports="float", numpy=from_scipy("ndtr"), namespace="special", method=False)
def ndtr(input):
    """Distribution function of the normal distribution: the probability of a value below each element."""
    return 0.5 * s.erfc(input * -math.sqrt(0.5))


@elementwise(
    promote="float", supports="float", numpy=from_scipy("ndtri"), namespace="special", method=False, domain=(0.0, 1.0)
)
def ndtri(input):
    """Quantile of the normal distribution: the `y` with `ndtr(y) = input`; NaN outside [0, 1]."""
    return scalar_gamma.ndtri(input)


@elementwise(promote="float", supports="float", numpy=from_scipy("log_ndtr"), namespace="special", method=False)
def log_ndtr(input):
    """Logarithm of the distribution function of the normal distribution, also where that is too small for a float."""
    scaled = input * math.sqrt(0.5)
    tail = s.log(0.5 * scalar_gamma.erfcx(-s.minimum(scaled, 0.0))) - scaled * scaled
    return s.select(input < -1.0, tail, s.log1p(-0.5 * s.erfc(scaled)))


def _lgamma(x: Any) -> Any:
    # The magnitude of gamma grows without bound between the poles on the way to -inf, but scipy gives -inf.
    return np.where(np.isinf(x), np.inf, s.lgamma(x))


@elementwise(promote="float", supports="float", numpy=_lgamma, domain=(0.0, 50.0))
def lgamma(input):
    """Logarithm of the absolute value of the gamma function of each element.

    Example:
        >>> import rushlight
        >>> rushlight.lgamma(rushlight.tensor([1.0, 5.0]))
        tensor([0.0000, 3.1781])
    """
    return s.lgamma(input)


def _digamma(x: Any) -> Any:
    # scipy gives NaN at 0, where the function has a pole with a sign; PyTorch and we give that.
    return np.where(x == 0, np.copysign(np.inf, -x), from_scipy("digamma")(x))


@elementwise(promote="float", supports="float", numpy=_digamma, domain=(0.0, 50.0))
def digamma(input):
    """Derivative of the logarithm of the gamma function of each element; NaN at negative integers."""
    return scalar_gamma.digamma(input)


def _zeta(x: Any, q: Any) -> Any:
    # For large exponents only the first term is left, where scipy multiplies infinity and 0.
    return np.where((x > 1e15) & (q > 0), q**-x, from_scipy("zeta")(x, q))


@elementwise(
    promote="float",
    supports="float",
    numpy=_zeta,
    namespace="special",
    method=False,
    tensors=(),
    domain=(1.5, 10.0),
)
def zeta(input, other):
    """Hurwitz's zeta function: the sum of `(other + k) ** -input` over `k >= 0`."""
    return scalar_gamma.zeta(input, other)


def _polygamma(n: int, input: Tensor) -> Tensor:
    if hasattr(n, "_meta") or n < 0:
        raise RuntimeError(f"polygamma: n must be a non-negative int, got {n!r}")
    if n == 0:
        return digamma(input)
    if not input.dtype.is_inexact:
        input = input.to(dtypes.get_default_dtype())
    sign = 1.0 if n % 2 else -1.0
    return sign * math.factorial(n) * zeta(float(n + 1), input)


@function(method=False)
def polygamma(n: int, input: Tensor) -> Tensor:
    """The `n`-th derivative of `digamma`: `(-1)**(n + 1) * n! * zeta(n + 1, input)`.

    Raises RuntimeError for a negative `n`.
    """
    return _polygamma(n, input)


@function(name="polygamma", public=False, inplace=True)
def _polygamma_method(input: Tensor, n: int) -> Tensor:
    """The `n`-th derivative of `digamma` at each element."""
    return _polygamma(n, input)


@function(inplace=True)
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """Logarithm of the multivariate gamma function of dimension `p`: `log(pi) p (p-1) / 4 + sum(lgamma(input - i / 2),
    i < p)`.

    Raises RuntimeError for `p < 1`.
    """
    if p < 1:
        raise RuntimeError(f"mvlgamma: p has to be greater than or equal to 1, got {p}")
    if not input.dtype.is_inexact:
        input = input.to(dtypes.get_default_dtype())
    steps = arange(0, -p / 2, -0.5, dtype=input.dtype, device=input.device)
    return sum(lgamma(input.unsqueeze(-1) + steps), -1) + p * (p - 1) / 4 * math.log(math.pi)


@elementwise(
    promote="float", supports="float", numpy=from_scipy("gammainc"), tensors=("input", "other"), domain=(0.0, 20.0)
)
def igamma(input, other):
    """Regularised lower incomplete gamma function: the gamma distribution of shape `input`'s probability below
    `other`.
    """
    return scalar_gamma.igamma(input, other)


@elementwise(
    promote="float", supports="float", numpy=from_scipy("gammaincc"), tensors=("input", "other"), domain=(0.0, 20.0)
)
def igammac(input, other):
    """Regularised upper incomplete gamma function: `1 - igamma(input, other)`, without cancellation."""
    return scalar_gamma.igammac(input, other)
