"""The device beside the CPU, whatever it is: `rushlight.accelerator`. Here that is CUDA, when it can be used."""

from __future__ import annotations

from typing import Any

from rushlight import cuda
from rushlight.core.devices import device

__all__ = [
    "current_accelerator",
    "current_device_index",
    "device_count",
    "device_index",
    "empty_cache",
    "is_available",
    "memory_allocated",
    "set_device_index",
    "synchronize",
]


def is_available() -> bool:
    """Is there an accelerator that can be used?"""
    return cuda.is_available()


def current_accelerator(check_available: bool = False) -> device | None:
    """The type of the accelerator, as a device without index; None when there is none.

    Example:
        >>> import rushlight
        >>> found = rushlight.accelerator.current_accelerator()
        >>> (found is None) == (not rushlight.accelerator.is_available())
        True
    """
    return device("cuda") if is_available() else None


def device_count() -> int:
    """How many accelerators there are."""
    return cuda.device_count() if is_available() else 0


def _required() -> Any:
    if not is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return cuda


def current_device_index() -> int:
    """The index of the accelerator in use. Raises RuntimeError when there is none."""
    return _required().current_device()


def set_device_index(device: Any, /) -> None:
    """Choose the accelerator to use. Raises RuntimeError when there is none."""
    _required().set_device(device)


def device_index(device: int | None, /) -> Any:
    """A block in which another accelerator is the one in use. Raises RuntimeError when there is none."""
    return _required().device(device)


def synchronize(device: Any = None, /) -> None:
    """Wait until an accelerator has done all work. Raises RuntimeError when there is none."""
    _required().synchronize(device)


def empty_cache() -> None:
    """Give memory that is free, but kept for reuse, back to the system. Raises RuntimeError when there is none."""
    _required().empty_cache()


def memory_allocated(device: Any = None, /) -> int:
    """Bytes of an accelerator's memory in use by tensors. Raises RuntimeError when there is none."""
    return _required().memory_allocated(device)
