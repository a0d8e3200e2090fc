"""What a checkpoint may hold besides tensors and plain data."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

STORAGES = {
    "float64": "DoubleStorage",
    "float32": "FloatStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
}
ALLOWED: dict[tuple[str, str], Any] = {}


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allow `save` and `load` to handle instances of more classes, by the pickle protocol:
    only for code that you trust.
    """
    ALLOWED.update({(kind.__module__, kind.__qualname__): kind for kind in safe_globals})


def get_safe_globals() -> list[Any]:
    """The classes that `add_safe_globals` has allowed."""
    return list(ALLOWED.values())


def clear_safe_globals() -> None:
    """Take back what `add_safe_globals` has allowed."""
    ALLOWED.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """Inside the block, allow more classes as `add_safe_globals` does."""
    before = dict(ALLOWED)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        ALLOWED.clear()
        ALLOWED.update(before)
