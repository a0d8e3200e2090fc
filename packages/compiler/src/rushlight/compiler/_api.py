"""`compile` and the functions around it."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Any

from rushlight.compiler import _config
from rushlight.compiler._compiled import Compiled, original_of, wrapper
from rushlight.compiler._module import optimized_module
from rushlight.compiler.backends import registry
from rushlight.compiler.capture import allow

MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_all: weakref.WeakSet[Compiled] = weakref.WeakSet()


def compile(model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None,
            backend: str | Callable | None = None,
            mode: str | None = None, options: dict | None = None, disable: bool = False) -> Any:
    """A function, module or bound method that gives the same results from fused native code.

    The first call (and the first with other shapes, types or Python values that matter) captures the operations; what
    cannot be
    captured runs eagerly. `fullgraph=True` makes that an error. Works as a decorator with and without arguments.
    `backend` is a
    name of `rushlight.compiler.list_backends()` or a function `(graph, example_metas, options) -> callable(list) ->
    list`; when left out it is what `set_default_backend` said, else `"inductor"`.

    Raises RuntimeError for unknown modes or backends, or both `mode` and `options`.

    Example:
        >>> import rushlight
        >>> @rushlight.compile
        ... def f(x):
        ...     return x.exp() + 1
        >>> f(rushlight.zeros(2))
        tensor([2., 2.])
    """
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                                 options=options,
                                 disable=disable)
    if mode is not None and options is not None:
        raise RuntimeError("compile: either mode or options can be given, not both")
    if mode not in MODES:
        raise RuntimeError(f"compile: unrecognized mode {mode!r}; expected one of {', '.join(map(str, MODES[1:]))}")
    if disable:
        return model
    if not callable(model):
        raise TypeError(f"compile: expected a function or module, got {type(model).__name__}")
    backend = _config.default_backend if backend is None else backend
    lazy = backend == "lazy"
    if lazy and fullgraph:
        raise RuntimeError("compile: backend 'lazy' runs a function in pieces; leave fullgraph away, or take another "
                           "backend to have it captured whole")
    call = _lazy_backend((options or {}).get("programs", "inductor") if lazy else backend)
    settings = {**(options or {}), "mode": mode, "dynamic": dynamic}
    module_base = None if inspect.isclass(model) else allow.module_type(model)
    if module_base is not None:
        return optimized_module(model, module_base, lambda fn: wrapper(_new(fn, call, settings, fullgraph, lazy)))
    return wrapper(_new(original_of(model), call, settings, fullgraph, lazy))


def _new(fn: Callable, backend: Callable, options: dict, fullgraph: bool, lazy: bool) -> Compiled:
    state = Compiled(fn, backend, options, fullgraph, lazy)
    _all.add(state)
    return state


def _lazy_backend(backend: str | Callable) -> Callable:
    if callable(backend):
        return backend
    if not isinstance(backend, str):
        raise TypeError(f"compile: backend must be a name or a function, got {type(backend).__name__}")
    if backend not in registry.OWN:
        return registry.lookup(backend)

    def load_when_needed(graph: Any, metas: list, options: dict) -> Callable:
        return registry.lookup(backend)(graph, metas, options)  # code generators take long to load

    def opened(graph: Any, facts: Any, options: dict) -> Any:
        from rushlight.compiler.backends.opened import family  # code generators take long to load

        return family(backend, graph, facts, options)

    load_when_needed.opened = opened  # type: ignore[attr-defined]
    return load_when_needed


def disable(fn: Callable | None = None, recursive: bool = True) -> Any:
    """A function that is never captured: compiled callers run eagerly around it, and compiled functions inside it too.

    Example:
        >>> import rushlight
        >>> @rushlight.compiler.disable
        ... def f(x):
        ...     return x + 1
        >>> f(rushlight.ones(1))
        tensor([2.])
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive)
    fn = original_of(fn)

    @functools.wraps(fn)
    def eager(*args: Any, **kwargs: Any) -> Any:
        if not recursive:
            return fn(*args, **kwargs)
        stance = _config.stance
        stance.disabled += 1
        try:
            return fn(*args, **kwargs)
        finally:
            stance.disabled -= 1

    eager._rushlight_disabled = True
    return eager


def is_compiling() -> bool:
    """Is the calling code being captured right now? False whenever it really runs.

    Example:
        >>> import rushlight
        >>> rushlight.compiler.is_compiling()
        False
    """
    return False


def reset() -> None:
    """Forget everything that was compiled in this process.

    Example:
        >>> import rushlight
        >>> rushlight.compiler.reset()
    """
    for state in list(_all):
        state.reset()


def list_backends(exclude_tags: tuple = ("debug", "experimental")) -> list[str]:
    """The names that `compile(backend=...)` takes.

    Example:
        >>> import rushlight
        >>> "eager" in rushlight.compiler.list_backends(exclude_tags=())
        True
    """
    return sorted([*registry.list_backends(exclude_tags), "lazy"])


def register_backend(name: str, fn: Callable | None = None, *, tags: tuple = ()) -> Any:
    """Make `compile(backend=name)` use `fn(graph, example_metas, options) -> callable(list) -> list`.

    Works as a decorator when `fn` is left out.
    """
    if fn is None:
        return lambda function: register_backend(name, function, tags=tags)
    registry.register_backend(name, fn, tags=tags)
    return fn


def get_default_backend() -> str | Callable:
    """The backend of `compile` when none is named.

    Example:
        >>> import rushlight
        >>> rushlight.compiler.get_default_backend()
        'inductor'
    """
    return _config.default_backend


def set_default_backend(backend: str | Callable | None) -> None:
    """Say which backend `compile` uses from now on when none is named; None means `"inductor"`.

    Raises ValueError for an unknown name, RuntimeError for a backend that needs something that is not installed.

    Example:
        >>> import rushlight
        >>> rushlight.compiler.set_default_backend("eager")
        >>> rushlight.compiler.set_default_backend(None)
    """
    if backend is not None and backend != "lazy":
        _lazy_backend(backend)
    _config.default_backend = "inductor" if backend is None else backend


__all__ = ["compile", "disable", "get_default_backend", "is_compiling", "list_backends", "register_backend", "reset",
           "set_default_backend"]
