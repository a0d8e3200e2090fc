"""The grad modes under PyTorch's name for their module."""

from __future__ import annotations

from rushlight.autograd.modes import enable_grad, inference_mode, no_grad, set_grad_enabled, set_multithreading_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled", "set_multithreading_enabled"]
