"""Define-by-run automatic differentiation: every operation on a tensor that requires grad is recorded, `backward` runs
the record.

Example:
    >>> import rushlight
    >>> x = rushlight.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4., 6.])
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rushlight.autograd import forward_ad, function, functional, grad_mode, graph, methods, variable
from rushlight.autograd import rules as rules
from rushlight.autograd import tangents as tangents
from rushlight.autograd.__about__ import __version__
from rushlight.autograd.anomaly import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from rushlight.autograd.api import backward, grad
from rushlight.autograd.function import Function
from rushlight.autograd.gradcheck import gradcheck, gradgradcheck
from rushlight.autograd.methods import detach_, is_inference
from rushlight.autograd.modes import (
    enable_grad,
    enforce_grad_layout_policy,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from rushlight.autograd.recorder import record_plan
from rushlight.core import dispatch
from rushlight.core.tensor import Tensor as Variable

__all__ = [
    "Function",
    "Variable",
    "__version__",
    "backward",
    "detach_",
    "detect_anomaly",
    "enable_grad",
    "enforce_grad_layout_policy",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "grad_mode",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference",
    "is_inference_mode_enabled",
    "no_grad",
    "profiler",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]

dispatch.set_autograd(record_plan)
methods.install()


def __getattr__(name: str) -> Any:
    if name == "profiler":  # few programs use it
        return import_module("rushlight.autograd.profiler")
    raise AttributeError(f"module 'rushlight.autograd' has no attribute {name!r}")
