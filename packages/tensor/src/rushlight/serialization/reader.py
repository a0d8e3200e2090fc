"""`load`: what `save`, or PyTorch, has stored, read without running code from the file."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import dtypes, siblings
from rushlight.core.devices import as_device, device
from rushlight.core.meta import Size
from rushlight.core.storage import Storage, address, window
from rushlight.core.tensor import Tensor
from rushlight.ops.duplicate import over_storage
from rushlight.serialization.allowed import ALLOWED, STORAGES
from rushlight.serialization.writer import File


def _rebuild_tensor(
    storage: tuple,
    offset: int,
    size: tuple,
    stride: tuple,
    requires_grad: bool = False,
    hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    memory, kind, place = storage
    if kind is None:
        raise pickle.UnpicklingError("load: a tensor over untyped storage does not say its dtype")
    made = over_storage(memory, int(offset), tuple(size), tuple(stride), kind)
    if place.type != "cpu":
        made = made.to(place)
    return made.requires_grad_() if requires_grad else made


def _rebuild_typed(
    storage: tuple,
    offset: int,
    size: tuple,
    stride: tuple,
    requires_grad: bool,
    hooks: Any,
    kind: dtypes.dtype,
    *metadata: Any,
) -> Tensor:
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
    ("collections", "OrderedDict"): OrderedDict,
    ("_codecs", "encode"): lambda text, encoding: text.encode(encoding),
    ("torch", "Size"): Size,
    ("torch", "device"): device,
    ("torch", "Tensor"): "Tensor",
    ("torch.nn.parameter", "Parameter"): "Parameter",
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _rebuild_typed,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _rebuild_parameter,
    ("torch._tensor", "_rebuild_from_type_v2"): _rebuild_from_type,
    ("torch.storage", "UntypedStorage"): _StorageType(None),
    **{("torch", storage): _StorageType(dtypes.named(name)) for name, storage in STORAGES.items()},
    **{("torch", d.name): d for d in dtypes.ALL},
    **{
        (module, kind.__name__): kind
        for kind in (complex, bytearray, set, frozenset)
        for module in ("builtins", "__builtin__")
    },
}


class _Unpickler(pickle.Unpickler):
    """Reads structures in which only the names of `_READABLE`, and those that the user allows, may occur."""

    def __init__(
        self,
        structure: bytes,
        storage_of: Callable[[str, int], Storage],
        place_of: Callable[[str], device],
        encoding: str,
    ) -> None:
        super().__init__(io.BytesIO(structure), encoding=encoding)
        self._storage_of, self._place_of = storage_of, place_of

    def find_class(self, module: str, name: str) -> Any:
        found = _READABLE.get((module, name), ALLOWED.get((module, name)))
        if found is None:
            raise pickle.UnpicklingError(
                f"load: the file refers to {module}.{name}, which is no plain data and is not run. Store state_dicts, "
                "or, "
                "if you trust the file, allow the class with rushlight.serialization.add_safe_globals"
            )
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


def load(
    f: File,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    encoding: str = "utf-8",
    **pickle_load_args: Any,
) -> Any:
    """What `save`, or `torch.save`, has stored in a file. No code from the file is run, whatever `weights_only` says.

    `map_location` says on which device tensors are placed: a device, or a dict from old to new. `mmap` reads memory as
    it is used instead of at once. Raises FileNotFoundError when there is no file, RuntimeError when it is no such
    archive, and pickle.UnpicklingError when it holds objects that are not plain data.
    """
    try:
        archive = zipfile.ZipFile(f)
    except zipfile.BadZipFile:
        raise RuntimeError(
            "load: the file is not a checkpoint in the zip format that save() writes (files of PyTorch before 1.6 and "
            "safetensors "
            "files are other formats)"
        ) from None
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
                raise RuntimeError(
                    f"load: the file is damaged: storage {key} has {storages[key].nbytes} bytes, expected {size}"
                )
            return storages[key]

        return _Unpickler(archive.read(structure), storage_of, _places(map_location), encoding).load()


def _record(archive: zipfile.ZipFile, name: str, mapped: np.ndarray | None) -> np.ndarray:
    """The bytes of a file in the archive."""
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise RuntimeError(f"load: the file is damaged: {name} is missing") from None
    if mapped is not None and info.compress_type == zipfile.ZIP_STORED:
        header = bytes(mapped[info.header_offset : info.header_offset + 30])
        begin = info.header_offset + 30 + sum(struct.unpack("<HH", header[26:30])) if len(header) == 30 else mapped.size
        if begin + info.file_size > mapped.size:
            raise RuntimeError(f"load: the file is damaged: {name} ends behind the file's end")
        return window(mapped, address(mapped) + begin, (info.file_size,), (1,), part=False)
    data = np.empty(info.file_size, np.uint8)
    with archive.open(info) as file:
        if file.readinto(data) != info.file_size:  # type: ignore[attr-defined]
            raise RuntimeError(f"load: the file is damaged: {name} ends early")
    return data
