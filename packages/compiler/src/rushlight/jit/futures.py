"""`fork` and `wait`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.futures import Future


def fork(func: Callable, *args: Any, **kwargs: Any) -> Future:
    """The future of `func(*args, **kwargs)`, which is called now: as in PyTorch's Python, nothing runs beside it.

    Example:
        >>> import rushlight
        >>> rushlight.jit.wait(rushlight.jit.fork(lambda x: x + 1, rushlight.ones(1)))
        tensor([2.])
    """
    made: Future = Future()
    try:
        made.set_result(func(*args, **kwargs))
    except Exception as error:
        made.set_exception(error)
    return made


def wait(future: Future) -> Any:
    """The result of a `fork`."""
    return future.wait()


__all__ = ["Future", "fork", "wait"]
