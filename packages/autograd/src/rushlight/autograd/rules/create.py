"""Creation has no tensors to differentiate by."""

from rushlight.autograd.rules.registry import nondifferentiable
from rushlight.ops import prims

nondifferentiable(prims.full, prims.empty, prims.arange)
