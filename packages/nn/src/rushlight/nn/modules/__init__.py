"""The layers, by family."""

from __future__ import annotations

from rushlight.nn.modules import (
    activation,
    adaptive,
    batchnorm,
    container,
    conv,
    dropout,
    lazy,
    linear,
    linear_loss,
    loss,
    multihead,
    normalization,
    parallel,
    parameter_containers,
    pooling,
    rnn,
    rnn_cells,
    shape,
    sparse,
    transformer,
)
from rushlight.nn.modules.module import Module

FAMILIES = (
    activation,
    adaptive,
    batchnorm,
    container,
    conv,
    dropout,
    lazy,
    linear,
    linear_loss,
    loss,
    multihead,
    normalization,
    parallel,
    parameter_containers,
    pooling,
    rnn,
    rnn_cells,
    shape,
    sparse,
    transformer,
)

LAYERS = {"Module": Module}
for _family in FAMILIES:
    LAYERS.update(
        {
            name: value
            for name, value in vars(_family).items()
            if isinstance(value, type)
            and issubclass(value, Module)
            and not name.startswith("_")
            and value.__module__ == _family.__name__
        }
    )
globals().update(LAYERS)

# PyTorch keeps each of these families in a module of its own.
channelshuffle = distance = flatten = fold = padding = pixelshuffle = upsampling = shape

__all__ = sorted(LAYERS)
