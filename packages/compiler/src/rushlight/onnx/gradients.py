"""Ops that only gradients need. Some have decompositions; the others have no row."""

from __future__ import annotations

from rushlight.onnx.table import refuse

refuse(
    "it is part of a gradient; export the forward computation, under no_grad",
    "avg_pool_transpose", "conv_weight_grad", "embedding_backward", "linear_weight_grad", "nll_loss_backward",
    "unfold_backward", "window_spread", "affine_scan", "delay", "log_softmax_backward", "softmax_backward",
)  # fmt: skip
refuse("ONNX cannot take a number apart into its bits", "frexp")
