"""Regular numbers have no tensors to differentiate by."""

from rushlight.autograd.rules.registry import nondifferentiable
from rushlight.ops import prims

nondifferentiable(prims.linspace, prims.eye, prims.tril_indices)
