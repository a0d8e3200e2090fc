"""`load`: what `save`, or PyTorch, has stored, read without running code from the file."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
from collections.abc import Callable
from typing import IO, Any

from rushlight.core.devices import as_device, device, plugin
from rushlight.core.storage import Storage
from rushlight.serialization.archive import Archive
from rushlight.serialization.legacy import BEGIN, load_legacy
from rushlight.serialization.rebuild import NAMES, StorageType, Stored
from rushlight.serialization.unpickler import Unpickler
from rushlight.serialization.writer import File


def load(
    f: File,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    encoding: str = "utf-8",
) -> Any:
    """What `save`, or `torch.save`, has stored in a file. No code from the file is run, whatever `weights_only` and
    `pickle_module` say.

    `f` is a path, or a file open for reading in binary that can seek. `map_location` says on which device tensors are
    placed: a device, a dict from old to new ones, or a function of a storage and its old device that returns
    `storage.cpu()`, `storage.cuda(1)` or None for the old one. `mmap` maps a path into memory, so that bytes are read
    when they are used; writes to the tensors do not reach the file. Raises FileNotFoundError when there is no file,
    RuntimeError when it is damaged or no checkpoint, and pickle.UnpicklingError when it holds what is not plain data.

    Example:
        >>> import io, rushlight
        >>> buffer = io.BytesIO()
        >>> rushlight.save({"weight": rushlight.ones(2)}, buffer)
        >>> _ = buffer.seek(0)
        >>> rushlight.load(buffer)
        {'weight': tensor([1., 1.])}
    """
    is_path = isinstance(f, (str, os.PathLike))
    if mmap and not is_path:
        raise ValueError(f"load: mmap=True needs the path of a file, got {type(f).__name__}")
    if not is_path and not (hasattr(f, "seekable") and f.seekable()):
        raise io.UnsupportedOperation(
            "load: the file cannot seek; read all of it into memory first: load(io.BytesIO(f.read()))"
        )
    stored = _storages(map_location)
    opened: Any = open(f, "rb") if is_path else contextlib.nullcontext(f)  # type: ignore[arg-type]
    with opened as file:
        try:
            return _load(file, f if mmap else None, stored, encoding)
        except MemoryError:
            raise
        except Exception as error:  # a damaged file can fail anywhere
            if str(error).startswith("load: "):
                raise
            raise RuntimeError(f"load: the file is damaged: {error}") from error


def _load(file: IO[bytes], mapped: Any, stored: Callable, encoding: str) -> Any:
    begin = file.tell()
    first = file.read(512)
    file.seek(begin)
    if first.startswith(BEGIN):
        if mapped is not None:
            raise RuntimeError("load: mmap=True needs a zip archive; this file has PyTorch's format before 1.6")
        return load_legacy(file, stored, encoding)
    _check_format(first)
    archive = Archive(file, mapped)
    if "constants.pkl" in archive:
        raise RuntimeError("load: the file is a TorchScript program, which rushlight does not run; save a state_dict")
    if "byteorder" in archive and archive.read("byteorder") != b"little":
        raise RuntimeError("load: the file was written on a big-endian machine, which is not supported")
    storages: dict[str, Storage] = {}

    def storage_of(key: str, size: int) -> Storage:
        if key not in storages:
            storages[key] = Storage(archive.memory(f"data/{key}"))
        if storages[key].nbytes() < size:
            raise RuntimeError(
                f"load: the file is damaged: storage {key} has {storages[key].nbytes()} bytes, expected {size}"
            )
        return storages[key]

    structure = io.BytesIO(archive.read("data.pkl"))
    return Unpickler(structure, NAMES, lambda pid: stored(pid, storage_of), encoding).load()


def _check_format(first: bytes) -> None:
    """Say what a file is that is no zip archive."""
    if first.startswith(b"PK"):
        return
    if first[257:262] == b"ustar":
        hint = "it is in PyTorch's format before 0.2; load and save it with PyTorch"
    elif first[8:10] == b'{"' or first.startswith(b"\x93NUMPY"):
        hint = "read it with rushlight.load_file"
    elif not first:
        hint = "it is empty, or read to its end (then call f.seek(0) first)"
    else:
        hint = "save() and PyTorch write zip archives"
    raise RuntimeError(f"load: the file is not a checkpoint; {hint}")


def _storages(map_location: Any) -> Callable[[Any, Callable[[str, int], Storage]], Stored]:
    """How references to storages in a pickle become storages."""
    place_of = _places(map_location)

    def stored(pid: Any, storage_of: Callable[[str, int], Storage]) -> Stored:
        if not (isinstance(pid, tuple) and len(pid) >= 5 and pid[0] == "storage" and isinstance(pid[1], StorageType)):
            raise pickle.UnpicklingError(f"load: the file refers to {pid!r}, expected a storage")
        kind, key, location, numel = pid[1].kind, str(pid[2]), str(pid[3]), pid[4]
        if type(numel) is not int or numel < 0:
            raise pickle.UnpicklingError(f"load: the file refers to a storage of {numel!r} elements")
        return Stored(storage_of(key, numel * (kind.itemsize if kind else 1)), kind, place_of(location))

    return stored


class _Placed:
    """What a function given as `map_location` sees of a storage, and how it says where it goes."""

    def __init__(self, place: device) -> None:
        self.device = place

    def cpu(self) -> _Placed:
        """On the CPU."""
        return _Placed(device("cpu"))

    def cuda(self, device: Any = None, non_blocking: bool = False) -> _Placed:
        """On a CUDA device."""
        return _Placed(as_device("cuda" if device is None else device))

    def to(self, device: Any) -> _Placed:
        """On any device."""
        return _Placed(as_device(device))


def _places(map_location: Any) -> Callable[[str], device]:
    """The device for storages that were on a device, named as in the file."""
    if map_location is None:
        return _usable
    if isinstance(map_location, dict):
        places = {str(old): new for old, new in map_location.items()}
        return lambda location: _usable(places.get(location, location))
    if callable(map_location) and not isinstance(map_location, device):
        chosen = map_location
        return lambda location: getattr(chosen(_Placed(device("cpu")), location), "device", None) or _usable(location)
    place = _usable(map_location)
    return lambda location: place


def _usable(location: Any) -> device:
    """The device of a name, if it can be used here."""
    try:
        place = as_device(location)
        if place.type not in ("cpu", "meta"):
            plugin(place.type)
        return place
    except (RuntimeError, ImportError) as error:
        raise RuntimeError(
            f"load: the file holds tensors of device {str(location)!r}, which cannot be used here ({error}). "
            "Pass map_location='cpu' to have them in main memory"
        ) from error
