"""What a forked child has to do before it uses state that other threads of its parent were at work on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from weakref import WeakSet


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
