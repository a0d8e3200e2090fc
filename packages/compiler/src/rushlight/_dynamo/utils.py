"""What libraries ask before they choose a way that is written for PyTorch's compiler."""

from __future__ import annotations

from typing import Any

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type: Any) -> bool:
    """False: the ways behind this question are written for code that PyTorch's compiler generates."""
    return False
