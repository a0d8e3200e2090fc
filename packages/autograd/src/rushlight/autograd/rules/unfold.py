"""Gradients of im2col and col2im: each is the other's."""

from rushlight.autograd.rules.batched import fold
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.ops.unfold import col2im_op, im2col_op

vjp(
    im2col_op,
    linear="input",
    input=lambda g, input_meta, kernel_size, dilation, padding, stride: col2im_op.apply(
        (g,), (input_meta.shape[2:], kernel_size, dilation, padding, stride)
    ),
)
vjp(
    col2im_op,
    linear="input",
    input=lambda g, kernel_size, dilation, padding, stride: im2col_op.apply(
        (g,), (kernel_size, dilation, padding, stride)
    ),
)

batch(im2col_op, fold)
batch(col2im_op, fold)
