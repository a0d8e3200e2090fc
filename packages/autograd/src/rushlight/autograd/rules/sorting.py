"""Positions and counts: nothing to differentiate. The values come by gather, which has a gradient."""

from rushlight.autograd.rules.registry import nondifferentiable
from rushlight.ops import prims

nondifferentiable(
    prims.argsort, prims.topk, prims.kthvalue, prims.median_position, prims.nanmedian_position, prims.mode
)
nondifferentiable(prims.unique, prims.unique_consecutive, prims.isin)
nondifferentiable(prims.bincount, prims.histc, prims.histogram, prims.searchsorted)
