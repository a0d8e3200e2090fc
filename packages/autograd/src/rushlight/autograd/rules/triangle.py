"""Gradients of triangles: the same triangle."""

from rushlight.autograd.rules.batched import same
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.ops import prims
from rushlight.ops.triangle import tril_op, triu_op

vjp(prims.tril, linear="input", input=lambda g, diagonal: tril_op.apply((g,), (diagonal,)))
vjp(prims.triu, linear="input", input=lambda g, diagonal: triu_op.apply((g,), (diagonal,)))

batch(prims.tril, same)
batch(prims.triu, same)
