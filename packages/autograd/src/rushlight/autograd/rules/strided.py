"""Gradients of views by arbitrary strides."""

from rushlight.autograd.rules.registry import vjp
from rushlight.ops import prims
from rushlight.ops.strided import (
    as_strided_backward,
    diagonal_backward,
    diagonal_op,
    unfold_backward,
    unfold_op,
)


def _as_strided(g, input, size, stride, storage_offset):
    own = input.storage_offset()
    geometry = (input._meta.shape, input._meta.strides, own)
    return as_strided_backward.apply((g,), (*geometry, size, stride, own if storage_offset is None else storage_offset))


def _of_as_strided_backward(g, grad_meta, shape, strides, offset, size, stride, storage_offset):
    return as_strided_backward.apply((g,), (size, stride, storage_offset, shape, strides, offset))


vjp(prims.diagonal, input=lambda g, input_meta, offset, dim1, dim2:
    diagonal_backward.apply((g,), (input_meta.shape, offset, dim1, dim2)))
vjp(prims.diagonal_backward, grad=lambda g, offset, dim1, dim2: diagonal_op.apply((g,), (offset, dim1, dim2)))
vjp(prims.unfold, input=lambda g, input_meta, dim, size, step:
    unfold_backward.apply((g,), (input_meta.shape, dim, size, step)))
vjp(prims.unfold_backward, grad=lambda g, dim, size, step: unfold_op.apply((g,), (dim, size, step)))
vjp(prims.as_strided, input=_as_strided)
vjp(prims.as_strided_backward, grad=_of_as_strided_backward)
