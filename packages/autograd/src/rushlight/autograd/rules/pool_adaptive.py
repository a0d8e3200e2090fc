"""Gradients of pooling over windows of varying size."""

from rushlight.autograd.rules.batched import fold
from rushlight.autograd.rules.registry import batch, jvp, vjp
from rushlight.ops.pool import gather_planes_op, scatter_planes_op
from rushlight.ops.pool_adaptive import window_max_op, window_mean_op, window_spread_op

vjp(window_max_op, input=lambda g0, ans1, input_meta: scatter_planes_op.apply((g0, ans1), (input_meta.shape[2:],)))
jvp(window_max_op, lambda d_input, ans1: (gather_planes_op.apply((d_input, ans1)), None))
vjp(
    window_mean_op,
    linear="input",
    input=lambda g, input_meta, windows: window_spread_op.apply((g,), (windows, input_meta.shape[2:])),
)
vjp(window_spread_op, linear="grad", grad=lambda g, windows: window_mean_op.apply((g,), (windows,)))

for _op in (window_max_op, window_mean_op, window_spread_op):
    batch(_op, fold)
