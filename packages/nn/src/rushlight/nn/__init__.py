"""Neural network layers: `rushlight.nn`."""

from __future__ import annotations

from rushlight.nn import functional, init, modules, parameter, utils
from rushlight.nn.modules import *  # noqa: F403
from rushlight.nn.modules import LAYERS
from rushlight.nn.parameter import Buffer, Parameter

__all__ = ["Buffer", "Parameter", "functional", "init", "modules", "parameter", "utils", *LAYERS]
