"""What a forked child has to do before it uses state that other threads of its parent were at work on."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from weakref import WeakSet

_IMPORTING = "<frozen importlib._bootstrap>"  # the file of Python's functions that import
_MOST_SECONDS = 10.0  # that a fork waits for imports


def in_child(renew: Callable[[], None]) -> Callable[[], None]:
    """Call the decorated function in every forked child: it gives the module new locks, as a thread that the child does
    not have may hold the old ones."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)
    return renew


class Lock:
    """A re-entrant lock of an object. In a forked child it is open, unless the thread that forked holds it."""

    __slots__ = ("_lock", "__weakref__")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


_locks: WeakSet[Lock] = WeakSet()


@in_child
def _renew() -> None:
    for lock in _locks:
        if lock._lock.acquire(blocking=False):
            lock._lock.release()
        else:
            lock._lock = threading.RLock()


def _imports(frame: FrameType | None) -> bool:
    """Does a thread import a module of ours, and not just wait until another one has done so?"""
    if frame is not None and frame.f_code.co_filename == _IMPORTING and frame.f_code.co_name == "acquire":
        return False
    while frame is not None:
        if (frame.f_code.co_filename == _IMPORTING and frame.f_code.co_name == "_find_and_load"
                and str(frame.f_locals.get("name")).partition(".")[0] == "rushlight"):
            return True
        frame = frame.f_back
    return False


def _let_imports_end() -> None:
    """A module that another thread has begun to import would stay locked in the child for ever. Most of ours are
    imported when they are first needed.
    """
    own, end = threading.get_ident(), time.monotonic() + _MOST_SECONDS
    while time.monotonic() < end and any(
            thread != own and _imports(frame) for thread, frame in sys._current_frames().items()):
        time.sleep(0.001)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_let_imports_end)
