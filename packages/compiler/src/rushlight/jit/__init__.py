"""`rushlight.jit`: the names by which programs ask for TorchScript, answered by `rushlight.compile`.

There is no second language here: a scripted function is the Python function, compiled. Marks for the TorchScript
compiler mean nothing and are taken; saving and loading of scripts is absent and says so.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, Final, NoReturn

from rushlight.compiler import compile, disable

__all__ = [
    "Attribute",
    "Final",
    "annotate",
    "export",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "save",
    "script",
    "script_if_tracing",
    "trace",
    "unused",
]


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """A function or module compiled with `rushlight.compile`; classes come back as they are.

    Example:
        >>> import rushlight
        >>> rushlight.jit.script(lambda x: x + 1)(rushlight.zeros(1))
        tensor([1.])
    """
    return obj if builtins.isinstance(obj, type) else compile(obj)


def script_if_tracing(fn: Callable) -> Callable:
    """The function itself: nothing here traces."""
    return fn


def unchanged(fn: Callable) -> Callable:
    """The function as it is: what marks for the TorchScript compiler give."""
    return fn


# The names under which model files import these marks.
_script_if_tracing = script_if_tracing
_overload = _overload_method = unchanged


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """A function or module compiled with `rushlight.compile`, which follows control flow instead of freezing that of
    the example.
    """
    return compile(func)


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Mark a function to be left to Python: `disable`. As decorator with and without arguments."""
    return disable(drop) if callable(drop) else disable


def unused(fn: Callable) -> Callable:
    """Mark a method that scripts do not call; it stays as it is."""
    return fn


def export(fn: Callable) -> Callable:
    """Mark a method to be scripted; it stays as it is."""
    return fn


def interface(obj: Any) -> Any:
    """Mark a class as an interface; it stays as it is."""
    return obj


def is_scripting() -> bool:
    """False: code always runs as Python."""
    return False


def is_tracing() -> bool:
    """False: nothing here traces."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value: the type is a hint for TorchScript."""
    return the_value


def Attribute(value: Any, type: Any) -> Any:  # noqa: N802  the name that programs use
    """The value: the type is a hint for TorchScript."""
    return value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's own `isinstance`."""
    return builtins.isinstance(obj, target_type)


def save(m: Any, f: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises RuntimeError: there are no script files; `rushlight.save(module.state_dict(), f)` keeps the weights."""
    raise RuntimeError(
        "jit.save: rushlight has no script files; keep the weights with rushlight.save(module.state_dict(), file)"
    )


def load(f: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises RuntimeError: there are no script files; build the module in Python and use `load_state_dict`."""
    raise RuntimeError("jit.load: rushlight reads no script files; build the module in Python and load its state_dict")
