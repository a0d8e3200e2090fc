"""The CPU as a device: `rushlight.cpu`, with the statistics of its memory.

Large results come from a caching allocator, which keeps freed memory for the next ones. Work on the CPU is done when a
call returns, so there is one stream and nothing to wait for; those names exist for code that serves any device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from rushlight.kernels.cpu.allocator import (
    empty_cache,
    memory_stats,
    reset_peak_memory_stats,
    set_cache_limit,
)

__all__ = [
    "Event",
    "Stream",
    "current_device",
    "current_stream",
    "device_count",
    "empty_cache",
    "is_available",
    "is_initialized",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_cache_limit",
    "set_device",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """Can tensors be put on the CPU? Always."""
    return True


def is_initialized() -> bool:
    """Is the CPU ready for use? Always."""
    return True


def device_count() -> int:
    """How many CPU devices there are: 1, however many cores it has (see `rushlight.get_num_threads`)."""
    return 1


def current_device() -> str:
    """The device on which `device="cpu"` places tensors: "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Choose the device; there is one only, so nothing happens."""


def synchronize(device: Any = None) -> None:
    """Wait until all work is done, which it is when a call returns."""


def memory_allocated(device: Any = None) -> int:
    """Bytes of pooled memory in use by tensors. Results below 256 KiB are not pooled and not counted.

    Example:
        >>> import rushlight
        >>> before = rushlight.cpu.memory_allocated()
        >>> x = rushlight.rand(1000, 1000)
        >>> rushlight.cpu.memory_allocated() - before >= x.nbytes
        True
    """
    return memory_stats()["allocated"]


def memory_reserved(device: Any = None) -> int:
    """Bytes of pooled memory held from the system: in use, or free and kept for reuse."""
    return memory_stats()["reserved"]


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes of pooled memory held at a time since the start, or since `reset_peak_memory_stats`."""
    return memory_stats()["reserved_peak"]


class Stream:
    """An order in which work is done; on the CPU that of the calls."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Stream) -> None:
        """Wait for the work of another stream, which is done."""

    def wait_event(self, event: Event) -> None:
        """Wait for an event, which has happened."""

    def record_event(self) -> None:
        """Mark a point in the stream; nothing can wait for it."""


class Event:
    """A point in a stream; on the CPU it has always been passed."""

    def record(self, stream: Stream | None = None) -> None:
        """Put the event at the end of a stream."""

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream wait for the event."""

    def query(self) -> bool:
        """Has the event been passed?"""
        return True

    def synchronize(self) -> None:
        """Wait until the event has been passed."""


_current = [Stream()]


def current_stream(device: Any = None) -> Stream:
    """The stream that work goes to."""
    return _current[-1]


@contextlib.contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """Inside the block, make another stream the current one; None changes nothing."""
    _current.append(stream or _current[-1])
    try:
        yield
    finally:
        _current.pop()
