"""`fork` and `wait`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Future:
    """The result of a `fork`, or of whoever calls `set_result`."""

    def __init__(self) -> None:
        self._done = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []

    def done(self) -> bool:
        """Is there a result, or an error?"""
        return self._done

    def wait(self) -> Any:
        """The result; raises what `fork`'s function raised, and RuntimeError when there is no result yet."""
        if not self._done:
            raise RuntimeError("Future: there is no result, and nobody who works on one: call set_result first")
        if self._error is not None:
            raise self._error
        return self._result

    value = wait

    def set_result(self, result: Any) -> None:
        """Set the result. RuntimeError when there is one."""
        self._finish(result, None)

    def set_exception(self, error: BaseException) -> None:
        """Set an error, which `wait` raises."""
        self._finish(None, error)

    def _finish(self, result: Any, error: BaseException | None) -> None:
        if self._done:
            raise RuntimeError("Future: the result is there already")
        self._result, self._error, self._done = result, error, True
        for callback in self._callbacks:
            callback(self)

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call `callback(future)` when there is a result; now, if there is."""
        if self._done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """The future of `callback(future)`."""
        made = Future()

        def follow(future: Future) -> None:
            try:
                made.set_result(callback(future))
            except Exception as error:
                made.set_exception(error)

        self.add_done_callback(follow)
        return made


def fork(func: Callable, *args: Any, **kwargs: Any) -> Future:
    """The future of `func(*args, **kwargs)`, which is called now: as in PyTorch's Python, nothing runs beside it.

    Example:
        >>> import rushlight
        >>> rushlight.jit.wait(rushlight.jit.fork(lambda x: x + 1, rushlight.ones(1)))
        tensor([2.])
    """
    made = Future()
    try:
        made.set_result(func(*args, **kwargs))
    except Exception as error:
        made.set_exception(error)
    return made


def wait(future: Future) -> Any:
    """The result of a `fork`."""
    return future.wait()
