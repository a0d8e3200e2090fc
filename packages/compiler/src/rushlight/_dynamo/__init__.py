"""`rushlight._dynamo`: the names by which programs steer PyTorch's capture, answered by `rushlight.compiler`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from math import inf
from types import SimpleNamespace
from typing import Any

from rushlight.compiler import (
    allow_in_graph,
    assume_constant_result,
    compile,
    disable,
    explain,
    is_compiling,
    list_backends,
    register_backend,
    reset,
    set_stance,
    substitute_in_graph,
)
from rushlight.compiler._module import module_class
from rushlight.compiler.capture.sizes import DYNAMIC, MAYBE, RANGE, STATIC
from rushlight.core import siblings

__all__ = ["OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable", "explain",
           "is_compiling", "list_backends", "mark_dynamic", "mark_static", "maybe_mark_dynamic", "optimize",
           "register_backend", "reset", "set_stance", "substitute_in_graph"]

# Switches that programs set. None has an effect: capture falls back by itself and keeps up to 8 variants a function.
config = SimpleNamespace(suppress_errors=False, cache_size_limit=8, recompile_limit=8, verbose=False)


def mark_dynamic(t: Any, index: int | Sequence[int], *, min: int | None = None, max: int | None = None,
                 hint_override: int | None = None, specialize_on: Any = None) -> None:
    """Keep sizes of a tensor open from the first capture on: one program serves all of them from `min` to `max`.

    Sizes 0 and 1 are plain numbers even so. A compiled function raises ConstraintViolationError, a RuntimeError, where
    it needs the number of a marked size. `hint_override` and `specialize_on` are taken and change nothing.

    Example:
        >>> import rushlight
        >>> x = rushlight.ones(3, 2)
        >>> rushlight._dynamo.mark_dynamic(x, 0)
        >>> f = rushlight.compile(lambda x: x.view(-1) * x.shape[0])
        >>> f(x)
        tensor([3., 3., 3., 3., 3., 3.])
        >>> print(*rushlight.compiler.explain(f)(x).sizes)
        args[0].shape[0] stays open as s0
    """
    _mark(t, index, DYNAMIC)
    if min is not None or max is not None:
        limits = t.__dict__.setdefault(RANGE, {})
        for d in _dims(t, index):
            limits[d] = (min or 0, inf if max is None else max)


def maybe_mark_dynamic(t: Any, index: int | Sequence[int]) -> None:
    """Keep sizes of a tensor open from the first capture on, unless a compiled function needs their numbers."""
    _mark(t, index, MAYBE)


def mark_static(t: Any, index: int | Sequence[int] | None = None) -> None:
    """Take sizes of a tensor (all by default) as plain numbers, however often they change."""
    _mark(t, range(t.ndim) if index is None else index, STATIC)


def _mark(t: Any, index: int | Sequence[int], mark: str) -> None:
    t.__dict__.setdefault(mark, set()).update(_dims(t, index))


def _dims(t: Any, index: int | Sequence[int]) -> list[int]:
    dims = [index] if isinstance(index, int) else list(index)
    for d in dims:
        if not -t.ndim <= d < t.ndim:
            raise IndexError(f"mark_dynamic: the tensor has {t.ndim} dimensions, there is no dimension {d}")
    return [d % t.ndim for d in dims]


def optimize(backend: Any = "inductor", *, nopython: bool = False, dynamic: bool | None = None, disable: bool = False,
             **options: Any) -> Any:
    """The earlier form of `compile`: a decorator that compiles with a backend; `nopython` is `fullgraph`.

    Example:
        >>> import rushlight
        >>> rushlight._dynamo.optimize("eager")(lambda x: x + 1)(rushlight.ones(1))
        tensor([2.])
    """
    return lambda model: compile(model, backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable)


def __getattr__(name: str) -> Any:
    if name == "OptimizedModule":  # compiled modules are instances of it
        return module_class(siblings.root_name("nn").Module)
    if name == "eval_frame":  # asked for without an import
        return import_module("rushlight._dynamo.eval_frame")
    raise AttributeError(f"module 'rushlight._dynamo' has no attribute {name!r}")
