"""Gradients of views that change shape and strides."""

from rushlight.autograd.rules.batched import in_rank
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.ops import prims
from rushlight.ops.transpose import permute_op
from rushlight.ops.view import expand_op, reshaped, view_op


def _permute(g, dims):
    return permute_op.apply((g,), (tuple(sorted(range(len(dims)), key=dims.__getitem__)),))


vjp(prims.permute, input=_permute)
vjp(prims.expand, input=lambda g: g)
vjp(prims.view, input=lambda g, input_meta: reshaped(g, input_meta.shape))

batch(
    prims.expand,
    lambda input, shape, samples: expand_op.apply((in_rank(input, len(shape)),), ((samples, *shape),)),
)
batch(prims.view, lambda input, shape, samples: view_op.apply((input,), ((samples, *shape),)))
batch(prims.permute, lambda input, dims: permute_op.apply((input,), ((0, *[d + 1 for d in dims]),)))
