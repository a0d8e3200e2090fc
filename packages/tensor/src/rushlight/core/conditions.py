"""`rushlight._check` and its like: conditions that have to hold, with messages that are made when they do not.

Captured functions depend on sizes as far as the conditions do, so they also say what a compiler may take for granted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.tensor import Tensor


def _check_with(error_type: type[Exception], cond: bool, message: Callable[[], str] | None) -> None:
    """Raise an error with a message unless a bool is True. TypeError for other conditions and messages.

    Example:
        >>> import rushlight
        >>> rushlight._check_with(KeyError, 1 < 2, lambda: "1 is no less")
    """
    if not isinstance(cond, bool):
        if isinstance(cond, Tensor):
            raise TypeError("cond must be a bool, but got a Tensor; _check_tensor_all looks at all of its elements")
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error_type("Expected cond to be True, but got False.")
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(str(message()))


def _check(cond: bool, message: Callable[[], str] | None = None) -> None:
    """Raise RuntimeError unless a bool is True."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: bool, message: Callable[[], str] | None = None) -> None:
    """Raise IndexError unless a bool is True."""
    _check_with(IndexError, cond, message)


def _check_value(cond: bool, message: Callable[[], str] | None = None) -> None:
    """Raise ValueError unless a bool is True."""
    _check_with(ValueError, cond, message)


def _check_type(cond: bool, message: Callable[[], str] | None = None) -> None:
    """Raise TypeError unless a bool is True."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: bool, message: Callable[[], str] | None = None) -> None:
    """Raise NotImplementedError unless a bool is True."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: Callable[[], str] | None = None, *, max: Any = None) -> None:
    """Raise RuntimeError unless a number is a size: not negative, and at most `max`."""
    _check_with(RuntimeError, i >= 0, message)
    if max is not None:
        _check_with(RuntimeError, i <= max, message)


def _check_tensor_all(cond: Tensor, message: Callable[[], str] | None = None) -> None:
    """Raise RuntimeError unless all elements of a tensor of bools are True. TypeError for what is none."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    _check_with(RuntimeError, bool(cond.all()), message)


NAMES = {f.__name__: f for f in (_check, _check_index, _check_is_size, _check_not_implemented, _check_tensor_all,
                                 _check_type, _check_value, _check_with)}
