"""Gradients of padding."""

from rushlight.autograd.rules.registry import vjp
from rushlight.ops.padding import pad_op

vjp(
    pad_op,
    linear="input value",
    input=lambda g, before, after: pad_op.apply((g, 0), (tuple([-b for b in before]), tuple([-a for a in after]))),
)
