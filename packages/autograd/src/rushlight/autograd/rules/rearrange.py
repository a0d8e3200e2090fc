"""Gradients of flipping; repeating is written in other ops."""

from rushlight.autograd.rules.batched import shift
from rushlight.autograd.rules.registry import batch, nondifferentiable, vjp
from rushlight.ops import prims
from rushlight.ops.rearrange import flip_op

vjp(prims.flip, linear="input", input=lambda g, dims: flip_op.apply((g,), (dims,)))
nondifferentiable(prims.repeat_indices)

batch(prims.flip, shift("dims"))
