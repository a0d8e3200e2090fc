"""Results that come later: `Future`, `collect_all`, `wait_all`, and `fork`, `wait`.

A future is completed once, by any thread, with a value or an exception; callbacks then run in the order in which they
came.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
S = TypeVar("S")

__all__ = ["Future", "collect_all", "fork", "wait", "wait_all"]


class Future(Generic[T]):
    """A result that some thread will set. `devices` is taken as PyTorch takes it; CPU results need no waiting.

    Example:
        >>> from rushlight.futures import Future
        >>> half = Future()
        >>> whole = half.then(lambda done: 2 * done.value())
        >>> half.set_result(21)
        >>> whole.wait()
        42
    """

    def __init__(self, *, devices: Sequence[Any] | None = None) -> None:
        self._changed = threading.Condition()
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []

    def done(self) -> bool:
        """Is there a value, or an exception?"""
        return self._done

    def wait(self) -> T:
        """The value, once it is there; raises the exception that was set in its place."""
        with self._changed:
            self._changed.wait_for(self.done)
        return self.value()

    def value(self) -> T:
        """The value of a completed future. Raises the exception that was set, RuntimeError before there is either."""
        if not self._done:
            raise RuntimeError("Future.value: the future is not completed yet; use wait()")
        if self._error is not None:
            raise self._error
        return self._value

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """The future of what `callback` makes of this one when it is completed; of its exception if it raises."""
        later: Future[S] = Future()

        def complete(done: Future[T]) -> None:
            try:
                later.set_result(callback(done))
            except Exception as error:
                later.set_exception(error)

        self.add_done_callback(complete)
        return later

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Call `callback` with this future when it is completed, at once if it is. What it raises is printed."""
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        self._call(callback)

    def set_result(self, result: T) -> None:
        """Complete the future with a value. Raises RuntimeError when it is completed already."""
        self._complete(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Complete the future with an exception, which `wait` and `value` raise. AssertionError for anything else."""
        assert isinstance(result, Exception), f"{result} is of type {type(result)}, not an Exception."
        self._complete(None, result)

    def _complete(self, value: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._done:
                raise RuntimeError("Future: Attempting to mark a completed Future as complete again; it can be "
                                   "completed once only")
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            self._call(callback)

    def _call(self, callback: Callable[[Future], Any]) -> None:
        try:
            callback(self)
        except Exception:
            print("Future: a callback raised", traceback.format_exc(), sep="\n", file=sys.stderr)


def collect_all(futures: Sequence[Future]) -> Future[list[Future]]:
    """The future of the list of all these, completed when they all are."""
    together: Future[list[Future]] = Future()
    left, lock = len(futures), threading.Lock()

    def one_done(_: Future) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            together.set_result(list(futures))

    for future in futures:
        future.add_done_callback(one_done)
    if not futures:
        together.set_result([])
    return together


def wait_all(futures: Sequence[Future]) -> list:
    """The values of all futures, in order; raises the first exception among them."""
    return [future.wait() for future in collect_all(futures).wait()]


def fork(function: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
    """The completed future of a call. The call runs at once, as in PyTorch outside of scripts; it raises here.

    Example:
        >>> import rushlight
        >>> rushlight.wait(rushlight.fork(rushlight.add, rushlight.ones(2), 1))
        tensor([2., 2.])
    """
    future: Future[T] = Future()
    future.set_result(function(*args, **kwargs))
    return future


def wait(future: Future[T]) -> T:
    """The value of a future, once it is there. Raises TypeError for anything else."""
    if not isinstance(future, Future):
        raise TypeError(f"wait: expected a Future, got {type(future).__name__}")
    return future.wait()
