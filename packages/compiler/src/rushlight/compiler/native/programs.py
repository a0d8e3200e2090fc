"""The records of native parts of programs: see `program_code`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from rushlight.core import native


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


def builtin(
    python: Callable, inputs: int, outputs: list[tuple[np.dtype, tuple[int, ...], Any]], places: list[int], block: int,
    steps: list[tuple[str, int, list[tuple[bool, int]]]], *, tensors: bool, long: bool, held: list[Any],
) -> Callable:  # fmt: skip
    """A builtin that makes arrays of `outputs` (dtype, shape, meta) and runs the steps; `python` does the same.

    Arguments of steps are numbers, or (True, slot): first the inputs, then the outputs, then the `places` in a block.
    """
    # Machine code: it needs llvmlite.
    from rushlight.compiler.native import program_code as c

    kinds = {"kernel": c.KERNEL, "fill": c.FILL, "loop": c.LOOP, "check": c.CHECK}
    byte = np.dtype(np.uint8)
    words = [
        _table().ctypes.data, tensors, inputs, len(outputs), len(places), block > 0, block, id(byte), long,
    ]  # fmt: skip
    kept: list[Any] = [byte, *held]
    for dtype, shape, meta in outputs:
        dims = np.array([*shape, 0], np.int64)
        words += [id(dtype), len(shape), dims.ctypes.data, id(meta)]
        kept += [dtype, dims, meta]
    words += places
    for kind, address, arguments in steps:
        words += [kinds[kind], address, len(arguments)]
        for is_slot, x in arguments:
            words += [is_slot, 8 * x if is_slot else x]
    return _code().function(0, python, (*words, c.END), *kept)


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
