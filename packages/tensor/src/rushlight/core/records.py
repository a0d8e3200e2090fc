"""Records: how Python tells the machine code of `rushlight.kernels.cpu.calls` what to do.

A native function is a builtin made of that code and a tuple: the record (an array of int64 words), the Python function
that does the same, and what else the record has addresses of. Imported when native calls are installed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from rushlight.core.meta import Size
from rushlight.core.op import HANDLERS
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import calls
from rushlight.kernels.cpu import calls_objects as c
from rushlight.kernels.cpu.builtin import FASTCALL, Method, new_builtin
from rushlight.kernels.cpu.machine import compile_function

_word = ctypes.c_ssize_t
_table = np.zeros(c.TABLE_LENGTH, np.int64)


class Code:
    """Machine code of a function that answers the calls of builtins."""

    def __init__(self, answer: Callable) -> None:
        self._method = Method(b"native", compile_function(answer), FASTCALL, None)
        keep_for_ever(self)

    def function(self, kind: int, python: Callable, words: tuple[int, ...], *items: Any) -> Any:
        """The function that answers calls as a record says: `words` follow its kind; `items` follow the Python function
        in `self`."""
        record = np.array([kind, _table.ctypes.data, *words], np.int64)
        return new_builtin(ctypes.addressof(self._method), (record, python, *items), None)


def keep_for_ever(thing: Any) -> None:
    """Have an object outlive its module: destructors that run when the interpreter ends may use tensors."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


@cache
def code() -> Code:
    """The code of `calls`."""
    fill_table()
    return Code(calls.answer)


def native_function(kind: int, python: Callable, words: tuple[int, ...], *items: Any) -> Any:
    """A builtin of the code of `calls`."""
    return code().function(kind, python, words, *items)


@cache
def fill_table() -> None:
    """Have the table that all records point to say where Python's functions and objects are."""
    functions = {
        c.VECTORCALL: "PyObject_Vectorcall", c.ALLOCATE: "PyType_GenericAlloc", c.NEW_TUPLE: "PyTuple_New",
        c.INCREF: "Py_IncRef", c.DECREF: "Py_DecRef", c.FAILED: "PyErr_Occurred", c.CLEAR: "PyErr_Clear",
        c.EQUAL: "PyObject_RichCompareBool", c.NEXT_ITEM: "PyDict_Next", c.AS_DOUBLE: "PyLong_AsDouble",
        c.AS_INTEGER: "PyLong_AsLongLong", c.NEW_INTEGER: "PyLong_FromSsize_t",
    }  # fmt: skip
    objects = {
        c.NONE: None, c.TENSOR: Tensor, c.STORAGE: Storage, c.NDARRAY: np.ndarray, c.FLOAT: float, c.INT: int,
        c.BOOL: bool, c.TUPLE: tuple, c.SIZE: Size, c.SLICE: slice, c.EMPTY: (), c.ZERO: 0, c.FALSE: False,
        c.TRUE: True, c.HANDLERS: HANDLERS,
    }  # fmt: skip
    slots = {
        c.ARRAY_SLOT: (Tensor, "_array"), c.META_SLOT: (Tensor, "_meta"), c.STORAGE_SLOT: (Tensor, "_storage"),
        c.AUTO_SLOT: (Tensor, "_auto"), c.BASE_SLOT: (Storage, "base"), c.VERSION_SLOT: (Storage, "version"),
        c.EXPOSED_SLOT: (Storage, "exposed"),
    }  # fmt: skip
    for place, name in functions.items():
        _table[place] = c_function(name)
    for place, thing in objects.items():
        _table[place] = id(thing)
    keep_for_ever([_table, *objects.values()])
    for place, (kind, name) in slots.items():
        _table[place] = slot(kind, name)
    _table[c.MOVE], _table[c.FILL] = _address(ctypes.memmove), _address(ctypes.memset)
    _table[c.NEW_ARRAY], _table[c.SET_BASE] = _numpy_api(94), _numpy_api(282)


def c_function(name: str) -> int:
    """The address of a function of CPython's C API."""
    return _address(getattr(ctypes.pythonapi, name))


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _numpy_api(index: int) -> int:
    """The address of a function of numpy's C API: PyArray_NewFromDescr is number 94, PyArray_SetBaseObject 282."""
    capsule = ctypes.pythonapi.PyCapsule_GetPointer
    capsule.restype, capsule.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return _word.from_address(capsule(np._core._multiarray_umath._ARRAY_API, None) + 8 * index).value


def slot(kind: type, name: str) -> int:
    """Where a slot lies in the instances of a class: `PyMemberDescrObject.d_member->offset`."""
    member = _word.from_address(id(kind.__dict__[name]) + 40).value
    return _word.from_address(member + 16).value


def _field(thing: Any, offset: int) -> int:
    return _word.from_address(id(thing) + offset).value


def layouts_as_known() -> bool:
    """Do fields lie where `calls` looks for them, and is this the numpy whose functions we call by number?"""
    class Own(Tensor):
        pass

    base = np.arange(6.0).reshape(2, 3)
    array = base[1:]
    x = object.__new__(Tensor)
    x._array, x._meta, x._storage, x._auto = array, base, base, None
    number, whole, listed, named = 1.5, 77, [x, base], {"a": x}
    part, interface = slice(x, base, number), array.__array_interface__
    return (
        np.lib.NumpyVersion(np.__version__).major == 2
        and _field(number, c.TYPE) == id(float)
        and [_field(kind, c.SUPERCLASS) for kind in (Own, bool, Tensor)] == [id(Tensor), id(int), id(Tensor.__base__)]
        and ctypes.c_double.from_address(id(number) + c.FLOAT_VALUE).value == number
        and _field(whole, c.DIGITS) & 0xFFFFFFFF == whole
        and _field(listed, c.LENGTH) == 2
        and _word.from_address(_field(listed, c.LIST_ITEMS) + 8).value == id(base)
        and (_field(Size((2, 3)), c.LENGTH), _field(named, c.LENGTH)) == (2, 1)
        and (_field((x, base), c.TUPLE_ITEMS + 8), _field(Size((1, 5)), c.TUPLE_ITEMS + 8)) == (id(base), id(5))
        and [_field(part, place) for place in (c.SLICE_START, c.SLICE_STOP, c.SLICE_STEP)]
        == [id(x), id(base), id(number)]
        and _field(array, c.DATA) == interface["data"][0]
        and _field(array, c.NDIM_OF) & 0xFFFFFFFF == array.ndim
        and _word.from_address(_field(array, c.DIMENSIONS) + 8).value == array.shape[1]
        and ctypes.c_int.from_address(id(array) + c.FLAGS).value == array.flags.num
        and (_field(array, c.BASE), _field(array, c.DESCR)) == (id(array.base), id(array.dtype))
        and [_field(x, slot(Tensor, name)) for name in ("_array", "_meta", "_storage", "_auto")]
        == [id(array), id(base), id(base), id(None)]
    )
