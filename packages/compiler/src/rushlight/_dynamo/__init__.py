"""`rushlight._dynamo`: the names by which programs steer PyTorch's capture, answered by `rushlight.compiler`."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from types import SimpleNamespace
from typing import Any

from rushlight.compiler import allow_in_graph, disable, explain, is_compiling, reset
from rushlight.compiler.capture.sizes import DYNAMIC, MAYBE, RANGE, STATIC

__all__ = ["allow_in_graph", "config", "disable", "explain", "is_compiling", "mark_dynamic", "mark_static",
           "maybe_mark_dynamic", "reset"]

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
