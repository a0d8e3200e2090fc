"""`__torch_function__`: classes that answer calls of rushlight's functions themselves, and modes that see all calls.

A class with a class method `__torch_function__(cls, func, types, args=(), kwargs=None)` is asked in the place of a
function or method that gets one of its instances; a `TorchFunctionMode` is asked for every call inside its block.

No call asks whether there is such a class before there is one. The first subclass of Tensor that defines the method,
and every mode for as long as it lasts, put a function that asks into the place of each public function and method.
Nobody sees how classes beside Tensor are made: with such, call `activate()` once. Functions that a program has taken
out of their module before (`from rushlight import add`) stay as they are.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.core.front import EXPORTS
from rushlight.core.tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "activate",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_torch_function",
]

_NAMESPACES = ("", "linalg", "fft", "special", "signal.windows", "nn.functional", "masked")
_PROPERTIES = ("H", "T", "imag", "mH", "mT", "real")
# What makes, names and keeps tensors rather than computing with them.
_NOT_METHODS = frozenset({
    "__init__", "__new__", "__init_subclass__", "__getattr__", "__hash__", "__reduce__", "__reduce_ex__", "__repr__",
    "__setstate__", "__format__", "__dir__", "__torch_function__", "as_subclass",
})  # fmt: skip


class _Local(threading.local):
    def __init__(self) -> None:
        self.modes: list[TorchFunctionMode] = []
        self.off = 0  # how many blocks of DisableTorchFunctionSubclass this thread is in


_local = _Local()
_lock = threading.Lock()
_needed = [0]  # how many modes of all threads, and classes, want functions to ask
_undo: list[Callable[[], None]] = []  # what puts the functions that do not ask back


# Who is asked


def _answers(kind: type) -> bool:
    """Has a type a `__torch_function__` of its own? Tensor's does what the function does, and so do our subclasses."""
    if kind is Tensor or kind.__module__.partition(".")[0] == "rushlight" and issubclass(kind, Tensor):
        return False
    return getattr(kind, "__torch_function__", None) is not None


def _overloaded(arguments: Iterable[Any]) -> list[Any]:
    """One argument of each type that answers: subclasses before their bases, else from left to right."""
    found: list[Any] = []
    kinds: set[type] = set()
    for x in arguments:
        kind = type(x)
        if kind not in kinds and _answers(kind):
            kinds.add(kind)
            at = next((i for i, other in enumerate(found) if issubclass(kind, type(other))), len(found))
            found.insert(at, x)
    return found


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Is there somebody to ask: a mode, or a type with `__torch_function__` among the arguments?"""
    if _local.modes:
        return True
    return not _local.off and any(_answers(type(x)) for x in relevant_args)


def has_torch_function_unary(argument: Any) -> bool:
    """`has_torch_function` of one argument."""
    return has_torch_function((argument,))


def has_torch_function_variadic(*arguments: Any) -> bool:
    """`has_torch_function` of several arguments."""
    return has_torch_function(arguments)


def handle_torch_function(public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """The answer of the innermost mode, else of the first argument's type that does not return NotImplemented.

    Raises TypeError when all of them do.

    Example:
        >>> from rushlight.overrides import handle_torch_function
        >>> class Answer:
        ...     @classmethod
        ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
        ...         return 42
        >>> handle_torch_function(print, [Answer()], Answer())
        42
    """
    asked = [] if _local.off else _overloaded(relevant_args)
    types = tuple(map(type, asked))
    if _local.modes:
        mode = _local.modes.pop()
        try:
            result = mode.__torch_function__(public_api, types, args, kwargs)
        finally:
            _local.modes.append(mode)
        if result is not NotImplemented:
            return result
    for x in asked:
        result = x.__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = resolve_name(public_api) or getattr(public_api, "__name__", repr(public_api))
    refused = ", ".join(t.__qualname__ for t in types) or "the mode"
    raise TypeError(f"{name}: no implementation found: __torch_function__ of {refused} returned NotImplemented")


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable], Callable]:
    """Decorate a function so that it asks first; `dispatcher` takes its arguments and gives those that may answer.

    Example:
        >>> from rushlight.overrides import wrap_torch_function
        >>> @wrap_torch_function(lambda a: (a,))
        ... def double(a):
        ...     return a + a
        >>> double(2)
        4
    """

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(call, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return call

    return decorate


def _arguments(*args: Any, **kwargs: Any) -> list[Any]:
    """The arguments of a call and the elements of its lists."""
    return [y for x in (*args, *kwargs.values()) for y in (x if type(x) in (list, tuple) else (x,))]


def default_torch_function(cls: type, func: Callable, types: Any, args: Any, kwargs: Any) -> Any:
    """What `Tensor.__torch_function__` does: the function itself; the tensors in its result become instances of the
    subclass."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    return result if func in get_default_nowrap_functions() else _converted(result, cls)


def _converted(result: Any, cls: type) -> Any:
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) or not issubclass(cls, Tensor) else result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        parts = [_converted(x, cls) for x in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result


class DisableTorchFunctionSubclass:
    """A block in which no type is asked; modes are."""

    def __enter__(self) -> None:
        _local.off += 1

    def __exit__(self, *error: Any) -> None:
        _local.off -= 1


class TorchFunctionMode:
    """A block in whose calls `__torch_function__` of the mode is asked first; inside of it the mode is off.

    Example:
        >>> import rushlight
        >>> from rushlight.overrides import TorchFunctionMode
        >>> class Names(TorchFunctionMode):
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         print(func.__name__)
        ...         return func(*args, **(kwargs or {}))
        >>> x = rushlight.ones(1)
        >>> with Names():
        ...     y = rushlight.sin(x).add(1)
        sin
        add
    """

    def __torch_function__(self, func: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer a call."""
        raise NotImplementedError(f"{type(self).__name__} must define __torch_function__")

    def __enter__(self) -> TorchFunctionMode:
        activate()
        _local.modes.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _local.modes.pop()
        with _lock:
            _needed[0] -= 1
            if not _needed[0]:
                while _undo:
                    _undo.pop()()


class BaseTorchFunctionMode(TorchFunctionMode):
    """The mode that does what functions do."""

    def __torch_function__(self, func: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function."""
        return func(*args, **(kwargs or {}))


class enable_reentrant_dispatch:  # noqa: N801  PyTorch's name
    """Inside of a `__torch_function__`, a block in which types are asked again."""

    def __enter__(self) -> None:
        self._off, _local.off = _local.off, 0

    def __exit__(self, *error: Any) -> None:
        _local.off = self._off


def redispatch_function(func: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Call what a function does, without asking for this very call; calls inside of it ask."""
    return getattr(func, "__wrapped__", func)(*args, **(kwargs or {}))


# What can be overridden


def activate() -> None:
    """Put functions that ask in the places of all public functions and methods, if they are not there."""
    with _lock:
        _needed[0] += 1
        if not _undo:
            _replace()


def _replace() -> None:
    asking = wrap_torch_function(_arguments)
    replaced: dict[int, Callable] = {}
    for name, function in EXPORTS.items():
        if id(function) not in replaced:
            replaced[id(function)] = _renamed(asking(function), name.rpartition(".")[2])
    back = {id(replaced[id(function)]): function for function in EXPORTS.values()}
    _undo.append(lambda: _swap_all(back, []))  # names that modules load while functions ask
    _swap(EXPORTS, replaced, EXPORTS.__setitem__, _undo)
    _swap_all(replaced, _undo)
    methods: dict[int, Any] = {}
    for name, method in _methods():
        if id(method) not in methods:  # aliases are one function, of the first name
            methods[id(method)] = _method(name, method, asking)
    _swap(vars(Tensor), methods, functools.partial(setattr, Tensor), _undo)


def _swap_all(replaced: dict[int, Any], undo: list) -> None:
    for namespace in _NAMESPACES:
        module = sys.modules.get(f"rushlight.{namespace}".rstrip("."))
        if module is not None:
            _swap(vars(module), replaced, functools.partial(setattr, module), undo)


def _swap(names: Any, replaced: dict[int, Any], put: Callable[[str, Any], None], undo: list) -> None:
    for name, old in list(names.items()):
        if id(old) in replaced:
            put(name, replaced[id(old)])
            undo.append(functools.partial(put, name, old))


def _methods() -> list[tuple[str, Any]]:
    """The methods and properties of Tensor that ask, or would."""
    return [
        (name, value)
        for name, value in vars(Tensor).items()
        if inspect.isfunction(value) and name not in _NOT_METHODS
        or name in _PROPERTIES and isinstance(value, property)
    ]


def _method(name: str, value: Any, asking: Callable) -> Any:
    if isinstance(value, property):
        return property(_renamed(asking(value.fget), "__get__"), value.fset, value.fdel, value.__doc__)
    return _renamed(asking(value), name)


def _renamed(function: Callable, name: str) -> Callable:
    function.__name__ = function.__qualname__ = name
    return function


def _named() -> list[tuple[Any, str]]:
    """Public functions and their dotted names; as long as nobody asks a method may be the function of that name."""
    functions = [(function, f"rushlight.{name}") for name, function in EXPORTS.items()]
    for name, value in _methods():
        read = isinstance(value, property)
        functions.append((value.fget if read else value, f"rushlight.Tensor.{name}{'.__get__' if read else ''}"))
    return functions


def get_overridable_functions() -> dict[Any, list[Callable]]:
    """The functions that ask, by the module or class in which they stand."""
    found: dict[Any, list[Callable]] = {}
    for function, name in _named():
        module = name.rpartition(".")[0]
        owner = Tensor if module.startswith("rushlight.Tensor") else sys.modules.get(module, module)
        found.setdefault(owner, []).append(function)
    return found


def get_testing_overrides() -> dict[Callable, Callable]:
    """For each function that asks one of the same signature that returns -1."""

    def answering(function: Callable) -> Callable:
        @functools.wraps(function)
        def answer(*args: Any, **kwargs: Any) -> int:
            return -1

        return answer

    return {function: answering(function) for function, _ in _named()}


def get_ignored_functions() -> set[Callable]:
    """Public methods that never ask."""
    return {vars(Tensor)[name] for name in _NOT_METHODS if inspect.isfunction(vars(Tensor).get(name))}


def get_default_nowrap_functions() -> set[Callable]:
    """Functions whose results `Tensor.__torch_function__` leaves as they are."""
    return set()


def is_tensor_like(inp: Any) -> bool:
    """Is it a tensor, or of a type with `__torch_function__`?

    Example:
        >>> import rushlight
        >>> from rushlight.overrides import is_tensor_like
        >>> is_tensor_like(rushlight.ones(1)), is_tensor_like(1)
        (True, False)
    """
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable) -> bool:
    """Is the function a method, or reads it a property, of Tensor?"""
    return any(func in (value, getattr(value, "fget", None)) for _, value in _methods())


def resolve_name(f: Callable) -> str | None:
    """The dotted name of a public function; None for others.

    Example:
        >>> import rushlight
        >>> from rushlight.overrides import resolve_name
        >>> resolve_name(rushlight.linalg.inv)
        'rushlight.linalg.inv'
    """
    return next((name for function, name in _named() if function is f), None)
