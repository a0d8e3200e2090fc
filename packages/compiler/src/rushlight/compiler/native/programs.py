"""The records of native parts of programs: see `program_code`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from rushlight.core import native
from rushlight.kernels.layout import as_words


@cache
def ready() -> bool:
    """Can parts be machine code here?"""
    if not native.possible():
        return False
    try:
        from rushlight.core import records  # it imports llvmlite
    except ImportError:
        return False
    return records.layouts_as_known()


def record(
    inputs: int, outputs: list[tuple[np.dtype, tuple[int, ...], Any]], places: list[int], block: int,
    steps: list[tuple[str, int, list[tuple[bool, Any]]]], *, tensors: bool, long: int,
) -> list[Any]:  # fmt: skip
    """The record of a builtin that makes arrays of `outputs` (dtype, shape, meta) and runs the steps: numbers, and
    objects in the place of their addresses (see `word`).

    Arguments of steps are (False, a number or array), or (True, slot): first the inputs, then the outputs, then the
    `places` in a block.
    """
    # Machine code: it needs llvmlite.
    from rushlight.compiler.native import program_code as c

    kinds = {"kernel": c.KERNEL, "fill": c.FILL, "loop": c.LOOP, "check": c.CHECK}
    words: list[Any] = [
        _table(), tensors, inputs, len(outputs), len(places), block > 0, block, np.dtype(np.uint8), long,
    ]  # fmt: skip
    for dtype, shape, meta in outputs:
        words += [dtype, len(shape), as_words([*shape, 0]), meta]
    words += places
    for kind, address, arguments in steps:
        words += [kinds[kind], address, len(arguments)]
        for is_slot, x in arguments:
            words += [is_slot, 8 * x if is_slot else x]
    return [*words, c.END]


def word(x: Any, held: list[Any]) -> int:
    """A number, or the address of an object, which is held: of an array that of its elements."""
    if isinstance(x, (int, np.integer)):
        return int(x)
    held.append(x)
    return x.ctypes.data if isinstance(x, np.ndarray) else id(x)


def function(python: Callable, words: list[int], held: list[Any]) -> Callable:
    """The builtin of a record; `python` does the same."""
    return _code().function(0, python, tuple(words), *held)


def builtin(python: Callable, words: list[Any]) -> Callable:
    """The builtin of a record."""
    held: list[Any] = []
    return function(python, [word(x, held) for x in words], held)


@cache
def _code() -> Any:
    # Machine code: it needs llvmlite.
    from rushlight.compiler.native import program_code
    from rushlight.core import records

    records.fill_table()
    return records.Code(program_code.answer)


@cache
def _table() -> np.ndarray:
    # Machine code: it needs llvmlite.
    from rushlight.compiler.native import program_code as c
    from rushlight.core import records

    table = np.zeros(c.OWN_LENGTH, np.int64)
    table[c.SAVE_THREAD] = records.c_function("PyEval_SaveThread")
    table[c.RESTORE_THREAD] = records.c_function("PyEval_RestoreThread")
    table[c.SET] = ctypes.cast(ctypes.memset, ctypes.c_void_p).value or 0
    records.keep_for_ever(table)
    return table
