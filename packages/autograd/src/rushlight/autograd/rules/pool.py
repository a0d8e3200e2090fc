"""Gradients of pooling."""

from rushlight.autograd.rules.batched import fold
from rushlight.autograd.rules.registry import batch, jvp, vjp
from rushlight.ops.avg_pool import avg_pool_op, avg_pool_transpose_op
from rushlight.ops.pool import gather_planes_op, max_pool_op, place_planes_op, scatter_planes_op

vjp(max_pool_op, input=lambda g0, ans1, input_meta: scatter_planes_op.apply((g0, ans1), (input_meta.shape[2:],)))
jvp(max_pool_op, lambda d_input, ans1: (gather_planes_op.apply((d_input, ans1)), None))
vjp(scatter_planes_op, linear="input", input=lambda g, indices: gather_planes_op.apply((g, indices)))
vjp(place_planes_op, linear="input", input=lambda g, indices: gather_planes_op.apply((g, indices)))
vjp(
    gather_planes_op,
    linear="input",
    input=lambda g, indices, input_meta: scatter_planes_op.apply((g, indices), (input_meta.shape[2:],)),
)

vjp(
    avg_pool_op,
    linear="input",
    input=lambda g, input_meta, kernel_size, stride, padding, count_include_pad, divisor: avg_pool_transpose_op.apply(
        (g,), (input_meta.shape[2:], kernel_size, stride, padding, count_include_pad, divisor)
    ),
)


def _avg_pool_transpose(g, grad_meta, size, kernel_size, stride, padding, count_include_pad, divisor):
    floor = tuple([(n + 2 * p - k) // s + 1 for n, k, s, p in zip(size, kernel_size, stride, padding)])
    return avg_pool_op.apply(
        (g,), (kernel_size, stride, padding, floor != grad_meta.shape[2:], count_include_pad, divisor)
    )


vjp(avg_pool_transpose_op, linear="grad", grad=_avg_pool_transpose)

for _op in (max_pool_op, scatter_planes_op, place_planes_op, gather_planes_op, avg_pool_op, avg_pool_transpose_op):
    batch(_op, fold)
