"""Neural network layers: `rushlight.nn`."""

from __future__ import annotations

from rushlight.nn import attention, functional, init, modules, parallel, parameter, utils
from rushlight.nn.composites import LinearCrossEntropyOptions
from rushlight.nn.modules import *  # noqa: F403
from rushlight.nn.modules import LAYERS
from rushlight.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "Buffer",
    "LinearCrossEntropyOptions",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "attention",
    "functional",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
    *LAYERS,
]
