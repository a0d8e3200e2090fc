"""Gradient of taking the same memory once more."""

from rushlight.autograd.rules.batched import same
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.ops import prims

vjp(prims.alias, input=lambda g: g)

batch(prims.alias, same)
