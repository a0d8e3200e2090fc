"""Settings of the compiler."""

from __future__ import annotations

import threading
from collections.abc import Callable

ENTRY_LIMIT = 8  # captured variants kept per function before it stays eager
PATH_LIMIT = 64  # the same of variants that are paths through control flow on data
OUTCOME_LIMIT = 16  # calls that decide in a way for which there is no variant, before there are none at all
CHILD_LIMIT = 8  # outcomes of one decision that are captured
# Calls to wait after each capture that was given up: in the end what is spent on trying is little beside the calls.
RETRY_AFTER = (2, 4, 8, 16, 32, 64, 128, 256)
CALLS_BEFORE_NATIVE_GUARDS = 30  # a record of guards takes as long to write as so many calls gain by it; -1: none ever

LAZY = True  # are calls that cannot be captured tried with their operations put off?
LAZY_CALLS_BEFORE = 1  # how often operations that were put off run one by one before there is a program for them
LAZY_PROGRAMS = 64  # programs of operations that were put off, per function

raise_internal_errors = False  # the tests of the compiler set it: elsewhere a failing compiler means eager execution

default_backend: str | Callable = "inductor"  # see `set_default_backend`

STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")


class _Stance(threading.local):
    """What compiled functions do on this thread; see `set_stance`."""

    name = "default"
    disabled = 0


stance = _Stance()


class set_stance:
    """Say what compiled functions do from now on, or inside a `with` block: `default`, `force_eager`,
    `eager_on_recompile`
    (use what is compiled, capture nothing new) or `fail_on_recompile`.

    Raises RuntimeError for another name.

    Example:
        >>> import rushlight
        >>> with rushlight.compiler.set_stance("force_eager"):
        ...     rushlight.compile(lambda x: x + 1)(rushlight.ones(1))
        tensor([2.])
    """

    def __init__(self, stance_name: str = "default") -> None:
        if stance_name not in STANCES:
            raise RuntimeError(f"set_stance: unknown stance {stance_name!r}; expected one of {', '.join(STANCES)}")
        self.before = stance.name
        stance.name = stance_name

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        stance.name = self.before
