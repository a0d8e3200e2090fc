"""Gradients of views by arbitrary strides."""

from rushlight.autograd.memory import zeros_for
from rushlight.autograd.rules.batched import shift
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.core.layout import contiguous_format
from rushlight.ops import prims
from rushlight.ops.strided import (
    as_strided_backward,
    as_strided_op,
    as_strided_scatter_op,
    diagonal_backward,
    diagonal_op,
    unfold_backward,
    unfold_op,
)


def _as_strided(g, input_meta, size, stride, storage_offset, own_offset):
    geometry = (input_meta.shape, input_meta.strides, own_offset)
    return as_strided_backward.apply((g,), (*geometry, size, stride, storage_offset, False))


def _of_as_strided_backward(g, shape, strides, offset, size, stride, storage_offset, transposed):
    return as_strided_backward.apply((g,), (size, stride, storage_offset, shape, strides, offset, not transposed))


def _written(g, src_meta, size, stride, storage_offset):
    return as_strided_scatter_op.apply((g, zeros_for(src_meta)), (size, stride, storage_offset))


def _source(g, size, stride, storage_offset):
    return as_strided_op.apply((g.clone(memory_format=contiguous_format),), (size, stride, storage_offset, 0))


vjp(
    prims.diagonal,
    input=lambda g, input_meta, offset, dim1, dim2: diagonal_backward.apply(
        (g,), (input_meta.shape, offset, dim1, dim2)
    ),
)
vjp(
    prims.diagonal_backward,
    linear="grad",
    grad=lambda g, offset, dim1, dim2: diagonal_op.apply((g,), (offset, dim1, dim2)),
)
vjp(
    prims.unfold,
    input=lambda g, input_meta, dim, size, step: unfold_backward.apply((g,), (input_meta.shape, dim, size, step)),
)
vjp(prims.unfold_backward, linear="grad", grad=lambda g, dim, size, step: unfold_op.apply((g,), (dim, size, step)))
vjp(prims.as_strided, input=_as_strided)
vjp(prims.as_strided_backward, linear="grad", grad=_of_as_strided_backward)
vjp(prims.as_strided_scatter, linear="input src", input=_written, src=_source)

batch(prims.diagonal, shift("dim1", "dim2"))
batch(
    prims.diagonal_backward,
    lambda grad, shape, offset, dim1, dim2, samples: diagonal_backward.apply(
        (grad,), ((samples, *shape), offset, dim1 + 1, dim2 + 1)
    ),
)
batch(prims.unfold, shift("dim"))


def _batched_unfold_backward(grad, shape, dim, size, step, samples):
    if not shape:  # a sample without dimensions is one window of itself
        return grad.reshape(samples)
    return unfold_backward.apply((grad,), ((samples, *shape), dim + 1, size, step))


batch(prims.unfold_backward, _batched_unfold_backward)
batch(
    prims.as_strided,
    lambda input, size, stride, storage_offset, own_offset, samples: as_strided_op.apply(
        (input,), ((samples, *size), (input.stride(0), *stride), storage_offset, own_offset)
    ),
)
