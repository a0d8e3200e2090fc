"""`save` and `load`: checkpoints in PyTorch's own zip format, read without running code from the file.

The archive holds `data.pkl`, a pickle of the structure, and the memory of each storage under `data/`. Writing emits
only the types below; reading looks names up in a fixed table and refuses all others, so a file cannot make anything run.
"""

from __future__ import annotations

import codecs
import io
import os
import pickle
import struct
import tempfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from rushlight.core import dtypes, siblings
from rushlight.core.devices import as_device, device
from rushlight.core.meta import Size
from rushlight.core.storage import Storage, address, window
from rushlight.core.tensor import Tensor
from rushlight.ops.duplicate import over_storage

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "save"]

File = str | os.PathLike | IO[bytes]
_ALIGNMENT = 64

_STORAGES = {"float64": "DoubleStorage", "float32": "FloatStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage",
             "int64": "LongStorage", "int32": "IntStorage", "int16": "ShortStorage", "int8": "CharStorage", "uint8": "ByteStorage",
             "bool": "BoolStorage", "complex64": "ComplexFloatStorage", "complex128": "ComplexDoubleStorage"}
_safe_globals: dict[tuple[str, str], Any] = {}


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allow `save` and `load` to handle instances of more classes, by the pickle protocol: only for code that you trust."""
    _safe_globals.update({(kind.__module__, kind.__qualname__): kind for kind in safe_globals})


def get_safe_globals() -> list[Any]:
    """The classes that `add_safe_globals` has allowed."""
    return list(_safe_globals.values())


def clear_safe_globals() -> None:
    """Take back what `add_safe_globals` has allowed."""
    _safe_globals.clear()


# Writing


class _Name:
    """Something that is written as a name in PyTorch's modules."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


_REBUILD_TENSOR = _Name("torch._utils", "_rebuild_tensor_v2")
_REBUILD_PARAMETER = _Name("torch._utils", "_rebuild_parameter")
_SIZE, _DEVICE = _Name("torch", "Size"), _Name("torch", "device")
_ORDERED_DICT = _Name("collections", "OrderedDict")
_STORAGE_NAMES = {name: _Name("torch", storage) for name, storage in _STORAGES.items()}
_UNTYPED = _Name("torch.storage", "UntypedStorage")
_DTYPE_NAMES = {d.name: _Name("torch", d.name) for d in dtypes.ALL}
_PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)
_CALLABLES = {codecs.encode: _Name("_codecs", "encode"),
              **{kind: _Name("builtins", kind.__name__) for kind in (complex, bytearray, set, frozenset)}}


class _StorageRef:
    """A storage as a pickle refers to it: by a key that names its file in the archive."""

    def __init__(self, key: str, numel: int, kind: dtypes.dtype) -> None:
        self.key, self.numel, self.kind = key, numel, kind


class _Pickler(pickle._Pickler):  # type: ignore[name-defined]  # the Python one: the C one writes only names that can be imported
    """Writes plain structures and tensors; collects the storages."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, protocol=2)
        self.storages: dict[int, tuple[str, Storage]] = {}

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
        elif isinstance(x, Tensor):
            if not self._again(x):
                self._save_tensor(x)
        elif type(x) in _PLAIN or isinstance(x, (_StorageRef, *_safe_globals.values())):
            super().save(x, save_persistent_id)
        elif type(x) is OrderedDict:
            if not self._again(x):
                self._save_call(_ORDERED_DICT, (), x, state=vars(x) or None, items=x.items())
        elif isinstance(x, dtypes.dtype):
            self.save(_DTYPE_NAMES[x.name])
        elif isinstance(x, Size):
            self._save_call(_SIZE, (tuple(x),), x)
        elif isinstance(x, device):
            self._save_call(_DEVICE, (x.type,) if x.index is None else (x.type, x.index), x)
        elif isinstance(x, np.generic):
            super().save(x.item(), save_persistent_id)
        elif isinstance(x, dict):  # a defaultdict and its like: stored as what it holds
            super().save(dict(x), save_persistent_id)
        elif callable(x) and x in _CALLABLES:
            self.save(_CALLABLES[x])
        elif isinstance(x, type) and x in _safe_globals.values():
            self.write(pickle.GLOBAL + f"{x.__module__}\n{x.__qualname__}\n".encode())
        else:
            raise TypeError(f"save: cannot store {type(x).__module__}.{type(x).__qualname__}: a checkpoint holds tensors, numbers, strings, "
                            "lists, tuples and dicts of them. Store module.state_dict() and optimizer.state_dict(), or allow the "
                            "class with rushlight.serialization.add_safe_globals")

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

    def _save_tensor(self, x: Tensor) -> None:
        plain = x.detach().cpu()
        if type(x).__name__ == "Parameter":
            self._save_call(_REBUILD_PARAMETER, (plain, x.requires_grad, OrderedDict()), x)
            return
        storage, m = plain.storage(), plain._meta
        key, _ = self.storages.setdefault(id(storage), (str(len(self.storages)), storage))
        ref = _StorageRef(key, storage.nbytes // m.dtype.itemsize, m.dtype)
        self._save_call(_REBUILD_TENSOR, (ref, plain.storage_offset(), tuple(m.shape), m.strides, x.requires_grad, OrderedDict()), x)


def save(obj: Any, f: File, pickle_module: Any = None, pickle_protocol: int = 2, _use_new_zipfile_serialization: bool = True,
         _disable_byteorder_record: bool = False) -> None:
    """Store tensors and nested dicts, lists and tuples of them, numbers and strings in a file.

    `f` is a path, or a file open for writing in binary. A path is written in one step at the end, so a crash leaves the old file whole.
    PyTorch reads the file, too. Raises TypeError for other objects than the named ones.

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
    path = os.path.abspath(os.fspath(f))
    name = os.path.splitext(os.path.basename(path))[0] or "archive"
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), prefix=name + ".", suffix=".part", delete=False) as file:
        try:
            _write(file, name, structure.getvalue(), pickler.storages.values())
            file.flush()
            os.fchmod(file.fileno(), 0o666 & ~_umask())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _umask() -> int:
    """The permissions that new files are not to have (there is no way to read it without setting it)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write(file: Any, name: str, structure: bytes, storages: Any) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        start = file.tell()
        _add(archive, file, start, f"{name}/data.pkl", structure)
        _add(archive, file, start, f"{name}/byteorder", b"little")
        for key, storage in storages:
            _add(archive, file, start, f"{name}/data/{key}", storage.bytes.data)
        _add(archive, file, start, f"{name}/version", b"3\n")


def _add(archive: zipfile.ZipFile, file: Any, start: int, name: str, data: Any) -> None:
    """Add a file whose bytes begin at a multiple of the alignment, so that they can be mapped into memory and used in place."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    header = 30 + len(name.encode()) + 4
    padding = -(file.tell() - start + header) % _ALIGNMENT
    info.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding  # what PyTorch pads with
    archive.writestr(info, data)


# Reading


def _rebuild_tensor(storage: tuple, offset: int, size: tuple, stride: tuple, requires_grad: bool = False, hooks: Any = None,
                    metadata: Any = None) -> Tensor:
    memory, kind, place = storage
    if kind is None:
        raise pickle.UnpicklingError("load: a tensor over untyped storage does not say its dtype")
    made = over_storage(memory, int(offset), tuple(size), tuple(stride), kind)
    if place.type != "cpu":
        made = made.to(place)
    return made.requires_grad_() if requires_grad else made


def _rebuild_typed(storage: tuple, offset: int, size: tuple, stride: tuple, requires_grad: bool, hooks: Any, kind: dtypes.dtype,
                   *metadata: Any) -> Tensor:
    return _rebuild_tensor((storage[0], kind, storage[2]), offset, size, stride, requires_grad)


def _rebuild_parameter(data: Tensor, requires_grad: bool, hooks: Any = None, state: Any = None) -> Tensor:
    try:
        parameter = siblings.root_name("nn").Parameter
    except AttributeError:  # the package nn is not installed: a leaf tensor serves
        return data.detach().requires_grad_(requires_grad)
    return parameter(data, requires_grad)


def _rebuild_from_type(rebuild: Callable, kind: Any, arguments: tuple, state: Any) -> Tensor:
    made = rebuild(*arguments)
    return _rebuild_parameter(made, made.requires_grad) if kind == "Parameter" else made


class _StorageType:
    """The name of a storage class: says the dtype of a storage; None when it is untyped."""

    def __init__(self, kind: dtypes.dtype | None) -> None:
        self.kind = kind


_READABLE: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict, ("_codecs", "encode"): lambda text, encoding: text.encode(encoding),
    ("torch", "Size"): Size, ("torch", "device"): device, ("torch", "Tensor"): "Tensor", ("torch.nn.parameter", "Parameter"): "Parameter",
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor, ("torch._utils", "_rebuild_tensor_v3"): _rebuild_typed,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter, ("torch._utils", "_rebuild_parameter_with_state"): _rebuild_parameter,
    ("torch._tensor", "_rebuild_from_type_v2"): _rebuild_from_type, ("torch.storage", "UntypedStorage"): _StorageType(None),
    **{("torch", storage): _StorageType(dtypes.named(name)) for name, storage in _STORAGES.items()},
    **{("torch", d.name): d for d in dtypes.ALL},
    **{(module, kind.__name__): kind for kind in (complex, bytearray, set, frozenset) for module in ("builtins", "__builtin__")},
}


class _Unpickler(pickle.Unpickler):
    """Reads structures in which only the names of `_READABLE`, and those that the user allows, may occur."""

    def __init__(self, structure: bytes, storage_of: Callable[[str, int], Storage], place_of: Callable[[str], device], encoding: str) -> None:
        super().__init__(io.BytesIO(structure), encoding=encoding)
        self._storage_of, self._place_of = storage_of, place_of

    def find_class(self, module: str, name: str) -> Any:
        found = _READABLE.get((module, name), _safe_globals.get((module, name)))
        if found is None:
            raise pickle.UnpicklingError(f"load: the file refers to {module}.{name}, which is no plain data and is not run. Store state_dicts, or, "
                                         "if you trust the file, allow the class with rushlight.serialization.add_safe_globals")
        return found

    def persistent_load(self, pid: Any) -> tuple:
        if not (isinstance(pid, tuple) and len(pid) >= 5 and pid[0] == "storage" and isinstance(pid[1], _StorageType)):
            raise pickle.UnpicklingError(f"load: the file refers to {pid!r}, expected a storage")
        _, kind, key, location, numel = pid[:5]
        size = numel * (kind.kind.itemsize if kind.kind else 1)
        return (self._storage_of(str(key), size), kind.kind, self._place_of(str(location)))


def _places(map_location: Any) -> Callable[[str], device]:
    """Where storages that were on a device go."""
    if map_location is None:
        return as_device
    if isinstance(map_location, dict):
        return lambda location: as_device(map_location.get(location, location))
    if callable(map_location) and not isinstance(map_location, device):
        return lambda location: as_device("cpu" if "cpu" in str(map_location(None, location) or location) else location)
    place = as_device(map_location)
    return lambda location: place


def load(f: File, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None, mmap: bool | None = None,
         encoding: str = "utf-8", **pickle_load_args: Any) -> Any:
    """What `save`, or `torch.save`, has stored in a file. No code from the file is run, whatever `weights_only` says.

    `map_location` says on which device tensors are placed: a device, or a dict from old to new. `mmap` reads memory as it is used
    instead of at once. Raises FileNotFoundError when there is no file, RuntimeError when it is no such archive, and
    pickle.UnpicklingError when it holds objects that are not plain data.
    """
    try:
        archive = zipfile.ZipFile(f)
    except zipfile.BadZipFile:
        raise RuntimeError("load: the file is not a checkpoint in the zip format that save() writes (files of PyTorch before 1.6 and safetensors "
                           "files are other formats)") from None
    with archive:
        structure = next((name for name in archive.namelist() if name.endswith("data.pkl")), None)
        if structure is None:
            raise RuntimeError("load: the archive holds no data.pkl, so it is no checkpoint")
        root = structure.removesuffix("data.pkl")
        if f"{root}byteorder" in archive.namelist() and archive.read(f"{root}byteorder") != b"little":
            raise RuntimeError("load: the file was written on a big-endian machine, which is not supported")
        mapped = np.memmap(f, np.uint8, "c") if mmap and isinstance(f, (str, os.PathLike)) else None
        storages: dict[str, Storage] = {}

        def storage_of(key: str, size: int) -> Storage:
            if key not in storages:
                storages[key] = Storage(_record(archive, f"{root}data/{key}", mapped))
            if storages[key].nbytes < size:
                raise RuntimeError(f"load: the file is damaged: storage {key} has {storages[key].nbytes} bytes, expected {size}")
            return storages[key]

        return _Unpickler(archive.read(structure), storage_of, _places(map_location), encoding).load()


def _record(archive: zipfile.ZipFile, name: str, mapped: np.ndarray | None) -> np.ndarray:
    """The bytes of a file in the archive."""
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise RuntimeError(f"load: the file is damaged: {name} is missing") from None
    if mapped is not None and info.compress_type == zipfile.ZIP_STORED:
        header = bytes(mapped[info.header_offset:info.header_offset + 30])
        begin = info.header_offset + 30 + sum(struct.unpack("<HH", header[26:30])) if len(header) == 30 else mapped.size
        if begin + info.file_size > mapped.size:
            raise RuntimeError(f"load: the file is damaged: {name} ends behind the file's end")
        return window(mapped, address(mapped) + begin, (info.file_size,), (1,), part=False)
    data = np.empty(info.file_size, np.uint8)
    with archive.open(info) as file:
        if file.readinto(data) != info.file_size:  # type: ignore[attr-defined]
            raise RuntimeError(f"load: the file is damaged: {name} ends early")
    return data
