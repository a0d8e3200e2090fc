"""An interpreter of pickles that builds plain data and nothing else.

A pickle is a program for a stack machine, and some of its instructions import, call and change any object that Python
has. Here the instructions that make numbers, strings and containers are Python's own; those that could do more are
replaced by ones that look names up in a table, call what the table says may be called, and change the containers and
objects that the program itself has made.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from rushlight.serialization.allowed import ALLOWED

_PLAIN = (
    "PROTO FRAME STOP MARK POP POP_MARK DUP PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET "
    "NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT "
    "STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8 "
    "UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 "
    "TUPLE EMPTY_TUPLE TUPLE1 TUPLE2 TUPLE3 LIST EMPTY_LIST EMPTY_DICT EMPTY_SET GLOBAL STACK_GLOBAL BINPERSID"
).split()
_KEY_LIMIT = 1000  # parts of a dict's key: tuples of tuples of ... can take for ever to hash


class Constructor:
    """A function that a pickle may call."""

    def __init__(self, function: Callable) -> None:
        self.function = function


class NumpyType:
    """A numpy dtype in the making: pickles make one from a name, and then set its byte order."""

    def __init__(self, name: str, align: bool = False, copy: bool = False) -> None:
        self.dtype = np.dtype(name)
        if self.dtype.kind not in "biufc":
            raise pickle.UnpicklingError(f"load: the file holds numpy data of type {name!r}, expected numbers")


class _Exact:
    """Reads as many bytes as asked for, or fails; a short answer would pass for data."""

    def __init__(self, file: io.BytesIO) -> None:
        self.readline, self.readinto, self._read = file.readline, file.readinto, file.read

    def read(self, n: int) -> bytes:
        data = self._read(n)
        if len(data) < n:
            raise EOFError("it ends early")
        return data


class Unpickler(pickle._Unpickler):  # type: ignore[name-defined]  # the Python one: instructions of the C one cannot be replaced
    """Reads pickles in which only the names of a table, and those that the user allows, may occur."""

    dispatch = {getattr(pickle, name)[0]: pickle._Unpickler.dispatch[getattr(pickle, name)[0]] for name in _PLAIN}

    def __init__(
        self, file: io.BytesIO, names: Mapping[tuple[str, str], Any], stored: Callable[[Any], Any], encoding: str
    ) -> None:
        super().__init__(_Exact(file), encoding=encoding)
        self._names, self.persistent_load = names, stored

    def load(self) -> Any:
        try:
            return super().load()
        except KeyError as error:  # no such instruction, or nothing was remembered under a number
            raise pickle.UnpicklingError(f"load: instruction or reference {error} in the file is not allowed") from None

    def find_class(self, module: str, name: str) -> Any:
        found = self._names.get((module, name), ALLOWED.get((module, name)))
        if found is not None:
            return found
        if module == "torch" or module.startswith("torch."):
            why = "which rushlight does not have; it reads dense tensors of its dtypes"
        else:
            why = "which is no plain data and is not run"
        raise pickle.UnpicklingError(
            f"load: the file refers to {module}.{name}, {why}. Store state_dicts, or, if you trust the file, allow the "
            "class with rushlight.serialization.add_safe_globals"
        )

    def _reduce(self) -> None:
        arguments = self.stack.pop()
        called = self.stack[-1]
        if isinstance(called, Constructor):
            called = called.function
        elif not _allowed(called):
            raise pickle.UnpicklingError(f"load: the file calls {called!r}, which may not be called")
        self.stack[-1] = called(*arguments)

    def _new(self) -> None:
        arguments = self.stack.pop()
        kind = self.stack.pop()
        if not (isinstance(kind, type) and _allowed(kind)):
            raise pickle.UnpicklingError(f"load: the file makes an instance of {kind!r}, which is not allowed")
        self.append(kind.__new__(kind, *arguments))

    def _build(self) -> None:
        state, made = self.stack[-1], self.stack[-2]
        if type(made) is OrderedDict and isinstance(state, dict):
            vars(made).update(state)
        elif type(made) is NumpyType:
            made.dtype = made.dtype.newbyteorder(state[1])
        elif type(made) is np.ndarray:
            _fill_array(made, state)
        elif _allowed(type(made)):
            super().load_build()
            return
        else:
            raise pickle.UnpicklingError(f"load: the file changes a {type(made).__name__}, which is not allowed")
        self.stack.pop()

    def _append(self) -> None:
        value = self.stack.pop()
        self._container(list).append(value)

    def _appends(self) -> None:
        values = self.pop_mark()
        self._container(list).extend(values)

    def _setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._container(dict)[checked_key(key)] = value

    def _setitems(self) -> None:
        items = self.pop_mark()
        self._container(dict).update({checked_key(k): v for k, v in zip(items[::2], items[1::2], strict=True)})

    def _additems(self) -> None:
        values = self.pop_mark()
        self._container(set).update(map(checked_key, values))

    def _dict(self) -> None:
        items = self.pop_mark()
        self.append({checked_key(k): v for k, v in zip(items[::2], items[1::2], strict=True)})

    def _frozenset(self) -> None:
        members = self.pop_mark()
        self.append(frozenset(map(checked_key, members)))

    def _container(self, kind: type) -> Any:
        found = self.stack[-1]
        if type(found) not in (kind, OrderedDict if kind is dict else kind) and not _allowed(type(found)):
            raise pickle.UnpicklingError(f"load: the file fills a {type(found).__name__} like a {kind.__name__}")
        return found

    dispatch |= {
        pickle.REDUCE[0]: _reduce, pickle.NEWOBJ[0]: _new, pickle.BUILD[0]: _build,
        pickle.APPEND[0]: _append, pickle.APPENDS[0]: _appends, pickle.ADDITEMS[0]: _additems,
        pickle.SETITEM[0]: _setitem, pickle.SETITEMS[0]: _setitems, pickle.DICT[0]: _dict,
        pickle.FROZENSET[0]: _frozenset,
    }  # fmt: skip


def _allowed(value: Any) -> bool:
    """Has the user allowed this class or function?"""
    return any(value is allowed for allowed in ALLOWED.values())


def checked_key(key: Any) -> Any:
    """A key of a dict or member of a set that can be hashed in time."""
    waiting, count = [key], 0
    while waiting:
        part = waiting.pop()
        if isinstance(part, (tuple, frozenset)):
            count += len(part)
            if count > _KEY_LIMIT:
                raise pickle.UnpicklingError(f"load: a key in the file has more than {_KEY_LIMIT} parts")
            waiting.extend(part)
    return key


def ordered_dict(items: Iterable = ()) -> OrderedDict:
    """An OrderedDict from pairs, as old pickles make it."""
    return OrderedDict([(checked_key(key), value) for key, value in items])


def numpy_array(kind: Any, shape: Any, dtype: Any) -> np.ndarray:
    """An array without elements yet; the instruction that follows brings them."""
    return np.ndarray(0)


def numpy_scalar(kind: NumpyType, data: bytes) -> Any:
    """A numpy number from its bytes."""
    (value,) = np.frombuffer(data, kind.dtype)
    return value


def _fill_array(array: np.ndarray, state: tuple) -> None:
    """Give an array its elements. The state is checked first, because numpy believes what it is told."""
    _, shape, kind, fortran, data = state
    elements = 1
    for size in shape:
        if type(size) is not int or size < 0:
            raise pickle.UnpicklingError(f"load: a numpy array in the file has the shape {shape}")
        elements *= size
    if type(kind) is not NumpyType or type(data) is not bytes or len(data) != elements * kind.dtype.itemsize:
        raise pickle.UnpicklingError(f"load: the bytes of a numpy array in the file do not fit its shape {shape}")
    restore: Any = array.__setstate__
    restore((1, tuple(shape), kind.dtype, bool(fortran), data))
