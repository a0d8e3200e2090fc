"""Builtin functions of Python over machine code: C functions that take their arguments as an array."""

from __future__ import annotations

import ctypes

FASTCALL = 0x80


class Method(ctypes.Structure):
    """PyMethodDef. It has to live as long as the builtins that are made of it."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


new_builtin = ctypes.pythonapi.PyCFunction_NewEx  # of the address of a Method, `self`, and the name of a module
new_builtin.restype, new_builtin.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
