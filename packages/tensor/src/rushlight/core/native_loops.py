"""numpy's inner loops as machine code calls them: where they are, and how numbers are written for them."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from rushlight.core.meta import Meta
from rushlight.kernels.cpu import calls_loops as how

_WHOLE = {8: how.TO_INT64, 4: how.TO_INT32, 2: how.TO_INT16, 1: how.TO_INT8}


class _Ufunc(ctypes.Structure):
    """The beginning of PyUFuncObject."""

    _fields_ = (
        ("head", ctypes.c_byte * object.__basicsize__),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_char)),
    )


@cache
def inner_loop(function: Any, compute: np.dtype, result: np.dtype) -> tuple[int, int] | None:
    """The address of a ufunc's inner loop and of its data, from the ufunc's public struct; None where there is none."""
    if not isinstance(function, np.ufunc) or function.nout != 1 or not (compute.isbuiltin and result.isbuiltin):
        return None
    fields = _Ufunc.from_address(id(function))
    signature = compute.char * function.nin + result.char
    known = [text.replace("->", "") for text in function.types]
    if (fields.nin, fields.nout, fields.ntypes) != (function.nin, 1, len(known)) or signature not in known:
        return None
    at = known.index(signature)
    numbers = bytes([np.dtype(char).num for char in signature])
    if fields.types[at * fields.nargs : (at + 1) * fields.nargs] != numbers or not fields.functions[at]:
        return None
    return fields.functions[at], fields.data[at] or 0


def element_word(number: Any, kind: np.dtype) -> int:
    """A word of memory that begins with an element."""
    element = np.zeros(8, np.uint8)
    element[: kind.itemsize] = np.array(number, kind).reshape(1).view(np.uint8)
    return int(element.view(np.int64)[0])


def number_kind(m: Meta, compute: np.dtype) -> tuple[int, type] | None:
    """How a Python number with this weak meta is written in the dtype of the computation, and its type."""
    kind = {0: bool, 1: int, 2: float}.get(m.dtype.category)
    if kind is None or compute.kind not in "fiub" or compute.kind == "f" and compute.itemsize < 4:
        return None
    if compute.kind == "f":
        return (how.TO_DOUBLE if compute.itemsize == 8 else how.TO_SINGLE), kind
    return (_WHOLE[compute.itemsize], kind) if kind is not float else None
