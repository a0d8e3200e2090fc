"""Automatic mixed precision: `rushlight.amp`."""

from __future__ import annotations

from rushlight.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from rushlight.amp.grad_scaler import GradScaler
from rushlight.amp.state import (
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
)

__all__ = [
    "GradScaler",
    "autocast",
    "clear_autocast_cache",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_dtype",
]
