"""Which argument made a call fail: asked only after it failed, so that calls which succeed pay nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_NUMBERS = (bool, int, float, complex)
_OTHERS = (str, bytes, list, tuple, dict, set, type(None), np.ndarray)
_WRONG: dict[str, tuple[type, ...]] = {  # annotation -> types of Python that never stand for it
    "Tensor": (*_NUMBERS, *_OTHERS),
    "Number": _OTHERS,
    "int": (float, complex, *_OTHERS),
    "float": (complex, *_OTHERS),
    "bool": _OTHERS,
    "str": (*_NUMBERS, *_OTHERS[1:]),
    "None": (*_NUMBERS, *_OTHERS[:-2], np.ndarray),
}
_NAMED = {"Tensor": "a Tensor", "Number": "a number", "int": "an int", "float": "a number", "bool": "a bool"}
FAILURES = (AttributeError, RuntimeError, ValueError, IndexError)  # of what an argument of a wrong type runs into


def refused(name: str, fn: Callable, args: tuple, kwargs: dict, error: Exception) -> Exception:
    """The TypeError for the first argument that is not what the annotation of `fn` says; without one, the error that
    was raised.

    Annotations are looked at where they are made of `Tensor`, `Number`, types of numbers, `str` and `None`.
    """
    names = fn.__code__.co_varnames[: fn.__code__.co_argcount]
    for argument, value in (*zip(names, args), *kwargs.items()):
        kinds = str(fn.__annotations__.get(argument, "")).split(" | ")
        if all(type(value) in _WRONG.get(kind, ()) for kind in kinds):
            wanted = " or ".join([_NAMED.get(kind, kind) for kind in kinds])
            hint = "; use rushlight.tensor(...)" if "Tensor" in kinds and value is not None else ""
            return TypeError(f"{name}: {argument} must be {wanted}, got {type(value).__name__}{hint}")
    return error
