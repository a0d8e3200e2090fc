"""Normalisation layers without running statistics."""

from __future__ import annotations

import numbers
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter


def add_affine(module: Module, shape: Any, weight: bool, bias: bool, device: Any, dtype: Any) -> None:
    """Give a module the scale and shift of its normalisation, or None in their place."""
    for name, wanted in (("weight", weight), ("bias", bias)):
        module.register_parameter(
            name, Parameter(rushlight.empty(shape, device=device, dtype=dtype)) if wanted else None
        )


def reset_affine(module: Module) -> None:
    """Scale 1 and shift 0."""
    if module.weight is not None:
        init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)


class LayerNorm(Module):
    """`(x - mean) / sqrt(var + eps) * weight + bias` over the last dimensions (Ba et al. 2016).

    Shapes: `(*, *normalized_shape) -> (*, *normalized_shape)`.

    Example:
        >>> import rushlight
        >>> rushlight.nn.LayerNorm(2)(rushlight.tensor([[1.0, 3.0]])).round(decimals=3).tolist()
        [[-1.0, 1.0]]
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (
            (normalized_shape,) if isinstance(normalized_shape, numbers.Integral) else tuple(normalized_shape)
        )
        self.eps, self.elementwise_affine = eps, elementwise_affine
        add_affine(self, self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1 and shift 0."""
        reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, " + (
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """`x / sqrt(mean(x ** 2) + eps) * weight` over the last dimensions (Zhang and Sennrich 2019)."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (
            (normalized_shape,) if isinstance(normalized_shape, numbers.Integral) else tuple(normalized_shape)
        )
        self.eps, self.elementwise_affine = eps, elementwise_affine
        weight = (
            Parameter(rushlight.empty(self.normalized_shape, device=device, dtype=dtype))
            if elementwise_affine
            else None
        )
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalises groups of channels of each sample (Wu and He 2018). Shapes: `(n, c, *) -> (n, c, *)`."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        add_affine(self, num_channels, affine, affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1 and shift 0."""
        reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        about = f"eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, {about}"


class LocalResponseNorm(Module):
    """Divides by the neighbouring channels' mean square (Krizhevsky et al. 2012)."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """Local response normalisation across the channels of images."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)
