"""Gradients of views that change shape and strides."""

from rushlight.autograd.rules.registry import vjp
from rushlight.ops import prims
from rushlight.ops.transpose import permute_op
from rushlight.ops.view import reshaped


def _permute(g, dims):
    return permute_op.apply((g,), (tuple(sorted(range(len(dims)), key=dims.__getitem__)),))


vjp(prims.permute, input=_permute)
vjp(prims.expand, input=lambda g: g)
vjp(prims.view, input=lambda g, input_meta: reshaped(g, input_meta.shape))
