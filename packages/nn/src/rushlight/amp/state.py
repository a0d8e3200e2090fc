"""What autocast is set to on this thread."""

from __future__ import annotations

import threading
from typing import Any

import rushlight

DEVICES = ("cpu", "cuda")


class _State(threading.local):
    def __init__(self) -> None:
        self.enabled = dict.fromkeys(DEVICES, False)
        self.dtype: dict[str, Any] = {"cpu": rushlight.bfloat16, "cuda": rushlight.float16}
        self.cached = True
        self.depth = 0
        # Casts of parameters: the tensor, its version, whether gradients were recorded, the cast.
        self.casts: dict[int, tuple[Any, int, bool, Any]] = {}
        self.busy = False  # an autocast handler is at work; those further out let its calls pass


state = _State()


def _device(device_type: str) -> str:
    if not isinstance(device_type, str):
        raise TypeError(f"autocast: expected device_type to be a string, got {type(device_type).__name__}")
    if device_type not in DEVICES:
        raise RuntimeError(f"autocast: device_type must be one of {', '.join(DEVICES)}, got {device_type!r}")
    return device_type


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Is this code inside an enabled autocast region for the device type?"""
    return state.enabled[_device(device_type)]


def get_autocast_dtype(device_type: str) -> Any:
    """The dtype that autocast of the device type uses."""
    return state.dtype[_device(device_type)]


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Set the dtype that autocast regions of the device type use from now on."""
    state.dtype[_device(device_type)] = dtype


def is_autocast_available(device_type: str) -> bool:
    """Does rushlight have autocast for the device type?"""
    return device_type in DEVICES


def is_autocast_cache_enabled() -> bool:
    """Are casts of parameters kept within a region?"""
    return state.cached


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether casts of parameters are kept within a region."""
    state.cached = enabled


def clear_autocast_cache() -> None:
    """Forget kept casts of parameters."""
    state.casts.clear()
