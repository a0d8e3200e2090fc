"""`save`: plain structures and tensors in a zip archive, as PyTorch lays it out."""

from __future__ import annotations

import codecs
import io
import os
import pickle
import struct
import zipfile
from collections import Counter, OrderedDict
from types import FunctionType
from typing import IO, Any, NamedTuple

import numpy as np

from rushlight.core import dtypes
from rushlight.core.devices import device
from rushlight.core.layout import layout
from rushlight.core.meta import Size
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor
from rushlight.serialization.allowed import ALLOWED, STORAGES
from rushlight.serialization.atomic import replacing

File = str | os.PathLike | IO[bytes]


_ALIGNMENT = 64


class _Name:
    """Something that is written as a name in PyTorch's modules."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


_REBUILD_TENSOR = _Name("torch._utils", "_rebuild_tensor_v2")
_REBUILD_UNTYPED = _Name("torch._utils", "_rebuild_tensor_v3")  # for dtypes that have no storage class
_REBUILD_PARAMETER = _Name("torch._utils", "_rebuild_parameter")
_REBUILD_PARAMETER_WITH_STATE = _Name("torch._utils", "_rebuild_parameter_with_state")
_REBUILD_META = _Name("torch._utils", "_rebuild_meta_tensor_no_storage")
_REBUILD_FROM_TYPE, _TENSOR = _Name("torch._tensor", "_rebuild_from_type_v2"), _Name("torch", "Tensor")
_LAYOUT = _Name("torch.serialization", "_get_layout")
_SIZE, _DEVICE = _Name("torch", "Size"), _Name("torch", "device")
_ORDERED_DICT = _Name("collections", "OrderedDict")
_STORAGE_NAMES = {name: _Name("torch", storage) for name, storage in STORAGES.items()}
_UNTYPED = _Name("torch.storage", "UntypedStorage")
_ARRAY, _ARRAY_TYPE = _Name("numpy._core.multiarray", "_reconstruct"), _Name("numpy", "ndarray")
_NUMPY_DTYPE = _Name("numpy", "dtype")
_DTYPE_NAMES = {d.name: _Name("torch", d.name) for d in dtypes.ALL}
_PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, Counter)
_CALLABLES = {
    codecs.encode: _Name("_codecs", "encode"),
    **{kind: _Name("builtins", kind.__name__) for kind in (complex, bytearray, set, frozenset)},
    Counter: _Name("collections", "Counter"),
}


def _is_module(kind: type) -> bool:
    """Is this a class of `nn.Module`s? They say so, as this package comes below theirs."""
    return getattr(kind, "_stored_by_name", False) is True


class _Call(NamedTuple):
    """Something that is written as a call of a name, and a state for what it gives."""

    name: _Name
    arguments: tuple
    state: tuple


class _StorageRef:
    """A storage as a pickle refers to it: by a key that names its file in the archive."""

    def __init__(self, key: str, numel: int, kind: dtypes.dtype) -> None:
        self.key, self.numel, self.kind = key, numel, kind


class _Pickler(pickle._Pickler):  # type: ignore[name-defined]  # the Python one: the C one writes only names that can be imported
    """Writes plain structures and tensors; collects the storages."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, protocol=2)
        self.storages: dict[int, tuple[str, Storage]] = {}
        self.in_module = False

    def persistent_id(self, x: Any) -> Any:
        if not isinstance(x, _StorageRef):
            return None
        name = _STORAGE_NAMES.get(x.kind.name, _UNTYPED)
        return ("storage", name, x.key, "cpu", x.numel if name is not _UNTYPED else x.numel * x.kind.itemsize)

    def save(self, x: Any, save_persistent_id: bool = True) -> None:
        if isinstance(x, _Name):
            if not self._again(x):
                self.write(pickle.GLOBAL + f"{x.module}\n{x.name}\n".encode())
                self.memoize(x)
        elif isinstance(x, _Call):
            self._save_call(x.name, x.arguments, x, state=x.state)
        elif isinstance(x, Tensor):
            if not self._again(x):
                self._save_tensor(x)
        elif type(x) is bytes and not x:  # pickle would name a type that readers do not know
            self._save_call(_CALLABLES[codecs.encode], ("", "latin1"), x)
        elif type(x) in _PLAIN or isinstance(x, (_StorageRef, *[one for one in ALLOWED.values() if type(one) is type])):
            super().save(x, save_persistent_id)
        elif _is_module(type(x)):
            self.in_module = True
            super().save(x, save_persistent_id)
        elif self.in_module and (isinstance(x, FunctionType) or isinstance(x, type) and _is_module(x)):
            if not self._again(x):
                self.save_global(x)
        elif type(x) is OrderedDict:
            if not self._again(x):
                self._save_call(_ORDERED_DICT, (), x, state=vars(x) or None, items=x.items())
        elif isinstance(x, dtypes.dtype):
            self.save(_DTYPE_NAMES[x.name])
        elif isinstance(x, Size):
            self._save_call(_SIZE, (tuple(x),), x)
        elif isinstance(x, device):
            self._save_call(_DEVICE, (x.type,) if x.index is None else (x.type, x.index), x)
        elif isinstance(x, layout):
            self._save_call(_LAYOUT, (f"torch.{x.name}",), x)
        elif type(x) is np.ndarray and x.dtype.kind in "biufc":
            if not self._again(x):
                self._save_array(x)
        elif isinstance(x, np.generic):
            super().save(x.item(), save_persistent_id)
        elif isinstance(x, dict):  # a defaultdict and its like: stored as what it holds
            super().save(dict(x), save_persistent_id)
        elif callable(x) and x in _CALLABLES:
            self.save(_CALLABLES[x])
        elif isinstance(x, type) and x in ALLOWED.values():
            self.write(pickle.GLOBAL + f"{x.__module__}\n{x.__qualname__}\n".encode())
        else:
            raise TypeError(
                f"save: cannot store {type(x).__module__}.{type(x).__qualname__}: a checkpoint holds tensors, "
                "numbers, strings, "
                "lists, tuples and dicts of them. Store module.state_dict() and optimizer.state_dict(), or allow the "
                "class with rushlight.serialization.add_safe_globals"
            )

    def _again(self, x: Any) -> bool:
        """Write a reference to what was written before, if it was."""
        found = self.memo.get(id(x))
        if found is not None:
            self.write(self.get(found[0]))
        return found is not None

    def _save_call(self, name: _Name, arguments: tuple, x: Any, state: Any = None, items: Any = None) -> None:
        """Write a call of a named function, as pickles hold them, with the state and the dict items of its result."""
        self.save(name)
        self.save(arguments)
        self.write(pickle.REDUCE)
        if id(x) not in self.memo:
            self.memoize(x)
        if items is not None:
            self._batch_setitems(items)
        if state is not None:
            self.save(state)
            self.write(pickle.BUILD)

    def _save_array(self, x: np.ndarray) -> None:
        """Write an array of numbers as numpy pickles one, little-endian and in row-major order."""
        code = x.dtype.newbyteorder("<")
        kind = _Call(_NUMPY_DTYPE, (code.str[1:], False, True), (3, "<", None, None, None, -1, -1, 0))
        state = (1, x.shape, kind, False, x.astype(code, copy=False).tobytes())
        self._save_call(_ARRAY, (_ARRAY_TYPE, (0,), b"b"), x, state=state)

    def _save_tensor(self, x: Tensor) -> None:
        attributes = x.__dict__
        if type(x).__name__ == "Parameter":
            arguments: tuple = (x.detach(), x.requires_grad, OrderedDict())
            if attributes:
                self._save_call(_REBUILD_PARAMETER_WITH_STATE, (*arguments, attributes), x)
            else:
                self._save_call(_REBUILD_PARAMETER, arguments, x)
            return
        rebuild, arguments = self._parts(x)
        if attributes:
            self._save_call(_REBUILD_FROM_TYPE, (rebuild, _TENSOR, arguments, attributes), x)
        else:
            self._save_call(rebuild, arguments, x)

    def _parts(self, x: Tensor) -> tuple[_Name, tuple]:
        """The function that makes the tensor when it is read, and its arguments."""
        m = x._meta
        if x.is_meta:
            return _REBUILD_META, (m.dtype, tuple(m.shape), m.strides, m.requires_grad)
        plain = x.detach().cpu()
        storage, m = plain.storage(), plain._meta
        key, _ = self.storages.setdefault(id(storage), (str(len(self.storages)), storage))
        ref = _StorageRef(key, storage.nbytes() // m.dtype.itemsize, m.dtype)
        geometry = (ref, plain.storage_offset(), tuple(m.shape), m.strides, x.requires_grad, OrderedDict())
        if m.dtype.name in _STORAGE_NAMES:
            return _REBUILD_TENSOR, geometry
        return _REBUILD_UNTYPED, (*geometry, m.dtype)


def save(
    obj: Any,
    f: File,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Store tensors and nested dicts, lists and tuples of them, numbers, strings and numpy arrays in a file.

    `f` is a path, or a file open for writing in binary. A path is written in one step at the end, so a crash leaves the
    old file whole. PyTorch reads the file, too. Raises TypeError for other objects than the named ones, and
    PicklingError for a module of a class that cannot be imported.

    A whole `nn.Module` is stored by the names of its classes and functions; reading it takes the same code, and
    `serialization.safe_globals` with these classes. `module.state_dict()` lasts longer.

    Example:
        >>> import io, rushlight
        >>> buffer = io.BytesIO()
        >>> rushlight.save({"weight": rushlight.ones(2)}, buffer)
        >>> _ = buffer.seek(0)
        >>> rushlight.load(buffer)
        {'weight': tensor([1., 1.])}
    """
    structure = io.BytesIO()
    pickler = _Pickler(structure)
    pickler.dump(obj)
    if not isinstance(f, (str, os.PathLike)):
        _write(f, "archive", structure.getvalue(), pickler.storages.values())
        return
    name = os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive"
    with replacing(f) as file:
        _write(file, name, structure.getvalue(), pickler.storages.values())


def _write(file: Any, name: str, structure: bytes, storages: Any) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        start = archive.fp.tell()
        add(archive, start, f"{name}/data.pkl", structure)
        add(archive, start, f"{name}/byteorder", b"little")
        for key, storage in storages:
            add(archive, start, f"{name}/data/{key}", storage.bytes.data)
        add(archive, start, f"{name}/version", b"3\n")


def add(archive: zipfile.ZipFile, start: int, name: str, data: Any) -> None:
    """Add a file whose bytes begin at a multiple of the alignment,
    so that they can be mapped into memory and used in place.
    """
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    header = 30 + len(name.encode()) + 4
    if len(data) * 1.05 > zipfile.ZIP64_LIMIT:
        header += 20  # zipfile notes the sizes of large files in a field of their own
    padding = -(archive.fp.tell() - start + header) % _ALIGNMENT
    info.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding  # what PyTorch pads with
    archive.writestr(info, data)
