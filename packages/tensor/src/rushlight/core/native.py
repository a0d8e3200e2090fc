"""When small calls become native: counting them, and the hooks that plans and fronts leave for it.

The cost of a small eager call is Python: the front, the look for the plan, the plan, numpy's argument handling. All of
it can be C functions that numba compiles for us (`rushlight.kernels.cpu.calls`): `a + b` of 16 elements takes 0.15 us
with them and 0.9 without. But numba takes 0.2 s to import, and they take 50 ms to load (2 s where they have to be
compiled, once per machine). So they are installed after `FEW` calls in a process that has numba in memory anyway, and
after `MANY` in one that has not: by then calls have cost what installing costs.

Until then, and for all that native calls do not know, Python does the work; it gives the same results, bit for bit.
`RUSHLIGHT_NATIVE_CALLS=0` switches native calls off, `1` installs them with the first call.
"""

from __future__ import annotations

import itertools
import os
import platform
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any

_SETTING = os.environ.get("RUSHLIGHT_NATIVE_CALLS")
FEW, MANY = (1, 1) if _SETTING == "1" else (20_000, 200_000)
CHECKED = ((3, 11), (3, 13))  # the layout of objects was checked on these versions of CPython, first and last

# Fronts whose closure variable `enter` may be replaced by a native function: (front, plans, arity, are operands
# swapped?).
FRONTS: list[tuple[Callable, Any, int, bool]] = []


class Recent(dict):
    """What was decided per key. `recent` is where native calls look first; every change empties it."""

    __slots__ = ("recent",)

    def __init__(self) -> None:
        self.recent: list[Any] = []

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.forget()

    def clear(self) -> None:
        super().clear()
        self.forget()

    def update(self, *args: Any, **kwargs: Any) -> None:
        super().update(*args, **kwargs)
        self.forget()

    def forget(self) -> None:
        """Let native calls look here again."""
        self.recent[:] = [None] * len(self.recent)


class _Calls:
    """What `rushlight.core.records` offers once it is installed; `wanted` until that was tried."""

    wanted = False
    records: Any = None


_count = itertools.count(1).__next__  # of calls, all threads together
_lock = threading.Lock()  # never waited for: whoever finds it taken goes on in Python


def possible() -> bool:
    """Is this an interpreter whose objects we know, and has nobody switched native calls off?"""
    return (
        _SETTING != "0"
        and platform.python_implementation() == "CPython"
        and CHECKED[0] <= sys.version_info[:2] <= CHECKED[1]
        and getattr(sys, "_is_gil_enabled", lambda: True)()
        and not hasattr(sys, "gettotalrefcount")  # a debug build
        and struct.calcsize("P") == 8
        and sys.byteorder == "little"
    )


_Calls.wanted = possible()


def front(call: Callable, plans: Any, arity: int, *, swapped: bool = False) -> Callable:
    """Offer a front whose closure variable `enter` takes `arity` operands, in the order of the op or `swapped`."""
    FRONTS.append((call, plans, arity, swapped))
    return call


def counted(plan: Callable) -> Callable:
    """A plan that counts its calls as long as that may lead to native ones."""
    if not _Calls.wanted:
        return plan

    def run(*operands: Any) -> Any:
        calls = _count()
        if calls >= FEW and (calls >= MANY or "numba" in sys.modules):
            install()
        return plan(*operands)

    return run


def install() -> bool:
    """Make small calls native from now on; False where that is not possible. All plans are made anew."""
    if _Calls.wanted and _lock.acquire(blocking=False):
        try:
            from rushlight.core import records  # it imports numba

            if records.ready():
                _Calls.wanted = False
                if records.install():
                    _Calls.records = records
                records.forget_plans()
        finally:
            _lock.release()
    return _Calls.records is not None


def loop(function: Any, metas: tuple, compute: Any, out: Any, plan: Callable) -> Callable:
    """The native form of the plan of an elementwise call, if it has one, else the plan."""
    return plan if _Calls.records is None else _Calls.records.loop(function, metas, compute, out, plan)
