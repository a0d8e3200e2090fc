"""Gradients of `view(dtype)`: reading bytes as another dtype has none."""

from rushlight.autograd.rules.registry import nondifferentiable
from rushlight.ops import prims

nondifferentiable(prims.view_dtype)
