"""Native calls, the Python half: records for the C functions of `rushlight.kernels.cpu.calls`, and builtins over them.

A builtin is made of a C function and a tuple: the record (an array of int64 words), the Python function that does the
same, and what else the record has addresses of. Imported when native calls are installed.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core import memo, native
from rushlight.core import op as ops
from rushlight.core.meta import Meta, meta
from rushlight.core.op import HANDLERS, plan_key
from rushlight.core.pointwise import plan_elementwise
from rushlight.core.results import wrap_any
from rushlight.core.storage import Storage
from rushlight.core.symbol import Opaque
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import calls as c
from rushlight.kernels.cpu import objects
from rushlight.kernels.cpu.jit import address_of, compile_source

_word = ctypes.c_ssize_t
_RECENT = 64  # plans that an op's native front remembers


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


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


_FASTCALL = 0x80
_new_builtin = ctypes.pythonapi.PyCFunction_NewEx
_new_builtin.restype, _new_builtin.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
_methods: dict[str, _Method] = {}
_table = np.zeros(c.TABLE_LENGTH, np.int64)


def _builtin(name: str, *items: Any) -> Any:
    return _new_builtin(ctypes.addressof(_methods[name]), items, None)


def _address(name: str) -> int:
    """The address of a function of CPython's C API."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def _numpy_api(index: int) -> int:
    """The address of a function of numpy's C API."""
    capsule = ctypes.pythonapi.PyCapsule_GetPointer
    capsule.restype, capsule.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return _word.from_address(capsule(np._core._multiarray_umath._ARRAY_API, None) + 8 * index).value


def _slot(kind: type, name: str) -> int:
    """Where a slot lies in the instances of a class: `PyMemberDescrObject.d_member->offset`."""
    member = _word.from_address(id(kind.__dict__[name]) + 40).value
    return _word.from_address(member + 16).value


def _fill_table() -> None:
    functions = {
        c.VECTORCALL: "PyObject_Vectorcall", c.ALLOCATE: "PyType_GenericAlloc", c.INCREF: "Py_IncRef",
        c.DECREF: "Py_DecRef", c.FAILED: "PyErr_Occurred", c.CLEAR: "PyErr_Clear", c.AS_DOUBLE: "PyLong_AsDouble",
        c.AS_INTEGER: "PyLong_AsLongLong", c.NEW_INTEGER: "PyLong_FromSsize_t",
    }  # fmt: skip
    known = {
        c.NONE: None, c.TENSOR: Tensor, c.STORAGE: Storage, c.NDARRAY: np.ndarray, c.FLOAT: float, c.INT: int,
        c.BOOL: bool, c.ZERO: 0, c.FALSE: False, c.HANDLERS: HANDLERS,
    }  # fmt: skip
    slots = {
        c.ARRAY_SLOT: (Tensor, "_array"), c.META_SLOT: (Tensor, "_meta"), c.STORAGE_SLOT: (Tensor, "_storage"),
        c.AUTO_SLOT: (Tensor, "_auto"), c.BASE_SLOT: (Storage, "base"), c.VERSION_SLOT: (Storage, "version"),
        c.EXPOSED_SLOT: (Storage, "exposed"),
    }  # fmt: skip
    for place, name in functions.items():
        _table[place] = _address(name)
    for place, thing in known.items():
        _table[place] = id(thing)
    for place, (kind, name) in slots.items():
        _table[place] = _slot(kind, name)
    _table[c.NEW_ARRAY], _table[c.SET_BASE] = _numpy_api(94), _numpy_api(282)


# Installing


def ready() -> bool:
    """Is this a moment to make all plans anew? Not while calls are recorded: see `rushlight.core.recording`."""
    return not ops.WATCHERS


def install() -> bool:
    """Compile or load the C functions, check them against Python's, and give fronts and plans to them."""
    try:
        if not _layouts_as_known():
            return False
        _fill_table()
        for name in ("loop", "enter"):
            _methods[name] = _Method(name.encode(), _compiled(name), _FASTCALL, None)
        if not _results_as_known():
            return False
    except Exception:  # whatever it is that is not as expected here: Python does all that native calls do
        return False
    for call, plans, arity, swapped in native.FRONTS:
        cell = call.__closure__[call.__code__.co_freevars.index("enter")]
        cell.cell_contents = _entry(cell.cell_contents, plans, arity, swapped)
    return True


def forget_plans() -> None:
    """Have all plans made anew."""
    for op in [*ops.REGISTRY.values(), *ops.INPLACE.values()]:
        op.plans.clear()
    for known in memo.MEMOS:
        known.clear()


def _compiled(name: str) -> int:
    text = hashlib.sha256(Path(objects.__file__).read_bytes()).hexdigest()  # decides the code, too
    source = f"def kernel(self, args, count):  # {text}\n    return {name}(self, args, count)\n"
    function = Opaque(getattr(c, name), compute="same")
    return address_of(compile_source(source, ("i64",) * 3, [function], returns="i64", c_function=True))


def _field(thing: Any, offset: int) -> int:
    return _word.from_address(id(thing) + offset).value


def _layouts_as_known() -> bool:
    """Do fields lie where `calls` looks for them?"""
    base = np.arange(6.0)
    array = base[1:]
    x = object.__new__(Tensor)
    x._array, x._meta, x._storage, x._auto = array, meta, base, None
    number, listed, interface = 1.5, [x, base], array.__array_interface__
    return (
        _field(number, c.TYPE) == id(float)
        and ctypes.c_double.from_address(id(number) + c.FLOAT_VALUE).value == number
        and _field(listed, c.LENGTH) == 2
        and _word.from_address(_field(listed, c.LIST_ITEMS) + 8).value == id(base)
        and _field((x, base), c.TUPLE_ITEMS + 8) == id(base)
        and _field(array, c.DATA) == interface["data"][0]
        and _field(array, c.BASE) == id(base)
        and _field(array, c.DESCR) == id(array.dtype)
        and ctypes.c_int.from_address(id(array) + c.FLAGS).value == array.flags.num
        and [_field(x, _slot(Tensor, name)) for name in ("_array", "_meta", "_storage", "_auto")]
        == [id(array), id(meta), id(base), id(None)]
    )


def _results_as_known() -> bool:
    """Do native calls give what Python's give?"""
    op, rows = ops.REGISTRY["mul"], np.arange(6, dtype=np.float32).reshape(2, 3)
    operands = [wrap_any(rows), wrap_any(rows[0] + 1)]
    metas = tuple([x._meta for x in operands])
    out: Any = op.infer(*metas)
    expected = plan_elementwise(op, metas, (), out)(*operands)
    found = loop(np.multiply, metas, np.dtype(np.float32), out, _never)(*operands)
    return (
        found._meta is out
        and found._storage is None
        and found._array.flags.num == expected._array.flags.num
        and np.array_equal(found._array, expected._array)
    )


def _never(*operands: Any) -> Any:
    raise AssertionError("a native call went to Python")


# Fronts


def _entry(front: Callable, plans: native.Recent, arity: int, swapped: bool) -> Any:
    if not plans.recent:
        plans.recent = [None] * (c.RECENT_WORDS * _RECENT)
    recent = plans.recent

    def note(place: int, *operands: Any) -> Any:
        key = plan_key(operands, ())
        plan = plans.get(key)
        if plan is not None:
            recent[place : place + c.RECENT_WORDS] = (*key, *(None,) * (2 - arity), plan)
            if plans.get(key) is not plan:  # another thread was at work on them
                plans.forget()
        return front(*(operands[::-1] if swapped else operands))

    record = np.zeros(c.ENTRY_LENGTH, np.int64)
    record[:] = _table.ctypes.data, arity, swapped, _RECENT - 1
    return _builtin("enter", record, front, recent, note)


# Plans of elementwise calls

_WHOLE = {8: c.TO_INT64, 4: c.TO_INT32, 2: c.TO_INT16, 1: c.TO_INT8}


def loop(function: Any, metas: tuple[Meta | None, ...], compute: np.dtype, out: Meta, plan: Callable) -> Callable:
    """The native form of the plan of an elementwise call; the plan itself where it has none."""
    inner = inner_loop(function, compute, out.numpy) if out.numel and len(metas) < 4 else None
    if inner is None or any(m is None or not m.weak and m.numpy is not compute for m in metas):
        return plan
    kinds = [_number_kind(m, compute) if m.weak else (0, m) for m in metas]
    if None in kinds:
        return plan
    strides = [_broadcast_strides(m, out.ndim, compute.itemsize) for m in metas]
    strides.append(tuple([stride * out.dtype.itemsize for stride in out.strides]))
    sizes, strides = coalesced(out.shape, strides)
    if len(sizes) > 3:
        return plan
    sizes = (1,) * (3 - len(sizes)) + sizes
    steps = [(0,) * (3 - len(own)) + own for own in strides]
    dims = np.array(out.shape or (0,), np.int64)
    descr = out.numpy
    words = [
        _table.ctypes.data, len(metas), *inner, id(descr), out.ndim, dims.ctypes.data, *sizes[::-1],
    ]  # fmt: skip
    for (kind, identity), own in zip([*kinds, (0, out)], steps, strict=True):
        words += [kind, id(identity), id(compute), *own[::-1]]
    record = np.array(words, np.int64)
    return _builtin("loop", record, plan, out, dims, descr, compute, function, kinds)


def _number_kind(m: Meta, compute: np.dtype) -> tuple[int, type] | None:
    """How a Python number with this weak meta is written in the dtype of the computation, and its type."""
    kind = {0: bool, 1: int, 2: float}.get(m.dtype.category)
    if kind is None or compute.kind not in "fiub" or compute.kind == "f" and compute.itemsize < 4:
        return None
    if compute.kind == "f":
        return (c.TO_DOUBLE if compute.itemsize == 8 else c.TO_SINGLE), kind
    return (_WHOLE[compute.itemsize], kind) if kind is not float else None


def _broadcast_strides(m: Meta, ndim: int, itemsize: int) -> tuple[int, ...]:
    own = [0 if size == 1 else stride * itemsize for size, stride in zip(m.shape, m.strides, strict=True)]
    return (*(0,) * (ndim - m.ndim), *own)


def coalesced(
    shape: tuple[int, ...], strides: list[tuple[int, ...]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The same elements in fewer dimensions: those of size 1 left out, those that lie behind each other in all
    operands made one."""
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for d, size in enumerate(shape):
        if size == 1:
            continue
        if sizes and all(own[-1] == whole[d] * size for own, whole in zip(steps, strides, strict=True)):
            sizes[-1] *= size
            for own, whole in zip(steps, strides, strict=True):
                own[-1] = whole[d]
        else:
            sizes.append(size)
            for own, whole in zip(steps, strides, strict=True):
                own.append(whole[d])
    return tuple(sizes), [tuple(own) for own in steps]


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
