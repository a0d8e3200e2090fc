"""CUDA devices: `rushlight.cuda`.

Without a usable device `is_available()` is False and everything that needs one says why.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from rushlight.core import devices, siblings
from rushlight.core.devices import as_device, current_cuda
from rushlight.random import default_generator

__all__ = [
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "init",
    "is_available",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "memory_allocated",
    "set_device",
    "synchronize",
]


def __getattr__(name: str) -> Any:
    if name != "amp":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    siblings.root_name("amp")  # says what to install when it is not there
    return import_module("rushlight.amp.cuda")


def is_available() -> bool:
    """Can tensors be put on a CUDA device here?"""
    try:
        devices.plugin("cuda")
    except (RuntimeError, ImportError):
        return False
    return True


def is_initialized() -> bool:
    """Has a CUDA device been used?"""
    return "cuda" in devices._plugins


def init() -> None:
    """Load the device plug-in. Raises RuntimeError when there is no device that can be used."""
    devices.plugin("cuda")


def device_count() -> int:
    """How many CUDA devices can be used."""
    if not is_available():
        return 0
    count = getattr(devices.plugin("cuda"), "count", None)
    return count() if count else 1


def _index(value: Any) -> int:
    index = as_device(value if value is not None else current_device()).index or 0
    if not 0 <= index < device_count():
        init()  # says why there is none
        raise RuntimeError(f"cuda: invalid device ordinal {index}; there are {device_count()} devices")
    return index


def current_device() -> int:
    """The index of the device on which `device="cuda"` places tensors."""
    return current_cuda[0]


def set_device(device: Any) -> None:
    """Choose the device on which `device="cuda"` places tensors. Raises RuntimeError when there is no such device."""
    current_cuda[0] = _index(device)


@contextlib.contextmanager
def device(device: Any) -> Iterator[None]:
    """Inside the block, make another device the current one. Raises RuntimeError when there is no such device."""
    before = current_cuda[0]
    set_device(device)
    try:
        yield
    finally:
        current_cuda[0] = before


def synchronize(device: Any = None) -> None:
    """Wait until the device has done all work. Raises RuntimeError when there is no device that can be used."""
    _index(device)
    wait = getattr(devices.plugin("cuda"), "synchronize", None)
    if wait:
        wait()


def get_device_name(device: Any = None) -> str:
    """The name of a device. Raises RuntimeError when there is no such device."""
    index = _index(device)
    name = getattr(devices.plugin("cuda"), "name", None)
    return name(index) if name else "CUDA device"


def empty_cache() -> None:
    """Give memory that is free, but kept for reuse, back to the system."""
    if is_initialized() and hasattr(devices.plugin("cuda"), "empty_cache"):
        devices.plugin("cuda").empty_cache()


def memory_allocated(device: Any = None) -> int:
    """Bytes of device memory in use by tensors; 0 when no device has been used."""
    count = getattr(devices.plugin("cuda"), "memory_allocated", None) if is_initialized() else None
    return count() if count else 0


def manual_seed(seed: int) -> None:
    """Seed the generator of the devices; all devices draw from the default generator."""
    default_generator.manual_seed(seed)


manual_seed_all = manual_seed
