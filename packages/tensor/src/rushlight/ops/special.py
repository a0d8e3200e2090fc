"""Entropy, logit and products with logarithms, and the names of `rushlight.special` for functions of other families."""

from __future__ import annotations

from typing import Any

from rushlight.core import scalar as s
from rushlight.core.declare import elementwise
from rushlight.core.front import export, function
from rushlight.core.tensor import Tensor
from rushlight.ops import bessel, exponential, gamma, reduction, rounding, softmax, trigonometric
from rushlight.ops.activation import sigmoid


def _times_log(input: Any, other: Any, log: Any) -> Any:
    """`input * log`, but 0 where `input` is 0 and `other` not NaN."""
    zero = (input == 0) & ~s.isnan(other)
    return s.select(zero, s.constant(0, input), input * s.select(zero, s.constant(1, log), log))


@elementwise(promote="float", tensors=())
def xlogy(input, other):
    """`input * log(other)`, 0 where `input` is 0 and `other` is not NaN."""
    return _times_log(input, other, s.log(other))


@elementwise(promote="float", supports="float", namespace="special", method=False, tensors=())
def xlog1py(input, other):
    """`input * log(1 + other)`, 0 where `input` is 0 and `other` is not NaN."""
    return _times_log(input, other, s.log1p(other))


@elementwise(promote="float", supports="float", namespace="special", method=False)
def entr(input):
    """Entropy of each element: `-input * log(input)`, 0 at 0, -inf below."""
    inside = -input * s.log(s.select(input > 0, input, s.constant(1, input)))
    outside = s.select(input == 0, s.constant(0, input), s.constant(float("-inf"), input))
    return s.select((input > 0) | s.isnan(input), s.select(s.isnan(input), input, inside), outside)


@elementwise(promote="float", name="logit", method=False, public=False)
def logit_op(input):
    """`log(input / (1 - input))`."""
    return s.log(input / (1 - input))


@function(inplace=True)
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """Inverse of the sigmoid: `log(input / (1 - input))`; with `eps` the input is first brought into [eps, 1 - eps].

    Example:
        >>> import rushlight
        >>> rushlight.logit(rushlight.tensor([0.5, 1.0]), eps=0.25)
        tensor([0.0000, 1.0986])
    """
    return logit_op(input if eps is None else input.clamp(eps, 1 - eps))


_SAME = {
    "digamma": gamma.digamma,
    "psi": gamma.digamma,
    "erf": gamma.erf,
    "erfc": gamma.erfc,
    "erfinv": gamma.erfinv,
    "gammainc": gamma.igamma,
    "gammaincc": gamma.igammac,
    "gammaln": gamma.lgamma,
    "multigammaln": gamma.mvlgamma,
    "polygamma": gamma.polygamma,
    "i0": bessel.i0,
    "modified_bessel_i0": bessel.i0,
    "modified_bessel_i1": bessel.i1,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "log1p": exponential.log1p,
    "logsumexp": reduction.logsumexp,
    "log_softmax": softmax.log_softmax,
    "softmax": softmax.softmax,
    "round": rounding.round,
    "sinc": trigonometric.sinc,
    "expit": sigmoid,
    "logit": logit,
    "xlogy": xlogy,
}
export("logit_", Tensor.logit_)
export("xlogy_", Tensor.xlogy_)
for _name, _function in _SAME.items():
    export(_name, _function, "special")
