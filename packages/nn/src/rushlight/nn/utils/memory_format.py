"""Convolution weights in another order of memory."""

from __future__ import annotations

from typing import Any

from rushlight.nn.modules.conv import _ConvNd
from rushlight.nn.modules.module import Module


def _convert(module: Module, dims: int, memory_format: Any) -> Module:
    for layer in module.modules():
        if isinstance(layer, _ConvNd) and layer._dims == dims:
            layer.weight.data = layer.weight.detach().clone().contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Lay out the weights of all Conv2d and ConvTranspose2d of a module in a memory format."""
    return _convert(module, 2, memory_format)


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Lay out the weights of all Conv3d and ConvTranspose3d of a module in a memory format."""
    return _convert(module, 3, memory_format)
