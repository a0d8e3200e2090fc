"""Names of a function's parameters. Declarations ask for 2000 of them at the first use of the library, and
`inspect.signature`, which makes objects of all that it finds, would take a tenth of that time."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType


def parameter_names(function: Callable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of positional parameters, `*args` included, and of keyword-only ones.

    >>> from rushlight.core.parameters import parameter_names
    >>> parameter_names(lambda input, *others, dim: 0)
    (('input', 'others'), ('dim',))
    """
    if not isinstance(function, FunctionType) or "__signature__" in vars(function) or "__wrapped__" in vars(function):
        found = inspect.signature(function).parameters.values()
        return (
            tuple([p.name for p in found if p.kind is not p.KEYWORD_ONLY and p.kind is not p.VAR_KEYWORD]),
            tuple([p.name for p in found if p.kind is p.KEYWORD_ONLY]),
        )
    code = function.__code__
    positional, named = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    several = code.co_varnames[named : named + bool(code.co_flags & inspect.CO_VARARGS)]
    return code.co_varnames[:positional] + several, code.co_varnames[positional:named]
