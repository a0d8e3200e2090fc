"""When small calls become native: counting them, and the hooks that plans and fronts leave for it.

The cost of a small eager call is Python: the front, the look for the plan, the plan, numpy's argument handling. All of
it can be machine code that LLVM makes for us (`rushlight.kernels.cpu.calls`): `a + b` of 16 elements takes 0.15 us with
it and 0.9 without, with a graph 1.0 and 4. But llvmlite takes 40 ms to import, and the rest 15 to 25 (160 more where
it is not on disk yet). So that is done after `FEW` calls in a process that has llvmlite in memory anyway, and after
`MANY` in one that has not: at 1 to 2 us that a call of a training program saves, calls have cost by then what it costs.

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
from typing import Any, NamedTuple

_SETTING = os.environ.get("RUSHLIGHT_NATIVE_CALLS")
FEW, MANY = (1, 1) if _SETTING == "1" else (10_000, 50_000)
CHECKED = ((3, 11), (3, 13))  # the layout of objects was checked on these versions of CPython, first and last


class Recent(list):
    """The entries among which a native front looks for a plan, one after the other; `changes` counts forgetting."""

    __slots__ = ("changes",)

    def __init__(self) -> None:
        self.changes = 0

    def forget(self) -> None:
        """Let native fronts ask Python again."""
        self.changes += 1
        self[:] = [None] * len(self)


class Plans(dict):
    """Plans, or what else was decided, per key. Every change empties what native fronts remember of them."""

    __slots__ = ("recent", "seen")

    def __init__(self) -> None:
        self.recent = Recent()
        self.seen: set = set()  # what came once

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.recent.forget()

    def clear(self) -> None:
        super().clear()
        self.recent.forget()

    def update(self, *args: Any, **kwargs: Any) -> None:
        super().update(*args, **kwargs)
        self.recent.forget()


class Front(NamedTuple):
    """A function whose closure variable `enter` may be replaced by a native function.

    `kind` is the name of a call in `rushlight.kernels.cpu.calls`, `words` what its record says beside. `entry(*args)`
    gives, after a call of `enter`, what is to be remembered of it, or None.
    """

    call: Callable
    plans: Plans
    kind: str
    words: tuple[int, ...]
    entry: Callable | None


FRONTS: list[Front] = []


class _Calls:
    """The modules that make native calls once they are installed; `wanted` until that was tried."""

    wanted = False
    plans: Any = None


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


def front(call: Callable, plans: Plans, kind: str, *words: int, entry: Callable | None = None) -> Callable:
    """Offer a function that has the closure variable `enter`: see `Front`."""
    FRONTS.append(Front(call, plans, kind, words, entry))
    return call


class At(NamedTuple):
    """An index operand: its strides over the walked shape, and the dimension of `size` that it picks from, whose
    elements lie `step` apart (both in elements). `wraps`: negative indices count from the end."""

    strides: tuple[int, ...]
    size: int
    step: int
    wraps: bool


LOOPS: set[Callable] = set()  # functions of arrays that small calls may turn into a row of numpy's loops


def of_loops(function: Callable) -> Callable:
    """Say that a kernel, or the numpy form of a reduction, is written in ufuncs, their reductions and `where` as long
    as it is called with few elements: see `rushlight.core.native_sequences`."""
    LOOPS.add(function)
    return function


def counted(plan: Callable) -> Callable:
    """A plan that counts its calls as long as that may lead to native ones."""
    if not _Calls.wanted:
        return plan

    def run(*operands: Any) -> Any:
        calls = _count()
        if calls >= FEW and (calls >= MANY or "llvmlite" in sys.modules):
            install()
        return plan(*operands)

    return run


def install() -> bool:
    """Make small calls native from now on; False where that is not possible. All plans are made anew."""
    if _Calls.wanted and _lock.acquire(blocking=False):
        try:
            from rushlight.core import native_fronts, native_plans  # they import llvmlite

            if native_fronts.ready():
                _Calls.wanted = False
                if native_fronts.install():
                    _Calls.plans = native_plans
                native_fronts.forget_plans()
        except ImportError:  # there is no llvmlite that works, or the interpreter is about to end
            _Calls.wanted = False
        finally:
            _lock.release()
    return installed()


def installed() -> bool:
    """Are small calls native?"""
    return _Calls.plans is not None


def form(kind: str, plan: Callable, *how: Any, **more: Any) -> Callable:
    """The native form of a plan, or the plan itself while there is none: functions of `rushlight.core.native_plans`."""
    return plan if _Calls.plans is None else getattr(_Calls.plans, kind)(plan, *how, **more)
