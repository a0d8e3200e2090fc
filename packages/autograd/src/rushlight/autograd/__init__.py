"""Define-by-run automatic differentiation."""

from __future__ import annotations

from rushlight.autograd import methods
from rushlight.autograd import rules as _rules
from rushlight.autograd.__about__ import __version__
from rushlight.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from rushlight.autograd.recorder import record_plan
from rushlight.core import dispatch

__all__ = ["__version__", "enable_grad", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad", "set_grad_enabled"]

dispatch.set_autograd(record_plan)
methods.install()
