"""Digests of plain functions, and of all that decides what they become: the names of what is compiled of them."""

from __future__ import annotations

import hashlib
import platform
import types as python_types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy

from rushlight.core.scalar import Opaque

# What the same source compiles to depends on these, so their text is part of every key.
_OUR_FILES = (
    "intrinsics.py", "atomics.py", "jit.py", "team_native.py", "team_words.py", "vectors.py", "tiles.py",
    "winograd_tiles.py", "gemm_tile.py", "language.py", "translate.py", "expressions.py", "convert.py", "objects.py",
    "answer.py", "pairs.py", "syntax.py",
)  # fmt: skip
_NUMBA_FILES = ("numba_route.py", "numba_types.py")


def named_values(function: Callable[..., Any]) -> dict[str, Any]:
    """What a function's code names as globals or closure cells; opaque functions as the plain ones they are made of."""
    names: Mapping[str, Any] = function.__globals__
    found = {name: names[name] for name in function.__code__.co_names if name in names}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    found |= {name: cell.cell_contents for name, cell in cells}
    return {name: value.function if isinstance(value, Opaque) else value for name, value in found.items()}


def fingerprint(function: Callable[..., Any], seen: frozenset[Any] = frozenset()) -> str:
    """A digest of a function's code, its constants and the plain functions and numbers it refers to."""
    if function in seen:
        return function.__name__
    parts: list[Any] = [_code_parts(function.__code__), function.__defaults__]
    for name, value in sorted(named_values(function).items()):
        if isinstance(value, python_types.FunctionType):
            parts.append((name, fingerprint(value, seen | {function})))
        elif isinstance(value, int | float | tuple):
            parts.append((name, repr(value)))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def fingerprint_of_all(function: Callable[..., Any]) -> str:
    """A digest of a function and of all that it calls, each looked at once: for large families of functions."""
    numbers: dict[Callable[..., Any], int] = {function: 0}
    parts: list[Any] = []
    for member in (family := [function]):
        parts.append(_code_parts(member.__code__))
        for name, value in sorted(named_values(member).items()):
            if isinstance(value, python_types.FunctionType):
                if value not in numbers:
                    numbers[value] = len(numbers)
                    family.append(value)
                parts.append((name, numbers[value]))
            elif isinstance(value, int | float | tuple):
                parts.append((name, repr(value)))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _code_parts(code: python_types.CodeType) -> list[Any]:
    constants = [_code_parts(c) if isinstance(c, python_types.CodeType) else repr(c) for c in code.co_consts]
    return [code.co_code.hex(), code.co_varnames, code.co_names, constants]


def digest_of(*parts: Any) -> str:
    """A name for what depends on `parts`, on this processor and on our code generator."""
    return hashlib.sha256(repr((parts, environment())).encode()).hexdigest()


def _texts(names: Sequence[str]) -> list[str]:
    return [hashlib.sha256(Path(__file__).with_name(name).read_bytes()).hexdigest() for name in names]


@cache
def environment() -> tuple[str, ...]:
    import llvmlite

    from rushlight.kernels.cpu.host import host

    versions = (platform.python_version(), llvmlite.__version__, numpy.__version__)
    return (*versions, *_texts(_OUR_FILES), platform.machine(), platform.system(), *host())


@cache
def numba_environment() -> tuple[str, ...]:
    """What decides, besides, what numba compiles."""
    import numba

    return (numba.__version__, *_texts(_NUMBA_FILES))
