"""Autocast regions.

A region casts operands as a handler above the one of the capture, so it is entered for real during the dry run, and the
casts become a part of the graph. A program that is called inside a region is captured as if the region were its own;
its entry then runs below all handlers, for regions like the one it was captured in.

Autocast belongs to rushlight-nn, which the compiler does not import: its classes are known by name.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.guard_codegen import MISS
from rushlight.compiler.capture.value import Value
from rushlight.core import dispatch

if TYPE_CHECKING:
    from rushlight.compiler.capture.session import Session

_HOME = "rushlight.amp.autocast_mode"


class RegionV(Value):
    """An autocast region that the program made or found; `real` is one of our own with the same settings."""

    __slots__ = ("real",)

    def __init__(self, real: Any) -> None:
        self.real = real


def is_region(cls: type) -> bool:
    """Is it the class of autocast regions?"""
    return cls.__name__ == "autocast" and cls.__module__ == _HOME


def make(session: Session, cls: type, device: str, dtype: Any, enabled: bool, cached: bool | None) -> RegionV:
    """A region with these settings; None stands for what the thread is set to."""
    if device != "cpu":
        raise Abort("an autocast region for another device")
    settings = sys.modules["rushlight.amp.state"]
    if dtype is None:
        session.settings.append((functools.partial(settings.get_autocast_dtype, device),
                                 settings.get_autocast_dtype(device)))
    if cached is None:
        session.settings.append((settings.is_autocast_cache_enabled, settings.is_autocast_cache_enabled()))
    return RegionV(cls(device, dtype, enabled, cached))


def enter(session: Session, region: RegionV) -> None:
    """Begin a region."""
    region.real.__enter__()
    session.regions.append(region.real)


def leave(session: Session, region: RegionV) -> None:
    """End a region."""
    if not session.regions or session.regions[-1] is not region.real:
        raise Abort("autocast regions that overlap")
    session.regions.pop().__exit__(None, None, None)


def surrounding() -> tuple | None:
    """The regions that are active on this thread; None when other handlers are, too."""
    handlers = dispatch.handlers()
    if not all(type(h).__module__ == _HOME for h in handlers):
        return None
    if not handlers:
        return ()
    state = sys.modules["rushlight.amp.state"].state
    return None if state.busy else (tuple(state.enabled.items()), tuple(state.dtype.items()), state.cached)


@contextmanager
def as_its_own(session: Session, region: tuple | None) -> Iterator[None]:
    """Run a dry run as if the surrounding region were the program's; ends whatever regions it leaves open."""
    settings = sys.modules["rushlight.amp.state"].state if region else None
    casts = dict(settings.casts) if settings is not None else {}
    try:
        if settings is not None:
            autocast = sys.modules[_HOME].autocast
            for device, enabled in settings.enabled.items():
                if enabled:
                    enter(session, make(session, autocast, device, settings.dtype[device], True, settings.cached))
            session.outer_regions = len(session.regions)
            settings.casts.clear()
        yield
        if len(session.regions) != session.outer_regions:
            raise Abort("an autocast region that the program leaves open")
    finally:
        while session.regions:
            session.regions.pop().__exit__(None, None, None)
        if settings is not None:
            settings.casts.clear()
            settings.casts.update(casts)


@contextmanager
def casts_apart() -> Iterator[None]:
    """Forget afterwards the casts of weights that a region keeps in the block."""
    settings = sys.modules.get("rushlight.amp.state")
    before = {} if settings is None else dict(settings.state.casts)
    try:
        yield
    finally:
        if settings is not None:
            settings.state.casts.clear()
            settings.state.casts.update(before)


def inside(run: Callable[[tuple, dict], Any], region: tuple) -> Callable[[tuple, dict], Any]:
    """The entry of a program for calls inside a region like the one it was captured in."""

    def call(args: tuple, kwargs: dict) -> Any:
        if surrounding() != region:
            return MISS
        with dispatch.push(None):
            return run(args, kwargs)

    return call


def again(function: Callable[[tuple, dict], Any]) -> Callable[[tuple, dict], Any]:
    """A function that runs with the handlers that `inside` took off."""

    def call(args: tuple, kwargs: dict) -> Any:
        with ExitStack() as stack:
            for handler in [h for h in dispatch.handlers() if h is not None]:
                stack.enter_context(dispatch.push(handler))
            return function(args, kwargs)

    return call
