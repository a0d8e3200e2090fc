"""Marks: what users tell the compiler about functions, and about where they are in their program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.compiler.capture import allow, marks


def allow_in_graph(fn: Any) -> Any:
    """Let functions run as they are during capture: they may only compute on their arguments with rushlight's
    operations.

    Example:
        >>> import rushlight
        >>> @rushlight.compiler.allow_in_graph
        ... def double(x):
        ...     return x * 2
        >>> rushlight.compile(lambda x: double(x), backend="eager")(rushlight.ones(1))
        tensor([2.])
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(f) for f in fn]
    if not callable(fn):
        raise TypeError(f"allow_in_graph: expected a function, got {type(fn).__name__}")
    return allow.allow_in_graph(fn)


def assume_constant_result(fn: Callable) -> Callable:
    """Let a call of `fn` during capture stand for its result: `fn` runs once, and compiled code never calls it again.

    Nothing checks that the result really stays the same. Returns `fn`.

    Raises TypeError for what is no Python function.

    Example:
        >>> import os, rushlight
        >>> @rushlight.compiler.assume_constant_result
        ... def scale():
        ...     return float(os.environ.get("SCALE_OF_THIS_EXAMPLE", 3))
        >>> rushlight.compile(lambda x: x * scale(), backend="eager", fullgraph=True)(rushlight.ones(1))
        tensor([3.])
    """
    if not hasattr(fn, "__code__"):
        raise TypeError(f"assume_constant_result: expected a Python function, got {type(fn).__name__}")
    fn._rushlight_constant = True  # type: ignore[attr-defined]
    return fn


def substitute_in_graph(original_fn: Callable, *, can_constant_fold_through: bool = False,
                        skip_signature_check: bool = False) -> Callable[[Callable], Callable]:
    """Decorate a Python function that capture reads in place of `original_fn`, which it cannot look into.

    Eager calls, and calls of what the decorator returns, run the original. `can_constant_fold_through` changes nothing:
    what depends on constants only is always computed at once.

    Raises TypeError when the two take different arguments, ValueError when there is a substitute already.

    Example:
        >>> import bisect, rushlight
        >>> @rushlight.compiler.substitute_in_graph(bisect.bisect_left, skip_signature_check=True)
        ... def position(items, x):
        ...     return sum([item < x for item in items])
        >>> rushlight.compile(lambda x: x * bisect.bisect_left([1, 3, 5], 4), fullgraph=True)(rushlight.ones(1))
        tensor([2.])
    """
    def decorate(fn: Callable) -> Callable:
        marks.substitute(original_fn, fn, not skip_signature_check)  # type: ignore[arg-type]
        return original_fn

    return decorate


def nested_compile_region(fn: Callable | None = None, **options: Any) -> Callable:
    """Mark a function that repeats in a program, such as a layer: the compiler need not make its code again.

    Kernels are found by what they compute, so equal parts share their code with and without the mark; `fn` comes back
    as it is.

    Example:
        >>> import rushlight
        >>> @rushlight.compiler.nested_compile_region
        ... def layer(x):
        ...     return x.relu() + 1
        >>> rushlight.compile(lambda x: layer(layer(x)))(rushlight.zeros(1))
        tensor([2.])
    """
    return fn if fn is not None else lambda function: function


def is_dynamo_compiling() -> bool:
    """Is the calling code being captured right now? The same as `is_compiling`.

    Example:
        >>> import rushlight
        >>> rushlight.compiler.is_dynamo_compiling()
        False
    """
    return False


def is_exporting() -> bool:
    """Is the calling code being captured by `rushlight.export` right now?

    Example:
        >>> import rushlight
        >>> f = lambda x: x + (1 if rushlight.compiler.is_exporting() else 0)
        >>> rushlight.export.export(f, (rushlight.ones(1),)).module()(rushlight.ones(1)), f(rushlight.ones(1))
        (tensor([2.]), tensor([1.]))
    """
    return False


def cudagraph_mark_step_begin() -> None:
    """Say that a new iteration begins, where replayed CUDA graphs may overwrite the results of the last one.

    Compiled functions never write over what they returned, so there is nothing to do.

    Example:
        >>> import rushlight
        >>> rushlight.compiler.cudagraph_mark_step_begin()
    """


__all__ = ["allow_in_graph", "assume_constant_result", "cudagraph_mark_step_begin", "is_dynamo_compiling",
           "is_exporting", "nested_compile_region", "substitute_in_graph"]
