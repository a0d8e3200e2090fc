"""Samples of the gamma distribution with a gradient by its shape."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.autograd import Function


def _draw(alpha: Tensor) -> Tensor:
    """Standard gamma numbers: squeezed cubes of normal ones, drawn anew where rejected.

    Source: Marsaglia and Tsang, A simple method for generating gamma variables, 2000. Shapes below 1 are raised by 1
    and scaled down by a power of a uniform number.
    """
    a = alpha.double()
    boosted = rushlight.where(a < 1, a + 1, a)
    d = boosted - 1 / 3
    c = 1 / (9 * d).sqrt()
    result, missing = rushlight.zeros_like(d), rushlight.ones_like(d, dtype=rushlight.bool)
    while bool(missing.any()):
        x, u = rushlight.randn_like(d), rushlight.rand_like(d)
        v = (1 + c * x) ** 3
        accepted = (v > 0) & (u.log() < 0.5 * x * x + d - d * v + d * v.clamp(min=1e-300).log())
        result = rushlight.where(missing & accepted, d * v, result)
        missing = missing & ~accepted
    small = rushlight.rand_like(d) ** (1 / a)
    return rushlight.where(a < 1, result * small, result)


class _StandardGamma(Function):
    @staticmethod
    def forward(ctx: Any, alpha: Tensor) -> Tensor:
        sample = _draw(alpha).to(alpha.dtype).clamp(min=rushlight.finfo(alpha.dtype).tiny)
        ctx.save_for_backward(alpha, sample)
        return sample

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Implicit differentiation of `cdf(sample, alpha) = u`: `-(d cdf / d alpha) / density`."""
        alpha, sample = (x.double() for x in ctx.saved_tensors)
        step = 1e-4 * alpha
        # Central differences at two widths, combined so that their leading errors cancel.
        wide, narrow = (
            (rushlight.igamma(alpha + h, sample) - rushlight.igamma(alpha - h, sample)) / (2 * h)
            for h in (2 * step, step)
        )
        log_density = (alpha - 1) * sample.log() - sample - rushlight.lgamma(alpha)
        slope = -((4 * narrow - wide) / 3) / log_density.exp()
        return grad * slope.to(grad.dtype)


def standard_gamma(alpha: Tensor) -> Tensor:
    """Numbers with density `x ** (alpha - 1) * exp(-x) / gamma(alpha)`, differentiable by `alpha`."""
    return _StandardGamma.apply(alpha)
