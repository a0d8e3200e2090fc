"""The schema of an operator, such as `(Tensor x, float y=1.5) -> Tensor`, from the annotations of a function."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.core import dtypes
from rushlight.core.devices import device
from rushlight.core.tensor import Tensor

signature_of = functools.cache(inspect.signature)

_PLAIN = {Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", complex: "complex",
          dtypes.dtype: "ScalarType", device: "Device"}
_NUMBER = {frozenset((int, float, bool)): "Scalar", frozenset((int, float, bool, complex)): "Scalar"}


def infer_schema(prototype_function: Callable, /, *, mutates_args: str | Iterable[str], op_name: str | None = None,
                 tags: Any = ()) -> str:
    """The schema of a function; `mutates_args` names the tensors that it writes to, or is "unknown".

    Raises ValueError for parameters without a type, and for types that operators do not take.

    Example:
        >>> import rushlight
        >>> def scaled(x: rushlight.Tensor, factor: float = 2.0) -> rushlight.Tensor: ...
        >>> rushlight.library.infer_schema(scaled, mutates_args=())
        '(Tensor x, float factor=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)
    hints = typing.get_type_hints(prototype_function)
    written = mutated_names(prototype_function, mutates_args)
    parts, named = [], False
    for name, parameter in signature.parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ValueError(f"infer_schema(func): We do not support positional-only args, varargs, or varkwargs. Got "
                             f"func with signature {signature})")
        if parameter.kind is parameter.KEYWORD_ONLY and not named:
            parts.append("*")
            named = True
        if parameter.annotation is parameter.empty:
            raise ValueError(f"infer_schema(func): Parameter {name} must have a type annotation. Got func with "
                             f"signature {signature})")
        kind = _text(hints[name])
        if kind is None:
            raise ValueError(f"infer_schema(func): Parameter {name} has unsupported type {hints[name]}. Got func with "
                             f"signature {signature})")
        if name in written:
            if not kind.startswith("Tensor"):
                raise ValueError(f"infer_schema(func): Parameter {name} is in mutable_args but only Tensors or "
                                 "collections of Tensors can be mutated")
            kind = kind.replace("Tensor", f"Tensor(a{written.index(name)}!)", 1)
        default = "" if parameter.default is parameter.empty else f"={_default(parameter.default)}"
        parts.append(f"{kind} {name}{default}")
    return f"{op_name or ''}({', '.join(parts)}) -> {_result(hints.get('return', None), signature)}"


def mutated_names(function: Callable, mutates_args: str | Iterable[str]) -> tuple[str, ...]:
    """The parameters that a function writes to; for "unknown" all. ValueError for names that it does not have."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters)
    if mutates_args == "unknown":
        return tuple(parameters)
    names = {mutates_args} if isinstance(mutates_args, str) else set(mutates_args)
    unknown = sorted(names.difference(parameters))
    if unknown:
        raise ValueError(f"infer_schema(func): {unknown} in mutates_args are not arguments of the function. Got func "
                         f"with signature {signature})")
    return tuple([name for name in parameters if name in names])


def _default(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).rpartition(".")[2] if isinstance(value, dtypes.dtype) else str(value)


def _text(kind: Any) -> str | None:
    """A type as schemas name it."""
    if isinstance(kind, collections.abc.Hashable) and kind in _PLAIN:
        return _PLAIN[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        rest = [x for x in arguments if x is not type(None)]
        inner = _NUMBER.get(frozenset(rest)) or (_text(rest[0]) if len(rest) == 1 else None)
        return inner if inner is None or len(rest) == len(arguments) else f"{inner}?"
    if origin in (list, collections.abc.Sequence) and len(arguments) == 1:
        inner = _text(arguments[0])
        return None if inner is None else f"{inner}[]"
    return None


def _result(kind: Any, signature: inspect.Signature) -> str:
    if kind is None or kind is type(None):
        return "()"
    if typing.get_origin(kind) is tuple:
        found = [_text(x) for x in typing.get_args(kind)]
        if None not in found:
            return f"({', '.join(map(str, found))})"
    made = _text(kind)
    if made is None:
        raise ValueError(f"infer_schema(func): Return has unsupported type {kind}. Got func with signature "
                         f"{signature})")
    return made
