"""Random numbers do not depend on anything that could be differentiated by."""

from rushlight.autograd.rules.registry import nondifferentiable
from rushlight.ops import prims

nondifferentiable(prims.rand, prims.randn, prims.randint, prims.randperm)
