"""Gradients of pooling over windows of varying size."""

from rushlight.autograd.rules.registry import vjp
from rushlight.ops.pool import scatter_planes_op
from rushlight.ops.pool_adaptive import window_max_op, window_mean_op, window_spread_op

vjp(window_max_op, input=lambda g0, ans1, input_meta: scatter_planes_op.apply((g0, ans1), (input_meta.shape[2:],)))
vjp(window_mean_op, input=lambda g, input_meta, windows: window_spread_op.apply((g,), (windows, input_meta.shape[2:])))
vjp(window_spread_op, grad=lambda g, windows: window_mean_op.apply((g,), (windows,)))
