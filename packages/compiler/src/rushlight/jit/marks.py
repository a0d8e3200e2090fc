"""Marks that model files set for TorchScript. Python is the only language here, so most of them change nothing."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.compiler import disable


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Mark a function to be left to Python: `disable`. As decorator with and without arguments."""
    return disable(drop) if callable(drop) else disable


def unused(fn: Callable) -> Callable:
    """Mark a method that scripts do not call; it stays as it is."""
    return fn


def export(fn: Callable) -> Callable:
    """Mark a method that a scripted module has beside `forward`, and that `save` stores when it was called."""
    fn._rushlight_exported = True  # type: ignore[attr-defined]
    return fn


def interface(obj: Any) -> Any:
    """Mark a class as an interface; it stays as it is."""
    return obj


def is_scripting() -> bool:
    """False: code always runs as Python."""
    return False


def is_tracing() -> bool:
    """False: nothing runs on the values of an example."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value: the type is a hint for TorchScript."""
    return the_value


def Attribute(value: Any, type: Any) -> Any:  # noqa: N802  the name that programs use
    """The value: the type is a hint for TorchScript."""
    return value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's own `isinstance`."""
    return builtins.isinstance(obj, target_type)


def script_if_tracing(fn: Callable) -> Callable:
    """The function itself: nothing here traces."""
    return fn


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Changes nothing: which sizes stay open is learnt from calls. Gives the strategy back, as the one before."""
    return strategy


def enable_onednn_fusion(enabled: bool) -> None:
    """Changes nothing: operations are fused by `rushlight.compile`."""


def onednn_fusion_enabled() -> bool:
    """False: there is no such library here."""
    return False


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """A block in which PyTorch would use this fuser; there is one here."""
    yield


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A block in which PyTorch would optimise scripts, or not; results are the same."""
    yield


class strict_fusion(contextlib.nullcontext):  # noqa: N801  PyTorch's name
    """A block in which PyTorch would warn of what is not fused."""


def unchanged(fn: Callable) -> Callable:
    """The function as it is: what other marks for the TorchScript compiler give."""
    return fn
