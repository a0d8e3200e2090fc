"""Grad modes: whether operations record, per thread, as context managers and decorators."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any


class _Mode(threading.local):
    """What this thread records.

    `plain` is the one thing the hot path reads: grad mode is on and nothing else (saved-tensor hooks, anomaly mode)
    wants to see a recorded call.
    """

    def __init__(self) -> None:
        self.plain = True
        self.enabled = True
        self.inference = False
        self.anomaly = False
        self.check_nan = True
        self.saved_hooks: list[tuple[Callable, Callable]] = []
        self.hooks_forbidden: str | None = None
        self.at_end: list[Callable[[], None]] | None = None  # what the backward pass that runs calls when it is done
        self.grad_layout = True  # do gradients get the strides of their leaf?
        self.partial: set | None = None  # the nodes that a backward pass to some inputs reaches; None: all there are

    def update(self) -> None:
        """Recompute `plain` after a change."""
        self.plain = self.enabled and not self.saved_hooks and not self.anomaly


mode = _Mode()


def set_enabled(value: bool) -> None:
    """Switch recording on or off on this thread."""
    mode.enabled = value
    mode.update()


def is_grad_enabled() -> bool:
    """Do operations on this thread record for gradients?

    Example:
        >>> import rushlight
        >>> with rushlight.no_grad():
        ...     rushlight.is_grad_enabled()
        False
    """
    return mode.enabled


def is_inference_mode_enabled() -> bool:
    """Is this thread inside `inference_mode()`?"""
    return mode.inference


class Decorating:
    """A context manager that also decorates functions, generators, coroutines and asynchronous generators.

    A decorated generator runs its body inside the context and its caller's code outside of it.
    """

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *exception: Any) -> None:
        raise NotImplementedError

    def fresh(self) -> Decorating:
        """A context like this one, for one call of a decorated function."""
        return type(self)()

    def __call__(self, function: Callable) -> Callable:
        if inspect.isclass(function):
            raise TypeError(
                f"{type(self).__name__}: expected a function to decorate, got the class {function.__name__}; "
                "decorate its methods"
            )
        if inspect.isgeneratorfunction(function):
            return _wrap_generator(self.fresh, function)
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def call(*args, **kwargs):
                with self.fresh():
                    return await function(*args, **kwargs)
        elif inspect.isasyncgenfunction(function):
            return _wrap_async_generator(self.fresh, function)
        else:

            @functools.wraps(function)
            def call(*args, **kwargs):
                with self.fresh():
                    return function(*args, **kwargs)

        return call


def _wrap_generator(context: Callable, function: Callable) -> Callable:
    @functools.wraps(function)
    def call(*args, **kwargs):
        generator = function(*args, **kwargs)
        step, sent = generator.send, (None,)
        while True:
            try:
                with context():
                    value = step(*sent)
            except StopIteration as stop:
                return stop.value
            try:
                step, sent = generator.send, ((yield value),)
            except GeneratorExit:
                with context():
                    generator.close()
                raise
            except BaseException as error:
                step, sent = generator.throw, (error,)

    return call


def _wrap_async_generator(context: Callable, function: Callable) -> Callable:
    @functools.wraps(function)
    async def call(*args, **kwargs):
        generator = function(*args, **kwargs)
        step, sent = generator.asend, (None,)
        while True:
            try:
                with context():
                    value = await step(*sent)
            except StopAsyncIteration:
                return
            try:
                step, sent = generator.asend, ((yield value),)
            except GeneratorExit:
                with context():
                    await generator.aclose()
                raise
            except BaseException as error:
                step, sent = generator.athrow, (error,)

    return call


class _Switch(Decorating):
    """Sets grad mode inside the block and restores it after."""

    value: bool

    def __new__(cls, function: Callable | None = None) -> Any:
        made = object.__new__(cls)
        return made if function is None else made(function)

    def __enter__(self) -> None:
        self.before = mode.enabled
        set_enabled(self.value)

    def __exit__(self, *exception: Any) -> None:
        set_enabled(self.before)


class no_grad(_Switch):
    """Nothing inside the block (or the decorated function) records for gradients.

    Example:
        >>> import rushlight
        >>> x = rushlight.ones(2, requires_grad=True)
        >>> with rushlight.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    value = False


class enable_grad(_Switch):
    """Operations inside the block record again, even within `no_grad`.

    Example:
        >>> import rushlight
        >>> x = rushlight.ones(2, requires_grad=True)
        >>> with rushlight.no_grad(), rushlight.enable_grad():
        ...     (x * 2).requires_grad
        True
    """

    value = True


class set_grad_enabled(Decorating):
    """Switch recording on or off: at once as a function, until the end of the block as a context manager.

    Example:
        >>> import rushlight
        >>> with rushlight.set_grad_enabled(False):
        ...     rushlight.is_grad_enabled()
        False
    """

    def __init__(self, mode_: bool) -> None:
        self.value = bool(mode_)
        self.before = mode.enabled
        set_enabled(self.value)

    def __enter__(self) -> None:
        set_enabled(self.value)

    def __exit__(self, *exception: Any) -> None:
        set_enabled(self.before)

    def __call__(self, function: Callable) -> Callable:
        set_enabled(self.before)
        return super().__call__(function)

    def fresh(self) -> set_grad_enabled:
        return type(self)(self.value)


class inference_mode(Decorating):
    """Like `no_grad`, and says that the results never take part in gradients; `inference_mode(False)` ends it.

    Example:
        >>> import rushlight
        >>> with rushlight.inference_mode():
        ...     rushlight.is_inference_mode_enabled()
        True
    """

    def __new__(cls, mode_: bool | Callable = True) -> Any:
        if callable(mode_):
            return cls()(mode_)
        return object.__new__(cls)

    def __init__(self, mode_: bool = True) -> None:
        self.value = bool(mode_)

    def __enter__(self) -> None:
        self.before = mode.enabled, mode.inference
        if self.value or mode.inference:
            set_enabled(not self.value)
        mode.inference = self.value

    def __exit__(self, *exception: Any) -> None:
        enabled, mode.inference = self.before
        set_enabled(enabled)

    def fresh(self) -> inference_mode:
        return type(self)(self.value)


class enforce_grad_layout_policy(Decorating):
    """Say whether the gradient of a leaf gets the leaf's strides (the default): at once as a function, until the end of
    the block as a context manager.

    Without it a fresh gradient that nobody else holds becomes the leaf's `grad` as it is, which saves a copy.

    Example:
        >>> import rushlight
        >>> x = rushlight.ones(2, 3).t().requires_grad_()
        >>> with rushlight.autograd.enforce_grad_layout_policy(False):
        ...     (x * rushlight.ones(3, 2)).sum().backward()
        >>> x.stride(), x.grad.stride()
        ((1, 3), (2, 1))
    """

    def __init__(self, enable: bool = True) -> None:
        self.value, self.before = bool(enable), mode.grad_layout
        mode.grad_layout = self.value

    def __enter__(self) -> None:
        mode.grad_layout = self.value

    def __exit__(self, *exception: Any) -> None:
        mode.grad_layout = self.before

    def __call__(self, function: Callable) -> Callable:
        mode.grad_layout = self.before
        return super().__call__(function)

    def fresh(self) -> enforce_grad_layout_policy:
        return type(self)(self.value)


class set_multithreading_enabled(Decorating):
    """Accepted for PyTorch's sake: a backward pass always runs on the thread that asks for it."""

    def __init__(self, mode_: bool) -> None:
        self.value = bool(mode_)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: Any) -> None:
        pass

    def fresh(self) -> set_multithreading_enabled:
        return type(self)(self.value)
