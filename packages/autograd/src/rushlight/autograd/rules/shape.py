"""Gradients of `view(dtype)`: reading bytes as another dtype has none."""

from rushlight.autograd.rules.batched import same
from rushlight.autograd.rules.registry import batch, nondifferentiable
from rushlight.ops import prims

nondifferentiable(prims.view_dtype)

batch(prims.view_dtype, same)
