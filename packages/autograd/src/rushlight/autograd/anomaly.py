"""Anomaly mode: when a gradient is NaN or a backward pass fails, show the line of the forward pass behind it."""

from __future__ import annotations

import re
import traceback
import warnings
from typing import Any

from rushlight.autograd.batches import all_samples
from rushlight.autograd.modes import Decorating, mode
from rushlight.autograd.node import LAST_WRITES, Node, OpNode
from rushlight.core.tensor import Tensor

_SELF = re.compile(r"[/\\]rushlight[/\\]|^<rushlight")


class set_detect_anomaly(Decorating):
    """Switch anomaly mode on or off: at once as a function, until the end of the block as a context manager.

    In anomaly mode a backward pass that fails, or (with `check_nan`) makes a NaN, warns with the stack of the forward
    call.
    """

    def __init__(self, mode_: bool, check_nan: bool = True) -> None:
        self.before = mode.anomaly, mode.check_nan
        self.value = bool(mode_), check_nan
        self._set(self.value)

    def __enter__(self) -> None:
        self._set(self.value)

    def __exit__(self, *exception: Any) -> None:
        self._set(self.before)

    def fresh(self) -> set_detect_anomaly:
        return set_detect_anomaly(*self.value)

    @staticmethod
    def _set(value: tuple[bool, bool]) -> None:
        mode.anomaly, mode.check_nan = value
        mode.update()


class detect_anomaly(Decorating):
    """Anomaly mode inside the block: see `set_detect_anomaly`. Everything runs slower in it.

    Example:
        >>> import rushlight
        >>> with rushlight.autograd.detect_anomaly():
        ...     rushlight.autograd.is_anomaly_enabled()
        True
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan

    def __enter__(self) -> None:
        self.before = mode.anomaly, mode.check_nan
        set_detect_anomaly._set((True, self.check_nan))

    def __exit__(self, *exception: Any) -> None:
        set_detect_anomaly._set(self.before)

    def fresh(self) -> detect_anomaly:
        return detect_anomaly(self.check_nan)


def is_anomaly_enabled() -> bool:
    """Is this thread in anomaly mode?"""
    return mode.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Does anomaly mode look for NaN?"""
    return mode.check_nan


def note_stack(node: Node) -> None:
    """Keep the stack of the call that is making a node, up to the user's line."""
    node.rare().stack = _stack()


def note_write(x: Tensor, node: Node) -> None:
    """Keep the stack of the operation in place that is making a node, for errors about what it wrote to."""
    name = node.recipe.op.name if isinstance(node, OpNode) else node.name()
    LAST_WRITES[x.storage()] = f"{name} here:\n{_stack()}"


def _stack() -> str:
    """The stack of the present call, up to the user's line."""
    return "".join(traceback.format_list(_outside(traceback.extract_stack())))


def _outside(frames: list) -> list:
    """The frames without the innermost ones that lie in rushlight itself."""
    end = len(frames)
    while end > 1 and _SELF.search(frames[end - 1].filename):
        end -= 1
    return frames[:end]


def check_finite(node: Node, results: list) -> None:
    """Raise RuntimeError when a gradient holds a NaN."""
    for i, grad in enumerate(results):
        if grad is None:
            continue
        values = all_samples(grad).detach()
        if bool((values != values).any()):
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")


def warn_where(node: Node) -> None:
    """Warn with the stack of the forward call that made a node."""
    stack = node.extras.stack if node.extras is not None else None
    if stack is None:
        text = "No forward pass information available: enable anomaly detection during the forward pass."
    else:
        text = f"Traceback of forward call that caused the error:\n{stack}"
    warnings.warn(f"Error detected in {node.name()}. {text}", stacklevel=2)
