"""A linear layer and its cross entropy in one module."""

from __future__ import annotations

import math
from typing import Any

from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.composites import LinearCrossEntropyOptions, check_classes
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module


class LinearCrossEntropyLoss(Module):
    """`CrossEntropyLoss` of `Linear`, as the last layer of a classifier.

    Shapes: `(n, in_features)` and targets `(n, *out_features)` or probabilities `(n, num_classes, *out_features)`.

    Example:
        >>> import rushlight
        >>> rushlight.nn.LinearCrossEntropyLoss(3, 4)(rushlight.zeros(2, 3), rushlight.tensor([0, 1])).item() > 1
        True
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__()
        check_classes(num_classes, weight, label_smoothing)
        self.num_classes, self.out_features, self.reduction = num_classes, tuple(out_features), reduction
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        self.register_buffer("weight", weight)
        self.linear = Linear(in_features, num_classes * math.prod(self.out_features), bias, device, dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, -1),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
